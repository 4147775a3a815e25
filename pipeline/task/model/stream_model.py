"""The model of one stream: its preparation, its engine, and its position in the log."""

import logging
from collections.abc import Sequence
from typing import Any, Final

import numpy as np
import orjson
from resonance.engine import ENGINES, PARTS, ROOT
from resonance.engine.base import Engine, FloatArray, IntArray, Label, Step
from resonance.engine.errors import RecordError, StateError
from resonance.engine.labels import LabelEngine
from resonance.engine.prepare import LOOK, AnyPreparation, Preparation
from resonance.engine.prepare.rescaling import Settling
from resonance.engine.prepare.sparse import SparsePreparation
from resonance.engine.state import pack, unpack
from resonance.pipeline.config.settings import Settings
from resonance.pipeline.task.alerts.missing_features import MissingFeatures
from resonance.pipeline.task.alerts.open_alerts import StreamAlerts
from resonance.pipeline.task.decode.faults import not_prepared
from resonance.pipeline.task.decode.labels import RowLabels
from resonance.pipeline.task.model import label_learning
from resonance.pipeline.task.model.examples import Examples
from resonance.pipeline.task.model.keywords import Keywords
from resonance.pipeline.task.model.label_memory import LabelMemory
from resonance.pipeline.task.model.learn_result import LearnResult
from resonance.pipeline.task.model.lifetimes import Lifetimes
from resonance.pipeline.task.model.stream_drift import Marks, StreamDrift, parts_of, release
from resonance.schemas import ClusterSnapshot

STATE_REVISION = 7
"""Raised when the members of a stream's state change."""

KIND = "stream"
"""Kind of a stream's state."""

PREPARATIONS: Final[dict[str, type[Preparation | SparsePreparation]]] = {
    "prepare": Preparation,
    "sparse": SparsePreparation,
}
"""Classes by the name of the part of a state that holds the preparation."""

_log = logging.getLogger(__name__)


def began_of(state: bytes) -> int | None:
    """Return the offset of the first record of the stream with a `StreamModel.state`; None where it was not kept."""
    found = unpack(state, KIND, STATE_REVISION)[0].get("began")
    return None if found is None else int(found)


