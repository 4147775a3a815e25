"""The model of one stream: its preparation, its engine, and its position in the log."""

from collections.abc import Sequence
from typing import Any, Final

import numpy as np
import orjson
from resonance.engine import ENGINES, PARTS, ROOT
from resonance.engine.base import Engine
from resonance.engine.errors import StateError
from resonance.engine.labels import LabelEngine
from resonance.engine.prepare import LOOK, AnyPreparation, Preparation
from resonance.engine.prepare.sparse import SparsePreparation
from resonance.engine.state import pack, unpack
from resonance.pipeline.config.settings import Settings
from resonance.pipeline.task.alerts.missing_features import MissingFeatures
from resonance.pipeline.task.alerts.open_alerts import StreamAlerts
from resonance.pipeline.task.decode.labels import RowLabels
from resonance.pipeline.task.model import label_learning
from resonance.pipeline.task.model.examples import Examples
from resonance.pipeline.task.model.keywords import Keywords
from resonance.pipeline.task.model.label_memory import LabelMemory
from resonance.pipeline.task.model.learn_result import LearnResult
from resonance.pipeline.task.model.lifetimes import Lifetimes
from resonance.pipeline.task.model.row_learning import RowLearning
from resonance.pipeline.task.model.stream_drift import Marks, StreamDrift
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
        self.drift: StreamDrift | None = None
        self.observe(settings)
        self.last: tuple[str, int] | None = None
        self.snapshot_bytes = 0
        self.sent: dict[int, int] = {}
        self.alerts = StreamAlerts() if settings.raises_alerts else None
        self.labels: LabelMemory | None = None
        if settings.takes_labels:
            self.labels = LabelMemory()
            self.labels.bound(settings)

    def observe(self, settings: Settings) -> None:
        """Watch for drift and count the words of texts as the settings want it; a watch with the same ones goes on."""
        wanted = settings.drift_parameters
        if wanted is None:
            self.drift = None
        elif self.drift is None or self.drift.parameters != wanted:
            self.drift = StreamDrift(wanted)
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
        engine, preparation = self.engine, self.preparation
        marks = Marks.numbered(len(rows)) if marks is None else marks
        result = LearnResult(looked=preparation.room == 0, marks=marks)
        learning = RowLearning(engine, preparation, self.drift, result)
        if result.looked:
            learning.rescale(self.name)
        if self.labels is not None and isinstance(engine, LabelEngine) and isinstance(preparation, Preparation):
            label_learning.LabelledRows(engine, preparation, self.labels, self.drift, row_labels, result).process(rows)
            return result
        learning.process(rows)
        if self.labels is not None:
            lost = self.labels.give_up()
            result.dead_letters += [(0, label_learning.not_learned(own), record) for own, record in lost]
            self.labels = None
        return result

    def answer(self, rows: Any) -> LearnResult:
        """Return what `process` would answer for rows, each as if it came next; nothing is learned, nothing changes.

        No node has learned them, so their paths are empty. Sparse rows come one at a time: a new name of one would be
        known to the next.
        """
        result = LearnResult()
        RowLearning(self.engine, self.preparation, None, result).answer(rows)
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
        parts = {part: array.tobytes() for part, array in arrays.items()}
        engine_class: Any = ENGINES[engine] if engine in ENGINES else PARTS[engine]
        kind = "sparse" if "sparse" in parts else "prepare"
        needed = {kind, "engine"} | ({"labels"} if issubclass(engine_class, LabelEngine) else set())
        if not needed <= parts.keys() <= needed | {"labels", "drift", "keywords", "missing"}:
            wanted = " and ".join(sorted(needed))
            raise StateError(f"the state of stream {name} has parts {sorted(parts)}, not {wanted}")
        model = cls.__new__(cls)
        model.name = name
        model.preparation = preparation = PREPARATIONS[kind].from_state(parts[kind])
        model.engine = engine_class.from_state(parts["engine"])
        model.drift = StreamDrift.from_state(parts["drift"]) if "drift" in parts else None
        model.keywords = Keywords.from_state(parts["keywords"]) if "keywords" in parts else None
        model.labels = None
        if "labels" in parts:
            known = (preparation.held, model.engine.labels) if isinstance(model.engine, LabelEngine) else (0, ())
            model.labels = LabelMemory.from_state(parts["labels"], preparation.dimension, *known)
        try:
            preparation.check_engine(model.engine)
            if preparation.clip != model.engine.unit_interval:
                raise StateError(f"{model.engine.name} behind a preparation with clip = {preparation.clip}")
            if model.drift is not None:
                model.drift.check(model.engine.dimension)
        except StateError as error:
            raise StateError(f"the state of stream {name} cannot be used: {error}") from None
        model._read(header)
        if model.alerts is not None and "missing" in parts:
            model.alerts.missing = MissingFeatures.from_state(parts["missing"])
        model.snapshot_bytes = len(data)
        return model

    def _read(self, header: dict[str, Any]) -> None:
        """Continue with what `state` has put into a header."""
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
