"""MLCA, and its two forms for attributes on different scales."""

from collections.abc import Mapping
from dataclasses import replace
from typing import Any, ClassVar, NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray
from resonance.engine.base import (
    BoolArray,
    FloatArray,
    GroupChange,
    IntArray,
    Label,
    LabelAnswers,
    ModelFacts,
    Prediction,
    Step,
)
from resonance.engine.correntropy import bandwidth_factors
from resonance.engine.errors import RecordError
from resonance.engine.events import E_RECORD, SHAPE_HEAD, drained, new_log
from resonance.engine.labels import LabelEngine, checked_label, label_sets
from resonance.engine.mlca import layout
from resonance.engine.mlca.layout import FEWEST_LABELS, FEWEST_SLOTS, Groups, Held, Rules
from resonance.engine.mlca.learn import CRITERIA, learn_batch, note_groups, predict_batch
from resonance.engine.parameters import Parameter, filled
from resonance.engine.shell import SingleModelEngine, arrays_of, empty_prediction, empty_step
from resonance.kernels.lists import entry, length
from resonance.kernels.table import checked, more_slots, packed, put, require, resized, room_for


class Marks(NamedTuple):
    """Which records of a batch teach, and their labels by number: those of record t from ``starts[t]`` on."""

    teaches: BoolArray
    starts: IntArray
    owned: IntArray


Answers = tuple[IntArray, FloatArray, BoolArray, IntArray, FloatArray]
"""What the kernel fills: the arrays of a step, and the probabilities of labels."""


