"""Changes of a stream: where, when, and what changed."""

from resonance.engine.drift.layout import STRIDE
from resonance.engine.drift.watch import ChangedChannel, ChangedUnit, DriftChange, DriftWatch, Mark

__all__ = ["STRIDE", "ChangedChannel", "ChangedUnit", "DriftChange", "DriftWatch", "Mark"]
