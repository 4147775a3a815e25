"""What every engine does around its kernels: batches, answers, events, clusters, and the state."""

import abc
from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import cached_property
from typing import Any, ClassVar, Self

import numpy as np
from numpy.typing import NDArray
from resonance.engine.base import (
    BoolArray,
    Cluster,
    Engine,
    Event,
    FloatArray,
    IntArray,
    ModelFacts,
    Path,
    Prediction,
    Step,
    check_batch,
)
from resonance.engine.errors import EngineError, StateError
from resonance.engine.events import cluster_of, events_from, new_log
from resonance.engine.labels import record_labels
from resonance.engine.parameters import Parametrised
from resonance.engine.state import pack, unpack
from resonance.kernels.table import require


def empty_step(count: int, depth: int = 1) -> Step:
    """Return room for the answers of `count` records."""
    nowhere = np.full((2, count, depth), -1, dtype=np.int64)
    return Step(nowhere[0], np.full(count, np.nan), np.zeros(count, dtype=np.bool_), nowhere[1])


def arrays_of(step: Step) -> tuple[IntArray, FloatArray, BoolArray, IntArray]:
    """Return the arrays of a step in the order in which kernels take them."""
    return step.cluster, step.score, step.novel, step.path


def empty_prediction(count: int, depth: int = 1) -> Prediction:
    """Return room for the answers of `count` records that are not learned."""
    cluster, label = np.full((count, depth), -1, dtype=np.int64), np.full(count, -1, dtype=np.int64)
    return Prediction(cluster, np.full(count, np.nan), np.zeros(count, dtype=np.bool_), label)


class Stored(Parametrised, abc.ABC):
    """What has a state: its parameters, and the arrays of what it has learned once there is something."""

    name: ClassVar[str]
    revision: ClassVar[int]
    oldest: ClassVar[int] = 0
    """The oldest revision whose states go on; 0 for its own."""
    untouched: ClassVar[Mapping[str, Any]] = {}
    """Further members of the header of a state without a model."""
    most_features: ClassVar[int | None] = None
    dimension: int = 0

    def __init__(self, **given: Any) -> None:
        super().__init__(**given)
        self._classes = 0
        """Classes that have come; a model has room for more."""

    @cached_property
    def _log(self) -> Any:
        """Rows of events; made with the first record, so that who checks parameters waits for no kernel."""
        return new_log()

    @abc.abstractmethod
    def _packed(self) -> dict[str, NDArray[Any]]:
        """Return the model as the arrays of its state."""

    @abc.abstractmethod
    def _restore(self, dimension: int, header: Mapping[str, Any], arrays: Mapping[str, NDArray[Any]]) -> None:
        """Take the model from its state; KeyError, TypeError, ValueError or EngineError where it holds none."""

    @property
    def _begun(self) -> bool:
        """Whether there is a model."""
        return self.dimension > 0

    @classmethod
    def _made(cls, header: Mapping[str, Any]) -> Self:
        """Return an empty one with the parameters of a state."""
        return cls.make(header["parameters"])

    def _header(self) -> dict[str, Any]:
        """Return further members of a state's header, once there is a model."""
        return {}

    def _whole_header(self) -> dict[str, Any]:
        own = self._header() if self._begun else self.untouched
        return {"parameters": self._given, "dimension": self.dimension, **own}

    def state(self) -> bytes:
        """Everything the next record depends on: versioned, checksummed, canonical (equal states, equal bytes)."""
        return pack(self.name, self.revision, self._whole_header(), self._packed() if self._begun else {})

    @classmethod
    def from_state(cls, data: bytes) -> Self:
        """Continue from `state` with the same bits; `StateError` where it is damaged, of another kind or newer."""
        header, arrays = unpack(data, cls.name, cls.revision, cls.oldest or cls.revision)
        try:
            model = cls._made(header)
            dimension = header["dimension"]
            usable = type(dimension) is int and 0 <= dimension <= (cls.most_features or dimension)
            require(usable, f"{dimension!r} features")
            if dimension or arrays:
                model._restore(dimension, header, arrays)
            else:
                require(header == {**model._whole_header(), "parameters": header["parameters"]}, "no arrays")
        except StateError:
            raise
        except (KeyError, TypeError, ValueError, AttributeError, IndexError, EngineError) as error:
            raise StateError(f"the state of {cls.name} does not hold what it says it holds: {error}") from error
        return model

    def __reduce__(self) -> tuple[Callable[[bytes], Self], tuple[bytes]]:
        """Be copied (`copy.copy` and `copy.deepcopy` alike) and pickled as what `state` says, never field by field.

        Kernels hold addresses of arrays, which a copy of the fields would take over.
        """
        return type(self).from_state, (self.state(),)


