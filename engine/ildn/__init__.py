"""ILDN: a network of ellipsoids that follow the local distribution of a stream."""

from resonance.engine.ildn.engine import ILDN

__all__ = ["ILDN"]
