"""From a stream's raw features to the prepared values that an engine sees, and back to the input's units."""

from resonance.engine.prepare.parameters import WARMUP_RECORDS
from resonance.engine.prepare.preparation import REVISION, Preparation

__all__ = ["REVISION", "WARMUP_RECORDS", "Preparation"]
