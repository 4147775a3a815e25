"""From a stream's raw features to the prepared values that an engine sees, and back to the input's units."""

from resonance.engine.prepare.parameters import WARMUP_RECORDS
from resonance.engine.prepare.preparation import REVISION, Preparation
from resonance.engine.prepare.principal_axes import MAX_AXES
from resonance.engine.prepare.range_watch import LOOK

__all__ = ["LOOK", "MAX_AXES", "REVISION", "WARMUP_RECORDS", "Preparation"]
