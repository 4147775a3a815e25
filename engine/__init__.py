"""Engines that cluster streams: plain arrays in, plain results out."""

from resonance.kernels.cache import prepare_cache

prepare_cache()  # before anything imports numba

from collections import UserDict  # noqa: E402
from collections.abc import Mapping  # noqa: E402
from importlib import import_module  # noqa: E402
from typing import TYPE_CHECKING, Any, Final  # noqa: E402

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
from resonance.engine.errors import EngineError, ParameterError, RecordError, StateError  # noqa: E402
from resonance.engine.hcaea.operations import Operations, RootStep, SubtreeStep  # noqa: E402
from resonance.engine.parameters import Parameter  # noqa: E402
from resonance.engine.sparse import SparseBatch, SparseEngine  # noqa: E402

if TYPE_CHECKING:
    from resonance.engine.caea.engine import CAEA
    from resonance.engine.evq.engine import EVQ
    from resonance.engine.hcaea.engine import HCAEA
    from resonance.engine.hcaea.parts import HCAEARoot, HCAEASubtree
    from resonance.engine.ildn.engine import ILDN
    from resonance.engine.labels import LabelEngine, LabelSet
    from resonance.engine.mlca.engine import MLCA, MLCAC, MLCAI
    from resonance.engine.modal.engine import Modal
    from resonance.engine.sa_art.engine import SAART, FuzzyART

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
    "ROOT",
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


def _imported(place: str) -> Any:
    """Return what stands at ``module.name`` below this package."""
    module, _, name = place.rpartition(".")
    return getattr(import_module(f"{__name__}.{module}"), name)


class Registry(UserDict[str, Any]):
    """Classes by name; each is imported, with its kernels, when it is looked up."""

    def __getitem__(self, name: str) -> Any:
        return _imported(self.data[name])


_ENGINES: Final = {
    "modal": "modal.engine.Modal",
    "caea": "caea.engine.CAEA",
    "hcaea": "hcaea.engine.HCAEA",
    "evq": "evq.engine.EVQ",
    "ildn": "ildn.engine.ILDN",
    "fuzzy_art": "sa_art.engine.FuzzyART",
    "sa_art": "sa_art.engine.SAART",
    "mlca": "mlca.engine.MLCA",
    "mlca_i": "mlca.engine.MLCAI",
    "mlca_c": "mlca.engine.MLCAC",
}
"""Where each engine stands below this package, by its name in settings."""

ENGINES: Mapping[str, type[Engine]] = Registry(_ENGINES)
"""Every engine by its name in settings."""

ROOT: Final = "hcaea-root"
"""Name of the part of HCAEA that is the root."""

_PARTS: Final = {ROOT: "hcaea.parts.HCAEARoot", "hcaea-subtree": "hcaea.parts.HCAEASubtree"}

PARTS: Mapping[str, "type[HCAEARoot] | type[HCAEASubtree]"] = Registry(_PARTS)
"""The two parts of HCAEA, for tasks that hold one of them alone."""

_BY_NAME: Final = {
    place.rpartition(".")[2]: place
    for place in (*_ENGINES.values(), *_PARTS.values(), "labels.LabelEngine", "labels.LabelSet")
}


def __getattr__(name: str) -> Any:
    """Import an engine when it is needed: numba and the kernels take longer than everything else."""
    if name not in _BY_NAME:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return _imported(_BY_NAME[name])


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