class StreamModel:
    """A stream's model; its state depends on the stream's rows alone.

    Parameters
    ----------
    features : sequence of str
        Names of the columns of a row.
    version : int
        Raised by one with each new model of the stream.

    Attributes
    ----------
    next : int
        Offset behind the last record that the model processed.
    seq : int
        Number of the stream's next event.
    ended : list of ClusterSnapshot or None
        Clusters of the version before, until their end is emitted with the stream's next record.
    listing : list of ClusterSnapshot or None
        Clusters that were emitted and have ended while output is suppressed. Unless None, the present clusters must
        be listed with the first record that is emitted.
    lifetimes : Lifetimes
        When the clusters began, and which ended clusters the compacted topic still has.
    examples : Examples or None
        The most typical records of late of its clusters; None for a subtree, which knows no records.
    keywords : Keywords or None
        What the texts of its clusters speak of; None where records have no texts.
    last : tuple or None
        Status and cluster of the last assignment, for ``output.assignments = "changes"``.
    snapshot_bytes : int
        Size of the last snapshot.
    sent : dict of int to int
        For a root whose children live elsewhere: number of messages sent to each child.
    drifts : int
        Number of the stream's next drift event.
    drift : StreamDrift or None
        Watches what the engine learns; None where that is not wanted.
    alerts : StreamAlerts or None
        Open alerts, and what the rules know; None where no rule has been on.
    began, seen : int or None
        Offset of the stream's first record, and the partition's clock at its last one; None where streams do not end.
    labels : LabelMemory or None
        Records that can still be labelled. None where the engine learns no labels, except for labels that waited when
        it took over: these are given up with its first record.
    """

    root_node: int | None = None
    """The root node whose subtree the model is; None for a model that has a root."""

    __slots__ = (
        "alerts",
        "began",
        "drift",
        "drifts",
        "ended",
        "engine",
        "examples",
        "keywords",
        "labels",
        "last",
        "lifetimes",
        "listing",
        "name",
        "next",
        "preparation",
        "seen",
        "sent",
        "seq",
        "snapshot_bytes",
        "version",
    )

    def __init__(self, settings: Settings, name: str, features: Sequence[str], version: int = 1) -> None:
        self.name = name
        self.version = version
        self.preparation: AnyPreparation
        if settings.input.sparse is None:
            self.preparation = settings.preparation(features)
        else:
            self.preparation = SparsePreparation(settings.sparse_scale(), settings.engine_parameters["max_features"])
        self.engine: Engine = settings.engine_class.make(settings.engine_parameters)
        self.next = 0
        self.seq = self.drifts = 0
        self.began: int | None = None
        self.seen: int | None = None
        self.ended: list[ClusterSnapshot] | None = None
        self.listing: list[ClusterSnapshot] | None = None
        self.lifetimes = Lifetimes()
        self.examples: Examples | None = Examples()
        self.keywords: Keywords | None = None
        self.read_texts(settings)
        self.last: tuple[str, int] | None = None
        self.snapshot_bytes = 0
        self.sent: dict[int, int] = {}
        self.drift: StreamDrift | None = None
        self.watch_drift(settings)
        self.alerts = StreamAlerts() if settings.raises_alerts else None
        self.labels: LabelMemory | None = None
        if settings.takes_labels:
            self.labels = LabelMemory()
            self.labels.bound(settings)

    def watch_drift(self, settings: Settings) -> None:
        """Watch what is learned as the settings want it; the watch goes on where it was made with the same ones."""
        wanted = settings.drift_parameters
        if wanted is None:
            self.drift = None
        elif self.drift is None or self.drift.parameters != wanted:
            self.drift = StreamDrift(wanted)

    def read_texts(self, settings: Settings) -> None:
        """Count the words of texts as the settings want it."""
        if settings.input.text_path is None:
            self.keywords = None
        elif self.keywords is None:
            self.keywords = Keywords()

    @property
    def stream(self) -> str:
        """Name of the stream as messages have it."""
        return self.name

    def process(self, rows: Any, row_labels: Sequence[RowLabels] = (), marks: Marks | None = None) -> LearnResult:
        """Hold back or learn rows from `Layout.rows` or `SparseLayout.rows`, in order.

        `row_labels` has the id and the labels of each row where the engine learns labels, `marks` where and when they
        stand in the log.
        """
        marks = Marks.numbered(len(rows)) if marks is None else marks
        result = LearnResult(looked=self.preparation.room == 0, marks=marks)
        if result.looked:
            self._rescale(result)
        engine, preparation = self.engine, self.preparation
        if self.labels is not None and isinstance(engine, LabelEngine) and isinstance(preparation, Preparation):
            label_learning.LabelledRows(engine, preparation, self.labels, self.drift, row_labels, result).process(rows)
            return result
        self._process(rows, result)
        if self.labels is not None:
            lost = self.labels.give_up()
            result.dead_letters += [(0, label_learning.not_learned(own), record) for own, record in lost]
            self.labels = None
        return result

    def portion(self, rows: int) -> int:
        """Return how many of `rows` to take at once.

        Events are described in the units that their rows had, and the watch looks at clusters between two portions.
        """
        # With a new scale the watch learns the warm-up first, and has less room then.
        room, wanted = self.preparation.room, self.preparation.wanted
        if rows == 1 or (room == 0 and self.preparation.settling):
            return 1
        if self.drift is not None:
            rows = min(rows, wanted or self.drift.room)
        if self.keywords is not None:
            rows = min(rows, self.keywords.room)
        return rows if room is None else min(rows, wanted + (room or LOOK))

    def _rescale(self, result: LearnResult) -> None:
        """Go on in other units, where the warm-up is complete or columns have left their ranges, before the first row.

        What was learned in units of a first scale is watched from now on.
        """
        change = self.preparation.rescale()
        if isinstance(change, Settling):
            self.engine.move(change.before, change.after)
            marks = release(self.drift, len(change.after), result.marks, 0)
            if marks is not None:
                answers = self.engine.predict(change.after).cluster[:, 0]
                for part in parts_of(self.drift, len(answers)):
                    X, places = (change.after[part], change.raw[part]), [0] * len(answers)
                    self._watch(*X, answers[part], marks.take(part), places, result)
        elif change is not None:
            self.engine.rescale(change.factor, change.shift)
            if self.drift is not None:
                self.drift.rescale(change.factor, change.shift)
            names = ", ".join(each.feature for each in change.changes)
            _log.debug("stream %s: the scale of %s is frozen anew", self.name, names)
            result.drift += [(0, each) for each in change.changes]

    def _process(self, rows: Any, result: LearnResult) -> None:
        if not self.preparation.ready:
            self._warm_up(rows, result)
            return
        result.learned = range(len(rows))
        try:
            result.step = self._learn(self.preparation.apply(rows), rows, result.learned, result.marks, result)
        except RecordError:
            self._rest(rows, 0, result)

    def _learn(
        self,
        prepared: Any,
        raw: Any,
        places: Sequence[int],
        marks: Marks | None,
        result: LearnResult,
        *,
        answered: bool = True,
    ) -> Step:
        """Let the engine learn, and the watch see, prepared rows with their places among the rows of a call.

        `raw` are these rows as they came.
        """
        step = self.engine.learn(prepared)
        result.learned_one_by_one(places, step, answered=answered)
        if self.preparation.settling and self.drift is not None and marks is not None:
            self.drift.hold(marks)
        else:
            self._watch(prepared, raw, step.cluster[:, 0], marks, places, result)
        return step

    def _watch(
        self,
        prepared: Any,
        raw: Any,
        answers: IntArray,
        marks: Marks | None,
        places: Sequence[int],
        result: LearnResult,
    ) -> None:
        if self.drift is not None and marks is not None and isinstance(self.preparation, Preparation):
            X = self.preparation.without_means(prepared, raw)
            changes = self.drift.learn(self.engine, X, answers, marks, self.preparation.grain(prepared))
            result.drift += [(places[at], change) for at, change in changes]

    def _warm_up(self, rows: FloatArray, result: LearnResult) -> None:
        preparation = self.preparation
        warming: list[int] = []
        position = 0
        while position < len(rows) and not preparation.ready:
            taken = np.arange(position, min(position + preparation.wanted, len(rows)))
            position = int(taken[-1]) + 1
            taken = self._usable(rows, taken, result)
            preparation.hold(rows[taken])
            warming += taken.tolist()
            if self.drift is not None:
                self.drift.hold(result.marks.take(taken))
            if preparation.wanted == 0:
                held: Any = preparation.held_rows() if isinstance(preparation, Preparation) else None
                prepared: Any = preparation.freeze()
                held = prepared if held is None else held
                # The record that ended the warm-up counts as the cause of all events of the held records; of a state of
                # a release with a longer one it is the first.
                last = warming[-1] if warming else 0
                marks = None if preparation.settling else release(self.drift, len(prepared), result.marks, last)
                places = [last] * len(prepared)
                for part in parts_of(self.drift, len(prepared)):
                    own = None if marks is None else marks.take(part)
                    self._learn(prepared[part], held[part], places[part], own, result, answered=False)
        result.warming = warming
        if position < len(rows):
            self._rest(rows, position, result)

    def answer(self, rows: Any) -> LearnResult:
        """Return what `process` would answer for rows, each as if it came next; nothing is learned, nothing changes.

        No node has learned them, so their paths are empty. Sparse rows come one at a time: a new name of one would be
        known to the next.
        """
        result, everything = LearnResult(), np.arange(len(rows))
        if not self.preparation.ready:
            result.warming = self._usable(rows, everything, result).tolist()
            return result
        preparation: Any = self.preparation
        result.learned = range(len(rows))
        try:
            prepared = preparation.transform_next(rows)
        except RecordError:
            result.learned = self._usable(rows, everything, result).tolist()
            prepared = preparation.transform_next(rows[result.learned])
        found = self.engine.predict(prepared)
        nowhere = np.full_like(found.cluster, -1)
        result.step = Step(found.cluster, found.score, found.novel, nowhere, labels=found.labels)
        return result

    def _rest(self, rows: Any, position: int, result: LearnResult) -> None:
        """Learn the rows from `position` on, except those that cannot be prepared."""
        learned = self._usable(rows, np.arange(position, len(rows)), result)
        result.learned = learned.tolist()
        if len(learned):
            marks = result.marks.take(learned)
            own = rows[learned]
            result.step = self._learn(self.preparation.apply(own), own, result.learned, marks, result)

    def _usable(self, rows: Any, positions: Any, result: LearnResult) -> Any:
        problems = self.preparation.check(rows[positions])
        if not problems:
            return positions
        for i, problem in problems.items():
            result.faults.append((int(positions[i]), not_prepared(problem)))
        return np.delete(positions, list(problems))

    def state(self) -> bytes:
        """Return everything that the stream's next assignment depends on, canonical (equal states, equal bytes)."""
        header: dict[str, Any] = {
            "version": self.version,
            "next": self.next,
            "seq": self.seq,
            # As text, because the container sorts members and the bytes of the event must not change.
            "ended": None if self.ended is None else orjson.dumps(self.ended).decode(),
            "listing": None if self.listing is None else orjson.dumps(self.listing).decode(),
            "last": self.last,
            "lifetimes": self.lifetimes.state(),
        }
        if self.engine.name == ROOT:
            header["sent"] = sorted(self.sent.items())
        if self.drifts:
            header["drifts"] = self.drifts
        if self.alerts is not None:
            header["alerts"] = self.alerts.state()
        if self.examples is not None:
            header["examples"] = self.examples.state()
        for name in ("began", "seen"):
            if (value := getattr(self, name)) is not None:
                header[name] = value
        kind = next(name for name, made in PREPARATIONS.items() if isinstance(self.preparation, made))
        parts = {kind: self.preparation.state(), "engine": self.engine.state()}
        if self.labels is not None:
            parts["labels"] = self.labels.state(self.preparation.dimension)
        if self.drift is not None:
            parts["drift"] = self.drift.state()
        if self.keywords is not None:
            parts["keywords"] = self.keywords.state()
        if self.alerts is not None and self.alerts.missing is not None:
            parts["missing"] = self.alerts.missing.state()
        return pack(KIND, STATE_REVISION, header, {name: np.frombuffer(part, np.uint8) for name, part in parts.items()})

    @classmethod
    def from_state(cls, engine: str, name: str, data: bytes) -> "StreamModel":
        """Continue the stream `name` from a `state` with the engine named `engine`.

        Raise `StateError` if it is damaged or from a newer release.
        """
        header, arrays = unpack(data, KIND, STATE_REVISION)
        model = cls.__new__(cls)
        model.name = name
        engine_class: Any = ENGINES[engine] if engine in ENGINES else PARTS[engine]
        kind = "sparse" if "sparse" in arrays else "prepare"
        parts = {kind, "engine"} | ({"labels"} if issubclass(engine_class, LabelEngine) else set())
        model.drift = StreamDrift.from_state(arrays["drift"].tobytes()) if "drift" in arrays else None
        model.keywords = Keywords.from_state(arrays["keywords"].tobytes()) if "keywords" in arrays else None
        missing = MissingFeatures.from_state(arrays["missing"].tobytes()) if "missing" in arrays else None
        if arrays.keys() - {"drift", "keywords", "missing"} not in (parts, parts | {"labels"}):
            raise StateError(
                f"the state of stream {name} has parts {sorted(arrays)}, not {' and '.join(sorted(parts))}"
            )
        model.preparation = PREPARATIONS[kind].from_state(arrays[kind].tobytes())
        model.engine = engine_class.from_state(arrays["engine"].tobytes())
        model.labels = None
        if "labels" in arrays:
            held = 0
            learned: tuple[Label, ...] = ()
            if isinstance(model.engine, LabelEngine):
                learned, held = model.engine.labels, model.preparation.held
            columns = model.preparation.dimension
            model.labels = LabelMemory.from_state(arrays["labels"].tobytes(), columns, held, learned)
        try:
            model._check_engine()
            if model.drift is not None:
                model.drift.check(model.engine.dimension)
        except StateError as error:
            raise StateError(f"the state of stream {name} cannot be used: {error}") from None
        model._place(header)
        if model.alerts is not None:
            model.alerts.missing = missing
        model.snapshot_bytes = len(data)
        return model

    def _check_engine(self) -> None:
        """Raise `StateError` if the engine differs from its preparation in features or bounds."""
        preparation, engine = self.preparation, self.engine
        preparation.check_engine(engine)
        if preparation.clip != engine.unit_interval:
            raise StateError(f"{engine.name} behind a preparation with clip = {preparation.clip}")

    def next_version(self, settings: Settings, features: Sequence[str], ended: list[ClusterSnapshot]) -> "StreamModel":
        """Return the next version of the stream's model, which continues at the offset of this one.

        `settings` and `features` are those of the next version, `ended` are the clusters of this one.
        """
        model = StreamModel(settings, self.name, features, self.version + 1)
        model.next, model.seq, model.drifts, model.ended = self.next, self.seq, self.drifts, ended
        model.began, model.seen = self.began, self.seen
        model.lifetimes = self.lifetimes
        if self.alerts is not None:
            model.alerts = self.alerts.next_version()
        model.lifetimes.forget_others({cluster["id"] for cluster in ended})
        if self.labels is not None and (model.labels is not None or self.labels.waiting):
            model.labels = LabelMemory()
            model.labels.go_on(self.labels)
            model.labels.bound(settings)
        return model

    def _place(self, header: dict[str, Any]) -> None:
        try:
            self.version, self.next, self.seq = (int(header[member]) for member in ("version", "next", "seq"))
            self.ended = None if header["ended"] is None else orjson.loads(header["ended"])
            self.last = (str(header["last"][0]), int(header["last"][1])) if header["last"] else None
            self.listing = None if header["listing"] is None else orjson.loads(header["listing"])
            self.lifetimes = Lifetimes.from_state(header["lifetimes"])
            self.examples = Examples.from_state(header.get("examples", ()))
            self.drifts = int(header.get("drifts", 0))
            self.began, self.seen = (
                None if (found := header.get(name)) is None else int(found) for name in ("began", "seen")
            )
            self.sent = {int(node): int(count) for node, count in header.get("sent", ())}
            self.alerts = StreamAlerts.from_state(header["alerts"]) if "alerts" in header else None
            if self.version < 1 or self.next < 0 or self.seq < 0 or self.drifts < 0:
                raise ValueError(f"version {self.version}, next {self.next}, seq {self.seq}")
        except (KeyError, TypeError, ValueError, IndexError, AttributeError) as error:
            raise StateError(f"the state of stream {self.name} cannot be read: {error!r}") from error
        self.snapshot_bytes = 0
