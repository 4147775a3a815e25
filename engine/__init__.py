"""Engines that cluster streams: plain arrays in, plain results out."""

from resonance.engine.cache import prepare_cache

prepare_cache()  # before anything imports numba

from collections.abc import Mapping  # noqa: E402
from typing import Any  # noqa: E402

from resonance.engine.base import (  # noqa: E402
    Cluster,
    Engine,
    Event,
    GroupChange,
    Label,
    LabelAnswers,
    Prediction,
    Reason,
    Salience,
    Step,
)
from resonance.engine.caea import CAEA  # noqa: E402
from resonance.engine.errors import EngineError, ParameterError, RecordError, StateError  # noqa: E402
from resonance.engine.evq import EVQ  # noqa: E402
from resonance.engine.hcaea import (  # noqa: E402
    HCAEA,
    HCAEARoot,
    HCAEASubtree,
    Operations,
    RootStep,
    SubtreeStep,
)
from resonance.engine.ildn import ILDN  # noqa: E402
from resonance.engine.labels import LabelEngine, LabelSet  # noqa: E402
from resonance.engine.mlca import MLCA, MLCAC, MLCAI  # noqa: E402
from resonance.engine.modal import Modal  # noqa: E402
from resonance.engine.parameters import Parameter  # noqa: E402
from resonance.engine.sa_art import SAART, FuzzyART  # noqa: E402
from resonance.engine.sparse import SparseBatch, SparseEngine  # noqa: E402

__all__ = [
    "CAEA",
    "ENGINES",
    "EVQ",
    "HCAEA",
    "ILDN",
    "MLCA",
    "MLCAC",
    "MLCAI",
    "PARTS",
    "SAART",
    "Cluster",
    "Engine",
    "EngineError",
    "Event",
    "FuzzyART",
    "GroupChange",
    "HCAEARoot",
    "HCAEASubtree",
    "Label",
    "LabelAnswers",
    "LabelEngine",
    "LabelSet",
    "Modal",
    "Operations",
    "Parameter",
    "ParameterError",
    "Prediction",
    "Reason",
    "RecordError",
    "RootStep",
    "Salience",
    "SparseBatch",
    "SparseEngine",
    "StateError",
    "Step",
    "SubtreeStep",
    "make_engine",
]

ENGINES: dict[str, type[Engine]] = {
    engine.name: engine for engine in (Modal, CAEA, HCAEA, EVQ, ILDN, FuzzyART, SAART, MLCA, MLCAI, MLCAC)
}
"""Every engine by its name in settings."""

PARTS: dict[str, type[HCAEARoot] | type[HCAEASubtree]] = {part.name: part for part in (HCAEARoot, HCAEASubtree)}
"""The two parts of HCAEA, for tasks that hold one of them alone."""


def make_engine(name: str, parameters: Mapping[str, Any]) -> Engine:
    """Return a new engine.

    Parameters
    ----------
    name : str
        A key of `ENGINES`.
    parameters : mapping of str to object
        Parameters by the names that settings use, such as ``lambda``.

    Raises
    ------
    ParameterError
        No such engine, no such parameter, or a value outside its range.
    """
    if name not in ENGINES:
        raise ParameterError("engine", name, "one of " + ", ".join(ENGINES))
    return ENGINES[name].make(parameters)
