"""The eVQ family: ellipsoidal clusters that follow the data, merge and split."""

from resonance.engine.evq.engine import EVQ

__all__ = ["EVQ"]
