"""A sorted batch of messages to subtrees: those of a stream are together, and so are those of a subtree."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Self

import numpy as np
from resonance.engine.base import Step
from resonance.pipeline.columns import Texts, Times
from resonance.pipeline.repartition.keyed.operation_records import PLAIN, Part, SubtreeOperation
from resonance.pipeline.repartition.keyed.subtree_model import SubtreeResult
from resonance.pipeline.task.decode.record_batch import RecordBatch, Sources


@dataclass(slots=True, eq=False)
class OperationBatch:
    """Messages on their way through the subtrees of a partition, one per row."""

    messages: list[SubtreeOperation]
    """Sorted by stream and subtree; those of a subtree keep their order."""
    streams: list[list[range]]
    """For each version of a stream, the rows of each of its subtrees."""
    records: RecordBatch
    """The records that caused the messages."""
    step: Step
    """Answers of the records; `fill` adds the levels below the first."""
    emitted: list[bool]
    """Rows that answer their record; of a subtree's messages only those that were applied."""
    dimension: int
    """Dimension of all vectors; -1 where they differ."""

    @classmethod
    def of(cls, messages: Sequence[SubtreeOperation], depth: int) -> Self:
        """Sort messages into a batch whose answers have `depth` levels."""
        parts: dict[Part, list[int]] = {}
        for place, message in enumerate(messages):
            if (known := parts.get(message.part)) is None:
                parts[message.part] = [place]
            else:
                known.append(place)
        versions: dict[tuple[str, int], list[list[int]]] = {}
        for part, own in parts.items():
            versions.setdefault((part.stream, part.version), []).append(own)
        places: list[int] = []
        streams: list[list[range]] = []
        for groups in versions.values():
            streams.append([])
            for own in groups:
                streams[-1].append(range(len(places), len(places) + len(own)))
                places += own
        rows = [messages[place] for place in places]
        dimensions = {message.dimension for message in rows}
        plain = [message.number == PLAIN for message in rows]
        dimension = dimensions.pop() if len(dimensions) == 1 else -1
        return cls(rows, streams, _records(rows), _answers(rows, depth), plain, dimension)

    def fitting(self, rows: Sequence[int], dimension: int) -> Sequence[int]:
        """Return the rows whose vectors, if they have any, have this dimension."""
        if self.dimension == dimension:
            return rows
        return [row for row in rows if self.messages[row].dimension == dimension or not self.messages[row].rows]

    def numbered(self, run: range) -> Iterator[Sequence[int]]:
        """Yield the rows that a subtree learns from, cut behind each removal."""
        messages, start = self.messages, 0
        rows: Sequence[int] = run
        if any(self.emitted[run.start : run.stop]):
            # The node of a plain row had no subtree yet; what the node learned then comes with the first messages.
            rows = [row for row in run if messages[row].number != PLAIN]
        for number, row in enumerate(rows, 1):
            if messages[row].removed or number == len(rows):
                yield rows[start:number]
                start = number

    def fill(self, rows: Sequence[int], followed: SubtreeResult) -> None:
        """Add the results of a subtree for the rows that it was given."""
        messages, emitted, learned = self.messages, self.emitted, followed.learned
        if isinstance(rows, range) and len(learned) == len(rows):
            emitted[rows.start : rows.stop] = [message.emitted for message in messages[rows.start : rows.stop]]
        else:
            for at in learned:
                emitted[rows[at]] = messages[rows[at]].emitted
        if len(followed.answered):
            where = np.array(rows)[followed.answered]
            self.step.cluster[where, 1:] = followed.clusters[:, 1:]
            self.step.path[where, 1:] = followed.paths[:, 1:]

    def emitted_of(self, stream: Sequence[range]) -> Sequence[int]:
        """Return the rows of a stream that answer their record."""
        start, stop = stream[0].start, stream[-1].stop
        emitted = self.emitted[start:stop]
        return range(start, stop) if all(emitted) else [start + at for at, yes in enumerate(emitted) if yes]

    def step_of(self, rows: Sequence[int]) -> Step:
        """Return the answers of some rows."""
        step, where = self.step, slice(rows.start, rows.stop) if isinstance(rows, range) else np.array(rows)
        return Step(step.cluster[where], step.score[where], step.novel[where], step.path[where])


def as_range(rows: Sequence[int]) -> Sequence[int]:
    """Return ascending rows as a range where none is left out."""
    if not rows or isinstance(rows, range):
        return rows
    return range(rows[0], rows[-1] + 1) if rows[-1] - rows[0] + 1 == len(rows) else rows


def _records(messages: list[SubtreeOperation]) -> RecordBatch:
    ids, included, traces = [a.id for a in messages], [a.included for a in messages], [a.trace for a in messages]
    return RecordBatch(
        messages,
        Times.of([a.time for a in messages]),
        [a.size for a in messages],
        [a.offset for a in messages],
        Texts.of([a.key for a in messages]),
        traces if any(traces) else None,
        Sources([(a.topic, a.partition) for a in messages], [a.source_offset for a in messages], [b""] * len(messages)),
        Texts.of([own or b"null" for own in ids]) if any(ids) else None,
        [(own or b"{}").decode() for own in included] if any(included) else None,
    )


def _answers(messages: Sequence[SubtreeOperation], depth: int) -> Step:
    """Return the answers of the root, with room for the levels below."""
    count = len(messages)
    cluster, path = np.full((count, depth), -1, dtype=np.int64), np.full((count, depth), -1, dtype=np.int64)
    cluster[:, 0] = [message.cluster for message in messages]
    path[:, 0] = [message.part.node for message in messages]
    score, novel = np.array([message.score for message in messages]), np.array([message.novel for message in messages])
    return Step(cluster, score, novel, path)
