"""What MLCA, MLCA-I and MLCA-C share: batches in, answers, events and clusters out, and the state."""

from collections.abc import Sequence
from typing import Any, ClassVar, NamedTuple, Self

import numpy as np
from numba import types
from numba.typed import List
from numpy.typing import ArrayLike, NDArray
from resonance.engine.base import (
    BoolArray,
    Cluster,
    FloatArray,
    GroupChange,
    IntArray,
    Label,
    LabelAnswers,
    Prediction,
    Step,
    check_batch,
)
from resonance.engine.correntropy import bandwidth_factors
from resonance.engine.errors import ParameterError, RecordError, StateError
from resonance.engine.events import E_RECORD, events_from
from resonance.engine.facts import ModelFacts, Path
from resonance.engine.labels import LabelEngine, LabelSet, label_sets
from resonance.engine.mlca.batch import CRITERIA, T_HEAD, learn_batch, predict_batch, tell_groups
from resonance.engine.mlca.layout import FEWEST_LABELS, FEWEST_SLOTS, KNOWN, K, N, Rules, more_slots, new_nodes, resized
from resonance.engine.mlca.model_state import check_dimension, packed, table_of, unpacked
from resonance.engine.parameters import Parameter, filled
from resonance.engine.state import pack, unpack


class Marks(NamedTuple):
    """Which records of a batch teach, and their labels by number: those of record t from ``starts[t]`` on."""

    teaches: BoolArray
    starts: IntArray
    owned: IntArray


class Answers(NamedTuple):
    """What the kernel fills for n records."""

    cluster: IntArray
    score: FloatArray
    novel: BoolArray
    path: IntArray
    probabilities: FloatArray

    @classmethod
    def empty(cls, count: int, labels: int) -> Self:
        """Return answers that say nothing."""
        nowhere = np.full((2, count, 1), -1, dtype=np.int64)
        unknown = np.full((count, labels), np.nan)
        return cls(nowhere[0], np.full(count, np.nan), np.zeros(count, dtype=np.bool_), nowhere[1], unknown)


