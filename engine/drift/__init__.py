"""Changes of a stream: where, when, and what changed."""

from resonance.engine.drift.changes import BESIDE, ChangedChannel, ChangedUnit, DriftChange, Mark
from resonance.engine.drift.layout import STRIDE
from resonance.engine.drift.watch import DriftWatch

__all__ = ["BESIDE", "STRIDE", "ChangedChannel", "ChangedUnit", "DriftChange", "DriftWatch", "Mark"]
