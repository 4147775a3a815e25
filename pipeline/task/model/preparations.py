"""The two kinds of preparation of a stream's model: for dense rows and for sparse rows."""

from collections.abc import Sequence

from resonance.engine.base import Engine
from resonance.engine.errors import StateError
from resonance.engine.prepare import REVISION, Preparation
from resonance.engine.sparse import SparseEngine
from resonance.engine.sparse_scale import REVISION as SPARSE_REVISION
from resonance.engine.state import unpack
from resonance.pipeline.config.settings import Settings
from resonance.pipeline.task.model.sparse_preparation import SparsePreparation

AnyPreparation = Preparation | SparsePreparation

KINDS: dict[str, type[Preparation] | type[SparsePreparation]] = {"prepare": Preparation, "sparse": SparsePreparation}
"""Classes by the name of the part of a model's state that holds the preparation."""


def new_preparation(settings: Settings, features: Sequence[str]) -> AnyPreparation:
    """Return the preparation of a new model; for sparse records `features` is not used.

    Raise `ParameterError` if the settings name a feature that does not exist, or lack one.
    """
    if settings.input.sparse is None:
        return settings.preparation(features)
    return SparsePreparation(settings.sparse_scale(), settings.engine_parameters["max_features"])


def part_of(preparation: AnyPreparation) -> str:
    """Return the name of the part of a model's state that holds a preparation."""
    return "sparse" if isinstance(preparation, SparsePreparation) else "prepare"


def features_of(preparation: AnyPreparation) -> list[str]:
    """Return the names of the features that a preparation knows."""
    if isinstance(preparation, SparsePreparation):
        return preparation.dictionary
    return list(preparation.features)


def revision_of(settings: Settings) -> int:
    """Return the state revision of the preparation that the settings choose."""
    return REVISION if settings.input.sparse is None else SPARSE_REVISION


def check_engine(preparation: AnyPreparation, engine: Engine, state: bytes) -> None:
    """Raise `StateError` if an engine, read from `state`, differs from its preparation in features, bounds or form."""
    dimension = engine.dimension
    if isinstance(preparation, SparsePreparation):
        _check_sparse(preparation, engine, state)
        fits, columns = dimension <= preparation.most_known, preparation.most_known
    else:
        columns = preparation.dimension
        fits = dimension in (0, columns)
    if not fits:
        raise StateError(f"an engine of dimension {dimension} behind a preparation of {columns} columns")
    if preparation.clip != engine.unit_interval:
        raise StateError(f"{engine.name} behind a preparation with clip = {preparation.clip}")


def _check_sparse(preparation: SparsePreparation, engine: Engine, state: bytes) -> None:
    """Refuse an engine that takes no sparse records, has learned dense records, or has another ``max_features``."""
    if not isinstance(engine, SparseEngine):
        raise StateError(f"{engine.name} behind a preparation of sparse records, which it does not take")
    header, _ = unpack(state, engine.name, engine.revision)
    if header.get("fixed"):
        raise StateError(f"{engine.name} with records of fixed length behind a preparation of sparse ones")
    most = header["parameters"].get("max_features")
    if most != preparation.most:
        raise StateError(f"{engine.name} with max_features = {most} behind a preparation of {preparation.most:,}")
