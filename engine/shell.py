"""What every engine of one model does around its kernels: batches, answers, events, clusters, and the state."""

import abc
from collections.abc import Mapping, Sequence
from typing import Any, ClassVar, Self

import numpy as np
from numba import types
from numba.typed import List
from numpy.typing import ArrayLike, NDArray
from resonance.engine.base import BoolArray, Cluster, Engine, FloatArray, IntArray, Prediction, Step, check_batch
from resonance.engine.classes import record_labels
from resonance.engine.errors import ParameterError, StateError
from resonance.engine.events import cluster_of, events_from
from resonance.engine.facts import ModelFacts, Path
from resonance.engine.state import pack, unpack


def no_answers(count: int, depth: int = 1) -> Step:
    """Return room for the answers of `count` records."""
    nowhere = np.full((2, count, depth), -1, dtype=np.int64)
    return Step(nowhere[0], np.full(count, np.nan), np.zeros(count, dtype=np.bool_), nowhere[1])


def filled_by_kernels(step: Step) -> tuple[IntArray, FloatArray, BoolArray, IntArray]:
    """Return the arrays of a step in the order in which kernels take them."""
    return step.cluster, step.score, step.novel, step.path


def no_prediction(count: int, depth: int = 1) -> Prediction:
    """Return room for the answers of `count` records that are not learned."""
    cluster, label = np.full((count, depth), -1, dtype=np.int64), np.full(count, -1, dtype=np.int64)
    return Prediction(cluster, np.full(count, np.nan), label)


class FlatEngine(Engine):
    """An engine of one model. A subclass adds the model: how it begins, learns, answers, and lies in a state."""

    criteria: ClassVar[Sequence[str]]
    """Names of the reasons of its events, by the numbers that its kernels use."""
    further: ClassVar[Mapping[str, Sequence[str]]] = {}
    """Names of the further values of some of them."""

    def __init__(self, **given: Any) -> None:
        super().__init__(**given)
        self._log = List.empty_list(types.float64[::1])

    @abc.abstractmethod
    def _begin(self, dimension: int) -> None:
        """Make an empty model for records of `dimension` features, and set `dimension`."""

    @abc.abstractmethod
    def _learn(self, batch: FloatArray, labels: IntArray, step: Step, told: bool) -> NDArray[Any]:
        """Learn a batch, fill the arrays of `step`, append events to the log.

        Returns
        -------
        ndarray
            With `told`, what `trace` tells beside the answers.
        """

    @abc.abstractmethod
    def _predict(self, batch: FloatArray, answer: Prediction) -> None:
        """Fill the arrays of `answer`."""

    @abc.abstractmethod
    def _shapes(self) -> FloatArray:
        """Return the clusters as rows (id, size, nodes, centre, spread)."""

    @abc.abstractmethod
    def _facts(self) -> ModelFacts:
        """Return what is known of the model."""

    @abc.abstractmethod
    def _packed(self) -> dict[str, NDArray[Any]]:
        """Return the model as the arrays of its state."""

    @abc.abstractmethod
    def _restore(self, dimension: int, header: Mapping[str, Any], arrays: Mapping[str, NDArray[Any]]) -> None:
        """Take the model from its state; KeyError, TypeError, ValueError or StateError where it holds none."""

    @classmethod
    def compile(cls) -> None:  # noqa: D102
        model = cls()
        model.learn(np.arange(48.0).reshape(24, 2) % 7.0, labels=[0] * 24)
        model.predict(np.zeros((1, 2)))
        cls.from_state(model.state()).clusters()

    def _header(self) -> dict[str, Any]:
        """Return further members of a state's header."""
        return {}

    def learn(self, X: ArrayLike, labels: Sequence[int] | NDArray[np.int64] | None = None) -> Step:  # noqa: D102
        return self.trace(X, labels)[0]

    def trace(
        self, X: ArrayLike, labels: Sequence[int] | NDArray[np.int64] | None = None, told: bool = False
    ) -> tuple[Step, NDArray[Any]]:
        """Learn like `learn`, and with `told` also return what the steps decided by, for tests and for the curious.

        The page of each engine in the documentation has its columns; without `told` there are no rows.
        """
        batch = check_batch(X, self.dimension, self.most_features)
        marks = record_labels(labels, len(batch))
        step = no_answers(len(batch))
        if not len(batch):
            return step, np.empty((0, 0))
        if not self.dimension:
            self._begin(batch.shape[1])
        rows = self._learn(batch, marks, step, told)
        step.events.extend(events_from(self._log, self.dimension, self.criteria, self.further))
        return step, rows

    def predict(self, X: ArrayLike) -> Prediction:  # noqa: D102
        batch = check_batch(X, self.dimension)
        answer = no_prediction(len(batch))
        if self.dimension and len(batch):
            self._predict(batch, answer)
        return answer

    def clusters(self) -> list[Cluster]:  # noqa: D102
        return [cluster_of(row, (), self.dimension) for row in self._shapes()] if self.dimension else []

    def models(self) -> dict[Path, ModelFacts]:  # noqa: D102
        return {(): self._facts()} if self.dimension else {}

    def state(self) -> bytes:  # noqa: D102
        header: dict[str, Any] = {"parameters": self._given, "dimension": self.dimension}
        if not self.dimension:
            return pack(self.name, self.revision, header, {})
        return pack(self.name, self.revision, {**header, **self._header()}, self._packed())

    @classmethod
    def from_state(cls, data: bytes) -> Self:  # noqa: D102
        header, arrays = unpack(data, cls.name, cls.revision, cls.revision)
        try:
            model = cls.make(header["parameters"])
            dimension = header["dimension"]
            if type(dimension) is not int or not 0 <= dimension <= (cls.most_features or dimension):
                raise ValueError(f"{dimension!r} features")
            if dimension or arrays:
                model._restore(dimension, header, arrays)
        except (KeyError, TypeError, ValueError, AttributeError, IndexError, ParameterError) as error:
            raise StateError(f"the state of {cls.name} does not hold what it says it holds: {error}") from error
        return model
