"""What models need of a preparation, of dense and of sparse records alike."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple, Protocol

from resonance.engine.base import Cluster, Engine, FloatArray, IntArray


@dataclass(frozen=True, slots=True)
class RangeChange:
    """A feature has another range than before; `before` and `after` are its ends, in the units of the input."""

    feature: str
    before: tuple[float, float]
    after: tuple[float, float]


class Rescaling(NamedTuple):
    """What was a prepared value x of a column is ``factor * x + shift`` from now on."""

    factor: FloatArray
    """Shape (dimension,), like `shift`."""
    shift: FloatArray
    changes: list[RangeChange]
    """The features of which that changes something."""


class Described(NamedTuple):
    """Centre and spread of a cluster by feature, in the units of the input."""

    names: Sequence[str]
    centre: FloatArray
    """Shape (len(names),), like `spread`."""
    spread: FloatArray


class AnyPreparation(Protocol):
    """From the decoded records of a stream to what an engine learns, and back; `Preparation` documents each member.

    The records, and what `apply` makes of them, are dense or sparse, as the class is made for.
    """

    @property
    def ready(self) -> bool:
        """Nothing more has to be held."""

    @property
    def wanted(self) -> int:
        """Records that `hold` still takes before it is time to `freeze`."""

    @property
    def held(self) -> int:
        """Records that are held now."""

    @property
    def room(self) -> int | None:
        """Records that can be prepared before it is time to `rescale`; None where that never is."""

    @property
    def dimension(self) -> int:
        """Values of a prepared record; 0 where its length is not fixed."""

    @property
    def columns(self) -> tuple[str, ...]:
        """Names of the columns that clusters are described in; empty where no feature is in every record."""

    @property
    def features(self) -> tuple[str, ...]:
        """Names of the features of every record."""

    @property
    def known_features(self) -> list[str]:
        """Names of the features that were met so far."""

    @property
    def clip(self) -> bool:
        """Prepared values lie in [0, 1]."""

    @property
    def compared(self) -> int:
        """Values compared with their range so far."""

    @property
    def outside(self) -> int:
        """Compared values that were outside."""

    def hold(self, rows: Any, /) -> None:
        """Keep records of the warm-up."""

    def freeze(self) -> Any:
        """Learn from the held records and return these, prepared."""

    def apply(self, rows: Any, /) -> Any:
        """Prepare records."""

    def check(self, rows: Any, /) -> Mapping[int, Any]:
        """Return what is wrong with which record."""

    def rescale(self) -> Rescaling | None:
        """Freeze ranges anew that their values have left; None where nothing changes."""

    def describe(self, cluster: Cluster) -> Described:
        """Return the centre and the spread of a cluster in the units of the input."""

    def names_of(self, features: IntArray) -> list[str]:
        """Return the names of what an engine knows by number."""

    def check_engine(self, engine: Engine, state: bytes) -> None:
        """Raise `StateError` for an engine, read from `state`, that has not learned what this prepares."""

    def state(self) -> bytes:
        """Return everything that the next record depends on."""
