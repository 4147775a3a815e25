"""Modal clustering of a stream: clusters are the hills of the density, whatever their shape."""

from resonance.engine.modal.engine import Modal

__all__ = ["Modal"]