class MultiLabel(LabelEngine):
    """Nodes that know how often their records had each label."""

    name: ClassVar[str]
    revision: ClassVar[int] = 1
    parameters: ClassVar[tuple[Parameter, ...]] = (
        Parameter("vigilance", float, 0.3, "CIM above which a record founds a node of its own", 0, 1),
        Parameter("lambda", int, 50, "last records that bandwidths are taken from", 2, 10_000),
        Parameter("k", int, 10, "nearest nodes that labels are read from", 2, 1000),
        Parameter("smoothing", float, 1.0, "count that every case has before it is seen", 0, 1_000_000, open_low=True),
        Parameter(
            "warmup",
            str,
            "growing",
            "the first lambda records: each learned as it comes, or held back and learned together",
            choices=("growing", "buffer"),
        ),
        Parameter(
            "max_nodes", int, 10_000, "nodes of one model; beyond it the one that won longest ago goes", 1, 1_000_000
        ),
        Parameter("max_labels", int, 1000, "most labels of a model", 1, 100_000),
    )
    presets: ClassVar[dict[str, dict[str, Any]]] = {"paper": {"warmup": "buffer"}}
    pooled: ClassVar[bool]
    clustered: ClassVar[bool]

    def __init__(self, **given: Any) -> None:
        super().__init__(**given)
        self._table: list[Label] = []
        self._held: list[tuple[FloatArray, IntArray]] = []

    def _begin(self, dimension: int) -> None:
        """Take the dimension of the first record that teaches."""
        self.dimension = dimension
        given = self._given
        self._rules = filled(
            Rules,
            given,
            d=dimension,
            pooled=self.pooled,
            clustered=self.clustered,
            interval=given["lambda"],
            neighbours=given["k"],
        )
        self._factors = bandwidth_factors(dimension, given["lambda"])
        self._line_factors = bandwidth_factors(1, given["lambda"])
        self._nodes = new_nodes(self._rules, FEWEST_SLOTS, FEWEST_LABELS)
        self._log, self._changes = List.empty_list(types.float64[::1]), List.empty_list(types.int64[::1])

    @property
    def labels(self) -> tuple[Label, ...]:  # noqa: D102
        return tuple(self._table[: self._nodes.head[KNOWN]]) if self.dimension else ()

    def _numbered(self, sets: list[tuple[Label, ...] | None]) -> tuple[list[Label], Marks]:
        """Return the table of labels with the new ones of a batch, and the batch's marks."""
        table, most = list(self._table), self._given["max_labels"]
        number = {label: at for at, label in enumerate(table)}
        starts, owned = [0], list[int]()
        for index, labels in enumerate(sets):
            for label in labels or ():
                if label not in number:
                    if len(table) == most:
                        raise RecordError(index, f"label {label!r} is one more than max_labels = {most:,}")
                    number[label] = len(table)
                    table.append(label)
            owned += sorted(number[label] for label in labels or ())
            starts.append(len(owned))
        teaches = np.array([labels is not None for labels in sets], dtype=np.bool_)
        return table, Marks(teaches, np.array(starts, dtype=np.int64), np.array(owned, dtype=np.int64))

    def learn(  # noqa: D102
        self, X: ArrayLike, labels: Sequence[int] | NDArray[np.int64] | Sequence[LabelSet | None] | None = None
    ) -> Step:
        return self.trace(X, labels)[0]

    def trace(
        self,
        X: ArrayLike,
        labels: Sequence[int] | NDArray[np.int64] | Sequence[LabelSet | None] | None = None,
        told: bool = False,
    ) -> tuple[Step, FloatArray]:
        """Learn a batch; with `told` the second result has a row for each record that was learned, in that order.

        See `batch` for its columns; the ids of the nearest nodes follow, then the membership of each label.
        """
        batch = check_batch(X, self.dimension)
        table, marks = self._numbered(label_sets(labels, len(batch)))
        if not self.dimension and not marks.teaches.any():
            return self._step(Answers.empty(len(batch), 0)), np.empty((0, T_HEAD))
        if not self.dimension:
            self._begin(batch.shape[1])
        self._table = table
        self._make_room(labels=len(table))
        answers = Answers.empty(len(batch), self._nodes.labels.shape[1])
        start, rows = 0, []
        if self._waits:
            start, first = self._hold(batch, marks, answers, told)
            rows.append(first)
        rows.append(self._run(batch, marks, answers, start, False, told))
        step = self._step(answers)
        return step, np.concatenate(rows)

    @property
    def _waits(self) -> bool:
        """Whether records are held back until there are lambda."""
        return self._given["warmup"] == "buffer" and not self._nodes.head[N]

    def _hold(self, batch: FloatArray, marks: Marks, answers: Answers, told: bool) -> tuple[int, FloatArray]:
        """Hold records back; when there are lambda learn them. Return where the batch goes on, and what is told."""
        d, interval = self._rules.d, self._rules.interval
        for t in np.flatnonzero(marks.teaches).tolist():
            self._held.append((batch[t].copy(), marks.owned[marks.starts[t] : marks.starts[t + 1]].copy()))
            if len(self._held) < interval:
                continue
            X, owned = np.stack([x for x, _ in self._held]), [labels for _, labels in self._held]
            self._held = []
            starts = np.cumsum([0, *map(len, owned)])
            whole = Marks(np.ones(interval, dtype=np.bool_), starts, np.concatenate(owned))
            nodes = self._nodes
            nodes.window[: interval * d] = X.ravel()
            nodes.head[KNOWN] = int(whole.owned.max(initial=-1)) + 1
            if self._rules.clustered:
                tell_groups(nodes, self._rules, self._line_factors, t, self._changes)
            first = Answers.empty(interval, nodes.labels.shape[1])
            rows = self._run(X, whole, first, 0, True, told)
            for row in self._log:
                row[E_RECORD] = t
            answers.path[t], answers.novel[t] = first.path[-1], first.novel[-1]
            return t + 1, rows
        return len(batch), np.empty((0, self._columns))

    @property
    def _columns(self) -> int:
        """Columns of what a step tells."""
        return T_HEAD + self._rules.neighbours + len(self._nodes.records)

    def _run(self, batch: FloatArray, marks: Marks, answers: Answers, start: int, held: bool, told: bool) -> FloatArray:
        """Answer for a batch from `start` on, learn what teaches, and return what is told."""
        rows = np.empty((len(batch) if told else 0, self._columns))
        at = start
        while True:
            at = learn_batch(
                self._nodes, self._rules, self._factors, self._line_factors, batch, *marks, at, held, self._log,
                self._changes, *answers, rows,
            )  # fmt: skip
            if at == len(batch):
                return rows[start:][marks.teaches[start:]] if told else rows
            self._make_room(node=True)

    def _make_room(self, labels: int = 0, node: bool = False) -> None:
        """Make room for so many labels, or for another node."""
        slots, room = self._nodes.labels.shape
        wanted = room
        while wanted < labels:
            wanted *= 2
        if node or wanted > room:
            self._nodes = resized(self._nodes, self._rules, more_slots(slots) if node else slots, wanted)

    def _step(self, answers: Answers) -> Step:
        """Return the step of a batch, with what the logs have of it."""
        cluster, score, novel, path, _ = answers
        step = Step(cluster, score, novel, path, labels=self._label_answers(answers))
        if self.dimension:
            step.events.extend(events_from(self._log, self.dimension, CRITERIA))
            step.groups.extend(GroupChange(*change.tolist()) for change in self._changes)
            self._changes.clear()
        return step

    def _label_answers(self, answers: Answers) -> LabelAnswers:
        known = self.labels
        return LabelAnswers(known, answers.probabilities[:, : len(known)].copy())

    def predict(self, X: ArrayLike) -> Prediction:  # noqa: D102
        batch = check_batch(X, self.dimension)
        answers = Answers.empty(len(batch), len(self.labels))
        if self.dimension and len(batch):
            cluster, score, _, _, probabilities = answers
            predict_batch(self._nodes, self._rules, batch, cluster, score, probabilities)
        none = np.full(len(batch), -1, dtype=np.int64)
        return Prediction(answers.cluster, answers.score, none, self._label_answers(answers))

    def clusters(self) -> list[Cluster]:  # noqa: D102
        if not self.dimension:
            return []
        found, spread = self.nodes, np.zeros(self.dimension)
        return [
            Cluster(number, (), size, 1, weight.copy(), spread.copy())
            for number, size, weight in zip(found["id"].tolist(), found["count"].tolist(), found["weight"], strict=True)
        ]

    def models(self) -> dict[Path, ModelFacts]:
        """Return how many records were learned; since when a cluster is there is not kept."""
        if not self.dimension:
            return {}
        ids = self.nodes["id"].tolist()
        return {(): ModelFacts((), int(self._nodes.head[N]), {}, {each: each for each in ids})}

    def state(self) -> bytes:  # noqa: D102
        header: dict[str, Any] = {"parameters": self._given, "dimension": self.dimension, "labels": self._table}
        arrays = packed(self._nodes, self._rules, self._held, len(self.labels)) if self.dimension else {}
        return pack(self.name, self.revision, header, arrays)

    @classmethod
    def from_state(cls, data: bytes) -> Self:  # noqa: D102
        header, arrays = unpack(data, cls.name, cls.revision)
        try:
            model = cls.make(dict(header["parameters"]))
            dimension = header["dimension"]
        except (KeyError, TypeError, ValueError, ParameterError) as error:
            raise StateError(f"the state of {cls.name} cannot be read: {error}") from error
        if type(dimension) is not int or dimension < 0:
            raise StateError(f"the state of {cls.name} cannot be read: dimension = {dimension!r}")
        if dimension == 0:
            return model
        check_dimension(arrays, dimension, model._given["warmup"] == "buffer", cls.name)
        model._table = table_of(header.get("labels"), model._given["max_labels"], cls.name)
        model._begin(dimension)
        model._nodes, model._held = unpacked(arrays, model._rules, len(model._table), cls.name)
        return model

    @classmethod
    def compile(cls) -> None:
        """Compile every kernel, or load it from the cache, before the first record comes."""
        for warmup in ("growing", "buffer"):
            model = cls.make({"warmup": warmup, "lambda": 2})
            labels: list[LabelSet] = [["a"], ["b", 1], []]
            model.learn(np.array([[0.0, 1.0], [1.0, 0.0], [1.0, 0.5]]), labels)
            model.predict(np.zeros((1, 2)))
            model.clusters()
            cls.from_state(model.state())

    @property
    def nodes(self) -> dict[str, NDArray[Any]]:
        """The present nodes, by id.

        Returns
        -------
        dict
            ``id``, ``count``, ``weight`` (K, d), ``sigma`` (K, d), of MLCA (K, 1), and ``labels`` (K, known labels):
            records of the node that had the label.
        """
        if not self.dimension:
            raise StateError("there are no nodes before the first record with labels")
        nodes, known = self._nodes, len(self.labels)
        order = np.argsort(nodes.id[: nodes.head[K]])
        weights = nodes.weights.reshape(self.dimension, -1).T
        columns = {"id": nodes.id, "count": nodes.size, "weight": weights, "sigma": nodes.sigma}
        found: dict[str, NDArray[Any]] = {name: column[order] for name, column in columns.items()}
        found["labels"] = nodes.labels[order][:, :known]
        return found

    @property
    def statistics(self) -> dict[str, NDArray[Any]]:
        """What the probabilities are computed from, by label.

        Returns
        -------
        dict
            ``records``: records that had the label; ``having`` and ``lacking`` (labels, k + 1): how often a record
            with, or without, the label saw each membership count; ``groups``: of each feature.
        """
        if not self.dimension:
            raise StateError("there are no nodes before the first record with labels")
        nodes, known = self._nodes, len(self.labels)
        found: dict[str, NDArray[Any]] = {"groups": nodes.group.copy()}
        for name, array in (("records", nodes.records), ("having", nodes.having), ("lacking", nodes.lacking)):
            found[name] = array[:known].copy()
        return found
