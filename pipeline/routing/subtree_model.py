"""The model of one subtree: what lies below one root node of a stream, and where in the routes it stands."""

from collections.abc import Sequence
from typing import Any, Final

import numpy as np
from resonance.engine import HCAEASubtree, Operations
from resonance.engine.base import Step
from resonance.engine.errors import StateError
from resonance.engine.prepare import Preparation
from resonance.engine.state import pack, unpack
from resonance.pipeline.config.settings import Settings
from resonance.pipeline.routing.operation_records import Ask, part_name
from resonance.pipeline.task.label_input import Taught
from resonance.pipeline.task.lifetimes import Lifetimes
from resonance.pipeline.task.stream_model import Fed, StreamModel

STATE_REVISION: Final = 1
"""Raised when the members of a subtree's state change."""

KIND: Final = "subtree"
"""Kind of a subtree's state."""


class SubtreeModel(StreamModel):
    """The model of the subtree of one root node; what it becomes depends on its messages alone.

    Parameters
    ----------
    settings : Settings
        The deployment's.
    first : Ask
        The first message of the subtree.

    Attributes
    ----------
    number : int
        Messages that it was given.
    repeated, early : int
        Messages that were dropped since it is here: had come before, or came before one that is still to come.
    """

    __slots__ = ("_stream", "early", "number", "repeated", "root_node")

    root_node: int

    def __init__(self, settings: Settings, first: Ask) -> None:
        if first.preparation is None:
            raise StateError("the first message of a subtree has no preparation")
        self._of(first.stream, first.version, first.node)
        self.preparation = Preparation.from_state(first.preparation)
        self.subtree = HCAEASubtree.below(first.node, settings.engine_parameters)
        self.next = self.seq = self.number = self.snapshot_bytes = 0
        self.lifetimes = Lifetimes()

    def _of(self, stream: str, version: int, node: int) -> None:
        self.name = part_name(stream, version, node)
        self._stream, self.version, self.root_node = stream, version, node
        self.ended = self.listing = self.last = None
        self.unlisted = False
        self.sent = {}
        self.labels = None
        self.drifts = 0
        self.repeated = self.early = 0

    @property
    def stream(self) -> str:
        """Name of the stream as the bus has it."""
        return self._stream

    @property
    def subtree(self) -> HCAEASubtree:
        """The engine."""
        engine: Any = self.engine
        return engine  # type: ignore[no-any-return]

    @subtree.setter
    def subtree(self, subtree: HCAEASubtree) -> None:
        engine: Any = subtree
        self.engine = engine

    def feed(self, rows: Any, taught: Sequence[Taught] = ()) -> Fed:
        """Carry out what some messages ask, in order.

        Parameters
        ----------
        rows : sequence of Ask
            A removal is the last one. What came before is left out, and so is what has a predecessor that has not come:
            that comes again, because nothing of it was committed where it was sent.
        """
        taken: list[int] = []
        for place, ask in enumerate(rows):
            if ask.number == self.number:
                self.number += 1
                taken.append(place)
            elif ask.number is not None and ask.number < self.number:
                self.repeated += 1
            else:
                self.early += 1
        fed = Fed()
        operations = _operations([(place, rows[place]) for place in taken], self.root_node)
        below = self.subtree.follow(operations)
        fed.events = [(event.index, event) for event in below.events]
        fed.learned = [place for place in taken if rows[place].answer is not None]
        if fed.learned:
            fed.step = answers([rows[place] for place in fed.learned], self.subtree.depth)
            at = {place: row for row, place in enumerate(fed.learned)}
            for number in np.flatnonzero(operations.answered).tolist():
                row = at[int(operations.record[number])]
                fed.step.cluster[row, 1:] = below.cluster[number, 1:]
                fed.step.path[row, 1:] = below.path[number, 1:]
        return fed

    def state(self) -> bytes:
        """Everything the next answer depends on: canonical (equal states, equal bytes)."""
        header = {
            "stream": self._stream,
            "version": self.version,
            "node": self.root_node,
            "next": self.next,
            "seq": self.seq,
            "number": self.number,
            "lifetimes": self.lifetimes.state(),
        }
        parts = {"prepare": self.preparation.state(), "engine": self.subtree.state()}
        return pack(KIND, STATE_REVISION, header, {name: np.frombuffer(part, np.uint8) for name, part in parts.items()})

    @classmethod
    def from_bytes(cls, data: bytes) -> "SubtreeModel":
        """Continue from `state`.

        Raises
        ------
        StateError
            Damaged, or written by a newer program.
        """
        header, arrays = unpack(data, KIND, STATE_REVISION)
        model = cls.__new__(cls)
        try:
            model._of(str(header["stream"]), int(header["version"]), int(header["node"]))
            model.next, model.seq, model.number = (int(header[member]) for member in ("next", "seq", "number"))
            model.lifetimes = Lifetimes.from_state(header["lifetimes"])
            model.preparation = Preparation.from_state(arrays["prepare"].tobytes())
            model.subtree = HCAEASubtree.from_state(arrays["engine"].tobytes())
        except (KeyError, TypeError, ValueError, IndexError, AttributeError) as error:
            raise StateError(f"the state of a subtree cannot be read: {error!r}") from error
        if model.subtree.node != model.root_node:
            raise StateError(f"the state of subtree {model.name} holds that of root node {model.subtree.node}")
        if model.subtree.dimension not in (0, len(model.preparation.columns)):
            raise StateError(f"the state of subtree {model.name} has {model.subtree.dimension} dimensions")
        model.snapshot_bytes = len(data)
        return model


def answers(asks: list[Ask], depth: int) -> Step:
    """Return what the root answered to some records, with room for the levels below."""
    count = len(asks)
    cluster, path = np.full((count, depth), -1, dtype=np.int64), np.full((count, depth), -1, dtype=np.int64)
    given = [ask.answer for ask in asks if ask.answer is not None]
    cluster[:, 0] = [answer.cluster for answer in given]
    path[:, 0] = [ask.node for ask in asks]
    score = np.array([answer.score for answer in given], dtype=np.float64)
    return Step(cluster, score, np.array([answer.novel for answer in given], dtype=np.bool_), path)


def _operations(asked: list[tuple[int, Ask]], node: int) -> Operations:
    """Return what messages ask as the engine takes it; `Operations.record` is the place of the message."""
    records: list[int] = []
    labels: list[int] = []
    vectors: list[Sequence[float]] = []
    answers_to: list[int] = []
    for place, ask in asked:
        if ask.answered >= 0:
            answers_to.append(len(vectors) + ask.answered)
        records += [place] * len(ask.vectors)
        labels += ask.labels
        vectors += ask.vectors
    learned = len(records)
    answered = np.zeros(learned, dtype=np.bool_)
    answered[answers_to] = True
    removed = np.zeros(learned, dtype=np.bool_)
    whole = np.array(vectors, dtype=np.float64) if vectors else np.empty((0, 1))
    if asked and asked[-1][1].removed:
        records.append(asked[-1][0])
        labels.append(-1)
        answered, removed = np.append(answered, False), np.append(removed, True)
        whole = np.concatenate([whole, np.zeros((1, whole.shape[1]))])
    count = len(records)
    return Operations(
        node=np.full(count, node, dtype=np.int64),
        record=np.array(records, dtype=np.int64),
        removed=removed,
        answered=answered,
        label=np.array(labels, dtype=np.int64),
        vector=whole,
    )
