"""Model of one subtree: the levels below one root node of a stream, and its position in the routes."""

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any, Final

import numpy as np
from resonance import engine as engines
from resonance.engine.base import IntArray
from resonance.engine.errors import StateError
from resonance.engine.prepare import Preparation
from resonance.engine.state import pack, unpack
from resonance.pipeline.config.settings import Settings
from resonance.pipeline.repartition.keyed.operation_records import Part, SubtreeOperation
from resonance.pipeline.task.decode.labels import RowLabels
from resonance.pipeline.task.model.learn_result import LearnResult
from resonance.pipeline.task.model.lifetimes import Lifetimes
from resonance.pipeline.task.model.stream_drift import Marks
from resonance.pipeline.task.model.stream_model import StreamModel

STATE_REVISION: Final = 1
"""Increased when the members of a subtree's state change."""

KIND: Final = "subtree"
"""Kind of a subtree's state."""


@dataclass(slots=True, eq=False)
class SubtreeResult(LearnResult):
    """What became of messages: `learned` are those that were applied, and `step` has no answers."""

    dropped: int = 0
    """Messages that had come before, or came before their predecessor."""
    answered: IntArray = field(default_factory=lambda: np.empty(0, dtype=np.int64))
    """Messages whose record was learned here, shape (k,)."""
    clusters: IntArray = field(default_factory=lambda: np.empty((0, 1), dtype=np.int64))
    """Clusters of these records, shape (k, depth); the root determines the first level."""
    paths: IntArray = field(default_factory=lambda: np.empty((0, 1), dtype=np.int64))
    """Paths of these records, shape (k, depth); the root determines the first level."""


class SubtreeModel(StreamModel):
    """Model of the subtree of one root node; it depends on its messages alone.

    A preparation in the first message that cannot be read is a `StateError`.
    """

    __slots__ = ("_part", "number", "root_node")

    root_node: int
    engine: "engines.HCAEASubtree"  # type: ignore[assignment]

    def __init__(self, settings: Settings, first: SubtreeOperation) -> None:
        if first.preparation is None:
            raise StateError("the first message of a subtree has no preparation")
        self._of(first.part)
        self.preparation = Preparation.from_state(first.preparation)
        self.engine = engines.HCAEASubtree.below(first.part.node, settings.engine_parameters)
        # `number` counts the messages that were applied.
        self.next = self.seq = self.number = self.snapshot_bytes = 0
        self.lifetimes = Lifetimes()

    def _of(self, part: Part) -> None:
        self.name = part.name
        self._part, self.version, self.root_node = part, part.version, part.node
        self.ended = self.listing = self.last = None
        self.sent = {}
        self.labels = self.drift = self.alerts = self.examples = self.keywords = self.began = self.seen = None
        self.drifts = 0

    @property
    def stream(self) -> str:
        """Name of the stream as outputs contain it."""
        return self._part.stream

    def process(self, rows: Any, row_labels: Sequence[RowLabels] = (), marks: Marks | None = None) -> SubtreeResult:
        """Apply messages in order; only the last one may be a removal.

        A repeat is left out, and so is a message whose predecessor has not come: it comes again, because nothing of it
        was committed where it was sent.
        """
        taken = self._next_of(rows)
        messages = rows if len(taken) == len(rows) else [rows[place] for place in taken]
        operations = _operations(messages, taken, self.root_node, self.preparation.dimension)
        below = self.engine.follow(operations)
        itself = np.flatnonzero(operations.answered)
        return SubtreeResult(
            learned=taken,
            dropped=len(rows) - len(taken),
            events=[(event.index, event) for event in below.events],
            answered=operations.record[itself],
            clusters=below.cluster[itself],
            paths=below.path[itself],
        )

    def _next_of(self, rows: Sequence[SubtreeOperation]) -> Sequence[int]:
        """Return the positions of the messages that come next."""
        begun, count = self.number, len(rows)
        if [message.number for message in rows] == list(range(begun, begun + count)):
            self.number += count
            return range(count)
        taken: list[int] = []
        for place, message in enumerate(rows):
            if message.number == self.number:
                self.number += 1
                taken.append(place)
        return taken

    def state(self) -> bytes:
        """Return everything that the next answer depends on; equal states have equal bytes."""
        header = {
            "stream": self._part.stream,
            "version": self.version,
            "node": self.root_node,
            "next": self.next,
            "seq": self.seq,
            "number": self.number,
            "lifetimes": self.lifetimes.state(),
        }
        parts = {"prepare": self.preparation.state(), "engine": self.engine.state()}
        return pack(KIND, STATE_REVISION, header, {name: np.frombuffer(part, np.uint8) for name, part in parts.items()})

    @classmethod
    def from_bytes(cls, data: bytes) -> "SubtreeModel":
        """Restore a model from its `state`.

        A state that is damaged or from a newer program is a `StateError`.
        """
        header, arrays = unpack(data, KIND, STATE_REVISION)
        model = cls.__new__(cls)
        try:
            model._of(Part(str(header["stream"]), int(header["version"]), int(header["node"])))
            model.next, model.seq, model.number = (int(header[member]) for member in ("next", "seq", "number"))
            model.lifetimes = Lifetimes.from_state(header["lifetimes"])
            model.preparation = Preparation.from_state(arrays["prepare"].tobytes())
            model.engine = engines.HCAEASubtree.from_state(arrays["engine"].tobytes())
        except (KeyError, TypeError, ValueError, IndexError, AttributeError) as error:
            raise StateError(f"the state of a subtree cannot be read: {error!r}") from error
        if model.engine.node != model.root_node:
            raise StateError(f"the state of subtree {model.name} holds that of root node {model.engine.node}")
        if model.engine.dimension not in (0, model.preparation.dimension):
            raise StateError(f"the state of subtree {model.name} has {model.engine.dimension} dimensions")
        model.snapshot_bytes = len(data)
        return model


def _operations(
    messages: Sequence[SubtreeOperation], places: Sequence[int], node: int, dimension: int
) -> engines.Operations:
    """Return the operations of messages as the engine takes them; `places` become `Operations.record`."""
    counts = np.array([message.rows for message in messages], dtype=np.int64)
    ends = np.cumsum(counts)
    learned = int(ends[-1]) if len(ends) else 0
    # If the last message removes the node, a row of zeros follows.
    removed = bool(messages) and messages[-1].removed
    rows = learned + removed
    record = np.empty(rows, dtype=np.int64)
    record[:learned] = np.repeat(np.array(places, dtype=np.int64), counts)
    label = np.full(rows, -1, dtype=np.int64)
    if any(message.labels for message in messages):
        for message, end in zip(messages, ends.tolist(), strict=True):
            if message.labels:
                label[end - message.rows : end] = np.frombuffer(message.labels, "<i8")
    # `answered` counts from the first vector of its message.
    itself = np.array([message.answered for message in messages], dtype=np.int64)
    emitted = itself >= 0
    answered, gone = np.zeros(rows, dtype=np.bool_), np.zeros(rows, dtype=np.bool_)
    answered[(ends - counts + itself)[emitted]] = True
    vector = np.zeros((rows, dimension))
    vector[:learned] = np.frombuffer(b"".join([message.vectors for message in messages]), "<f8").reshape(
        learned, dimension
    )
    if removed:
        record[learned], gone[learned] = places[-1], True
    return engines.Operations(np.full(rows, node, dtype=np.int64), record, gone, answered, label, vector)
