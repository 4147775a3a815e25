"""The two kinds of preparation that a stream's model can have: of dense rows and of sparse ones."""

from collections.abc import Sequence

from resonance.engine.errors import StateError
from resonance.engine.prepare import Preparation
from resonance.pipeline.config import sparse
from resonance.pipeline.config.settings import Settings
from resonance.pipeline.task.sparse_preparation import SparsePreparation

AnyPreparation = Preparation | SparsePreparation

KINDS: dict[str, type[Preparation] | type[SparsePreparation]] = {"prepare": Preparation, "sparse": SparsePreparation}
"""By the part of a model's state that holds it."""


def new_preparation(settings: Settings, features: Sequence[str]) -> AnyPreparation:
    """Return the preparation of a new model.

    Parameters
    ----------
    settings : Settings
        The deployment's.
    features : sequence of str
        Names of the columns; sparse records have none beforehand.

    Raises
    ------
    ParameterError
        The settings name a feature that there is not, or lack one.
    """
    if settings.input.sparse is None:
        return settings.preparation(features)
    return SparsePreparation(
        sparse.scale_of(settings.prepare, settings.engine_class), settings.engine_parameters["max_features"]
    )


def part_of(preparation: AnyPreparation) -> str:
    """Return the part of a model's state that holds a preparation."""
    return "sparse" if isinstance(preparation, SparsePreparation) else "prepare"


def features_of(preparation: AnyPreparation) -> list[str]:
    """Return the names of the features that a preparation knows."""
    if isinstance(preparation, SparsePreparation):
        return preparation.dictionary
    return list(preparation.features)


def check_dimension(preparation: AnyPreparation, dimension: int) -> None:
    """Refuse an engine that does not belong to a preparation.

    Parameters
    ----------
    preparation : Preparation or SparsePreparation
        What stands before the engine.
    dimension : int
        Features that the engine has.

    Raises
    ------
    StateError
        They are others than the preparation gives.
    """
    if isinstance(preparation, SparsePreparation):
        fits, columns = dimension <= preparation.most_known, preparation.most_known
    else:
        columns = len(preparation.columns)
        fits = dimension in (0, columns)
    if not fits:
        raise StateError(f"an engine of dimension {dimension} behind a preparation of {columns} columns")