class MultiLabel(SingleModelEngine, LabelEngine):
    """Nodes that know how often their records had each label."""

    revision: ClassVar[int] = 1
    parameters: ClassVar[tuple[Parameter, ...]] = (
        Parameter("vigilance", float, 0.3, "CIM above which a record founds a node", 0, 1),
        Parameter("lambda", int, 50, "last records, which give the bandwidths", 2, 10_000),
        Parameter("k", int, 10, "nearest nodes that labels are read from", 2, 1000),
        Parameter("smoothing", float, 1.0, "count that every case has before it is seen", 0, 1_000_000, open_low=True),
        Parameter(
            "warmup",
            str,
            "growing",
            "the first lambda records: learned as they come (growing), or held back (buffer)",
            choices=("growing", "buffer"),
        ),
        Parameter("max_nodes", int, 10_000, "most nodes; beyond it the longest idle one goes", 1, 1_000_000),
        Parameter("max_labels", int, 1000, "most labels", 1, 100_000),
    )
    presets: ClassVar[dict[str, dict[str, Any]]] = {"paper": {"warmup": "buffer"}}
    criteria = CRITERIA
    untouched: ClassVar[Mapping[str, Any]] = {"labels": []}
    pooled: ClassVar[bool]
    clustered: ClassVar[bool]

    def __init__(self, **given: Any) -> None:
        super().__init__(**given)
        self._table: list[Label] = []
        self._held: list[tuple[FloatArray, IntArray]] = []
        self._changes = new_log()

    def _begin(self, dimension: int, slots: int = FEWEST_SLOTS, labels: int = FEWEST_LABELS) -> None:
        self.dimension, given = dimension, self._given
        forms = {"pooled": self.pooled, "clustered": self.clustered}
        self._rules = filled(Rules, given, d=dimension, **forms, interval=given["lambda"], neighbours=given["k"])
        self._factors = bandwidth_factors(dimension, given["lambda"])
        self._line_factors = bandwidth_factors(1, given["lambda"])
        self._nodes = layout.new_nodes(self._rules, slots, labels)

    @property
    def labels(self) -> tuple[Label, ...]:  # noqa: D102
        return tuple(self._table[: self._nodes.known]) if self.dimension else ()

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

    def learn(self, X: ArrayLike, labels: Any = None) -> Step:  # noqa: D102
        batch = self._checked(X)
        table, marks = self._numbered(label_sets(labels, len(batch)))
        step, probabilities = empty_step(len(batch)), np.empty((len(batch), 0))
        if self.dimension or marks.teaches.any():
            if not self.dimension:
                self._begin(batch.shape[1])
            self._table = table
            self._make_room(labels=len(table))
            probabilities = np.full((len(batch), self._nodes.labels.shape[1]), np.nan)
            self._learn(batch, (marks, probabilities), step)
        step = replace(step, labels=self._label_answers(probabilities), events=self._events())
        changes = drained(self._changes)[0].astype(np.int64).reshape(-1, 3)
        step.groups.extend(GroupChange(*change) for change in changes.tolist())
        return step

    def _learn(self, batch: FloatArray, labels: tuple[Marks, FloatArray], step: Step) -> None:
        """Learn a batch; `labels` are its marks, and room for the probabilities."""
        marks, answers = labels[0], (*arrays_of(step), labels[1])
        start = self._hold(batch, marks, answers) if self._waits else 0
        self._run(batch, marks, answers, start, False)

    @property
    def _waits(self) -> bool:
        """Whether records are held back until there are lambda."""
        return self._given["warmup"] == "buffer" and not self._nodes.learned

    def _hold(self, batch: FloatArray, marks: Marks, answers: Answers) -> int:
        """Hold records back; when there are lambda learn them. Return where the batch goes on."""
        interval, nodes = self._rules.interval, self._nodes
        for t in np.flatnonzero(marks.teaches).tolist():
            self._held.append((batch[t].copy(), marks.owned[marks.starts[t] : marks.starts[t + 1]].copy()))
            if len(self._held) < interval:
                continue
            X, owned = np.stack([x for x, _ in self._held]), [labels for _, labels in self._held]
            self._held = []
            starts = np.cumsum([0, *map(len, owned)])
            whole = Marks(np.ones(interval, dtype=np.bool_), starts, np.concatenate(owned))
            nodes.window[:] = X
            nodes.known = int(whole.owned.max(initial=-1)) + 1
            if self._rules.clustered:
                note_groups(nodes, self._rules, self._line_factors, t, self._changes)
            step, unknown = empty_step(interval), np.full((interval, nodes.labels.shape[1]), np.nan)
            self._run(X, whole, (*arrays_of(step), unknown), 0, True)
            for at in range(length(self._log)):
                entry(self._log, at)[E_RECORD] = t
            answers[3][t], answers[2][t] = step.path[-1], step.novel[-1]
            return t + 1
        return len(batch)

    def _run(self, batch: FloatArray, marks: Marks, answers: Answers, start: int, held: bool) -> None:
        """Answer for a batch from `start` on, and learn what teaches."""
        fixed, at = (self._rules, self._factors, self._line_factors, batch, marks), start
        while (at := learn_batch(self._nodes, *fixed, at, held, self._log, self._changes, answers)) < len(batch):
            self._make_room(node=True)

    def _make_room(self, labels: int = 0, node: bool = False) -> None:
        """Make room for so many labels, or for another node."""
        slots, room = self._nodes.labels.shape
        self._nodes = resized(self._nodes, slots=more_slots(slots) if node else slots, known=room_for(labels, room))

    def _label_answers(self, probabilities: FloatArray) -> LabelAnswers:
        known = self.labels
        return LabelAnswers(known, probabilities[:, : len(known)].copy())

    def _no_prediction(self, count: int) -> Prediction:
        unknown = np.full((count, len(self.labels)), np.nan)
        return replace(empty_prediction(count), labels=self._label_answers(unknown))

    def _predict(self, batch: FloatArray, answer: Prediction) -> None:
        assert answer.labels is not None  # noqa: S101
        predict_batch(self._nodes, self._rules, batch, answer.cluster, answer.score, answer.labels.probabilities)

    def _order(self) -> IntArray:
        """Return the slots in the order of their ids."""
        return np.argsort(self._nodes.id[: self._nodes.count])

    def _shapes(self) -> FloatArray:
        nodes, order = self._nodes, self._order()
        shapes = np.zeros((len(order), SHAPE_HEAD + 2 * self.dimension))
        shapes[:, 0], shapes[:, 1], shapes[:, 2] = nodes.id[order], nodes.size[order], 1
        shapes[:, SHAPE_HEAD : SHAPE_HEAD + self.dimension] = nodes.weights[:, order].T
        return shapes

    def _facts(self) -> ModelFacts:
        """Return how many records were learned; since when a cluster is there is not kept."""
        ids = self._nodes.id[self._order()].tolist()
        return ModelFacts((), self._nodes.learned, {}, {each: each for each in ids})

    def _header(self) -> dict[str, Any]:
        return {"labels": self._table}

    def _packed(self) -> dict[str, NDArray[Any]]:
        nodes, owned = self._nodes, [labels for _, labels in self._held]
        arrays = packed(nodes, slots=nodes.count, known=len(self.labels), recent=nodes.learned)
        if self.clustered:
            arrays["group"] = nodes.group
        if owned:
            labels = np.stack([np.repeat(np.arange(len(owned)), list(map(len, owned))), np.concatenate(owned)], axis=1)
            arrays |= {"held": np.stack([x for x, _ in self._held]), "held_labels": labels}
        return arrays

    def _restore(self, dimension: int, header: Mapping[str, Any], arrays: Mapping[str, NDArray[Any]]) -> None:
        given, labels = self._given, header["labels"]
        require(isinstance(labels, list) and len(labels) <= given["max_labels"], "labels")
        self._table = [checked_label(0, label) for label in labels]
        require(len(set(self._table)) == len(labels), "a label that comes twice")
        each = 1 if self.pooled else dimension
        found = checked(layout.Nodes, arrays, d=dimension, bandwidths=each, ranks=given["k"] + 1)
        records, k, known = found["learned"], found["slots"], found["known"]
        require(k <= given["max_nodes"] and k <= found["next_id"] and (k > 0) == (records > 0), "nodes")
        require(found["recent"] == min(records, given["lambda"]) and known == (len(labels) if records else 0), "sizes")
        if not records:
            # Without a record of that dimension there would be room for nothing.
            require(given["warmup"] == "buffer", "records that are held back")
            kept = checked(Held, arrays, d=dimension, labels=len(labels))
            owner, own = kept["owner"], kept["label"]
            require(0 < kept["waiting"] < given["lambda"], "records that are held back")
            require((np.diff(owner * max(len(labels), 1) + own) > 0).all(), "the order of their labels")
            require(len(np.unique(own)) == len(labels), "a label that no record has")
            self._held = [(x.copy(), own[owner == at].copy()) for at, x in enumerate(kept["held"])]
        self._begin(dimension, room_for(k, FEWEST_SLOTS, more_slots), room_for(len(labels), FEWEST_LABELS))
        nodes = self._nodes
        put(nodes, found)
        nodes.count, nodes.events, nodes.known = k, 2 * found["next_id"] - k, known
        if self.clustered:
            nodes.group[:] = group = checked(Groups, arrays, d=dimension)["group"]
            layout.list_groups(nodes)
            require((nodes.group == group).all(), "the order of groups")
        layout.sum_bandwidths(nodes)
        if self.pooled:
            nodes.sorted[:k] = np.sort(nodes.sigma[:k, 0])

    @classmethod
    def compile(cls) -> None:  # noqa: D102
        for warmup in ("growing", "buffer"):
            model = cls.make({"warmup": warmup, "lambda": 2})
            model.learn(np.array([[0.0, 1.0], [1.0, 0.0], [1.0, 0.5]]), [["a"], ["b", 1], []])
            model.predict(np.zeros((1, 2)))
            cls.from_state(model.state()).clusters()


