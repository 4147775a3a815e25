"""From a stream's raw features to the prepared values that an engine sees, and back to the input's units."""

from resonance.engine.prepare.axes import MAX_AXES
from resonance.engine.prepare.parameters import WARMUP_RECORDS
from resonance.engine.prepare.preparation import REVISION, Preparation
from resonance.engine.prepare.rescaling import LOOK
from resonance.engine.prepare.sparse import SparsePreparation

__all__ = ["LOOK", "MAX_AXES", "REVISION", "WARMUP_RECORDS", "AnyPreparation", "Preparation", "SparsePreparation"]

AnyPreparation = Preparation | SparsePreparation
"""From the decoded records of a stream, dense or sparse, to what an engine learns, and back."""
