"""CAEA: adaptive resonance with correntropy, growing a graph of nodes from a stream."""

from resonance.engine.caea.engine import CAEA

__all__ = ["CAEA"]