class MLCA(MultiLabel):
    """Multi-label classification by adaptive resonance.

    A record with labels is learned by the node nearest to it by CIM, if that is within the vigilance, else it founds a
    node. Nodes count the labels of their records. How probable a label is for a record follows by Bayes' rule from how
    often the label comes at all and from its share among the nearest nodes, against the shares that records with and
    without the label have seen so far.

    Notes
    -----
    A node that goes takes its labels out of the neighbourhoods of records to come. The prior stays the share of all
    learned records, like the likelihoods, which cannot be taken back either: Bayes' rule wants both from the same
    records.

    References
    ----------
    N. Masuyama, Y. Nojima, C. K. Loo, H. Ishibuchi, "Multi-label classification via adaptive resonance theory-based
    clustering", IEEE Transactions on Pattern Analysis and Machine Intelligence 45(7), 2023.

    Examples
    --------
    >>> import numpy as np
    >>> from resonance.engine import MLCA
    >>> rng = np.random.default_rng(0)
    >>> X = rng.random((2000, 2))
    >>> Y = [{name for name, high in zip(("right", "up"), x > 0.5) if high} for x in X]
    >>> model = MLCA()
    >>> step = model.learn(X, Y)
    >>> answer = model.predict(np.array([[0.9, 0.1], [0.2, 0.8]])).labels
    >>> answer.labels
    ('right', 'up')
    >>> (answer.probabilities > 0.5).tolist()
    [[True, False], [False, True]]
    """

    name: ClassVar[str] = "mlca"
    pooled: ClassVar[bool] = True
    clustered: ClassVar[bool] = False


class MLCAI(MultiLabel):
    """MLCA with a bandwidth for each attribute: CIM is the mean of the attributes' own (28)-(30).

    For attributes on different scales. Parameters, notes and references: `MLCA`. The bandwidth of an attribute is the
    mean of the nodes', in learning and in prediction.
    """

    name: ClassVar[str] = "mlca_i"
    pooled: ClassVar[bool] = False
    clustered: ClassVar[bool] = False


class MLCAC(MultiLabel):
    """MLCA with a bandwidth for each group of attributes: CIM is the mean of the groups' (31)-(33).

    Every `lambda_` records the means of the attributes over the last `lambda_` records are clustered, as records of one
    attribute, with the same vigilance; until then all are one group. Attributes that did not vary in those records are
    one group. When the number of groups changes `Step.groups` says so. Parameters, notes and references: `MLCA`.
    """

    name: ClassVar[str] = "mlca_c"
    pooled: ClassVar[bool] = False
    clustered: ClassVar[bool] = True