class KernelEngine(Stored, Engine):
    """An engine with kernels. A subclass adds its models: how they begin, learn, answer, and lie in a state."""

    criteria: ClassVar[Sequence[str]]
    """Names of the reasons of its events, by the numbers that its kernels use."""
    further: ClassVar[Mapping[str, Sequence[str]]] = {}
    """Names of the further values of some of them."""
    tried: ClassVar[Mapping[str, Any]] = {}
    """Parameters with which a few records reach every kernel."""

    @abc.abstractmethod
    def _begin(self, dimension: int) -> None:
        """Make an empty model for records of `dimension` features, and set `dimension`."""

    @abc.abstractmethod
    def _learn(self, batch: Any, labels: Any, step: Step) -> None:
        """Learn a batch, fill the arrays of `step`, and append events to the log."""

    @abc.abstractmethod
    def _predict(self, batch: Any, answer: Prediction) -> None:
        """Fill the arrays of `answer`."""

    @classmethod
    def compile(cls) -> None:  # noqa: D102
        model = cls.make(cls.tried)
        model.learn(np.arange(48.0).reshape(24, 2) % 7.0 / 7.0, labels=[0] * 24)
        model.predict(np.zeros((1, 2)))
        cls.from_state(model.state()).clusters()

    def _checked(self, X: Any, most: int | None = None) -> Any:
        """Return a batch as the kernels take it, or raise `RecordError`; `most` is of features."""
        return check_batch(X, self.dimension, most)

    def _begin_with(self, batch: Any) -> None:
        """Make an empty model for records like those of a batch."""
        self._begin(batch.shape[1])

    def _cluster(self, row: FloatArray, path: Path = ()) -> Cluster:
        """Return the cluster that a row of `_shapes`, or of an event, describes."""
        return cluster_of(row, path, self.dimension)

    def _no_prediction(self, count: int) -> Prediction:
        """Return room for the answers of `count` records that are not learned."""
        return empty_prediction(count, self.depth)

    def _no_answers(self, count: int) -> Step:
        """Return room for the answers of `count` records."""
        return empty_step(count, self.depth)

    def _events(self) -> list[Event]:
        """Return the events of the log, and empty it."""
        return events_from(self._log, self.dimension, self.criteria, self.further, self._cluster)

    def learn(self, X: Any, labels: Any = None) -> Step:  # noqa: D102
        batch = self._checked(X, self.most_features)
        marks, step = record_labels(labels, len(batch)), self._no_answers(len(batch))
        if not len(batch):
            return step
        if not self._begun:
            self._begin_with(batch)
        self._classes = max(self._classes, int(marks.max()) + 1)
        self._learn(batch, marks, step)
        step.events.extend(self._events())
        return step

    def predict(self, X: Any) -> Prediction:  # noqa: D102
        batch = self._checked(X)
        answer = self._no_prediction(len(batch))
        if self._begun and len(batch):
            self._predict(batch, answer)
        return answer


class SingleModelEngine(KernelEngine):
    """An engine of one model."""

    @abc.abstractmethod
    def _shapes(self) -> Iterable[FloatArray]:
        """Return the clusters as rows (id, size, nodes, centre, spread), or as `_cluster` reads them."""

    @abc.abstractmethod
    def _facts(self) -> ModelFacts:
        """Return what is known of the model."""

    def clusters(self) -> list[Cluster]:  # noqa: D102
        return [self._cluster(row) for row in self._shapes()] if self._begun else []

    def models(self) -> dict[Path, ModelFacts]:  # noqa: D102
        return {(): self._facts()} if self._begun else {}

    def arrays(self) -> dict[str, NDArray[Any]]:
        """Return copies of the arrays of the model by their names in a state; none before the first record."""
        return {name: array.copy() for name, array in self._packed().items()} if self._begun else {}
