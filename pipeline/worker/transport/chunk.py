"""Chunks: many records of one partition as one Faust event."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple

import faust
from faust.types import TP
from faust.types.tuples import Message
from resonance.pipeline.records import SourceRecord


class Membership(NamedTuple):
    """What the group coordinator said when it assigned partitions: it fences everything done on their behalf.

    Attributes
    ----------
    generation : int
        Generation of the consumer group.
    member_id : str
        Id of this member in that generation.
    partitions : frozenset of TP
        What was assigned.
    """

    generation: int
    member_id: str
    partitions: frozenset[TP]

    @property
    def fenced(self) -> bool:
        """Whether Kafka can refuse what an outdated owner does; it accepts the empty membership of a reset client."""
        return self.generation >= 0 and bool(self.member_id)


@dataclass(slots=True)
class Fetched:
    """What one fetch brought.

    Attributes
    ----------
    seek : int
        Number of the seek that the positions go back to; a later seek makes the records void.
    generation : int
        Generation under which they were fetched.
    records : dict of TP to list of records
        Without the records of aborted transactions; possibly empty.
    next_offsets : dict of TP to int
        Position behind what was read, transaction markers and aborted records included.
    ends : dict of TP to int
        End of what can be read at present (the last stable offset).
    """

    seek: int
    generation: int
    records: dict[TP, list[SourceRecord]] = field(default_factory=dict)
    next_offsets: dict[TP, int] = field(default_factory=dict)
    ends: dict[TP, int] = field(default_factory=dict)

    def chunks(self, size: int) -> "Iterator[Chunk]":
        """Cut into chunks of at most `size` records, the partitions by turns, each in the order of its log.

        A position that moved without a record (over the markers of transactions) is a chunk without records.
        """
        start, waiting = 0, list(self.next_offsets)
        while waiting:
            for tp in waiting:
                records = self.records.get(tp, [])
                last = start + size >= len(records)
                part = records[start : start + size]
                next_offset = self.next_offsets[tp] if last else part[-1].offset + 1
                behind = not last or next_offset < self.ends[tp]
                yield Chunk(tp, part, next_offset, seek=self.seek, generation=self.generation, behind=behind)
            start += size
            waiting = [tp for tp in waiting if start < len(self.records.get(tp, []))]


class Chunk(Message):  # type: ignore[misc] # Faust's modules are untyped for mypy
    """Records of one partition, in the order of its log, travelling through Faust as one message.

    It derives from ``Message`` and not from ``ConsumerMessage``: Faust then neither tracks nor acks it. An exception
    in an agent acks what it was working on, and a rebalance waits for what nobody will ack; for a chunk neither can
    happen, and the only offsets that are ever committed are those that a delivery commits.

    Attributes
    ----------
    value : list of records
        The records; empty when the position moved over transaction markers only.
    next_offset : int
        Where the log goes on behind the chunk.
    seek : int
        See `Fetched`.
    behind : bool
        More records of the partition were known to wait when this was fetched.
    """

    __slots__ = ("behind", "next_offset", "seek")

    value: Sequence[SourceRecord]

    def __init__(
        self, tp: TP, records: Sequence[SourceRecord], next_offset: int, *, seek: int, generation: int, behind: bool
    ) -> None:
        time = records[-1].timestamp / 1000 if records else 0.0
        super().__init__(
            tp.topic,
            tp.partition,
            next_offset - 1,
            time,
            0,
            (),
            None,
            records,
            None,
            0,
            0,
            tp,
            generation_id=generation,
        )
        self.next_offset = next_offset
        self.seek = seek
        self.behind = behind


class RawSchema(faust.Schema):  # type: ignore[misc]
    """No codec: a message's key and value are the event's.

    Faust acks, and so loses, what a codec cannot decode; records are decoded where a failure becomes a dead letter.
    """

    def compile(
        self,
        app: Any,
        *,
        on_key_decode_error: Any = None,
        on_value_decode_error: Any = None,
        default_propagate: bool = False,
    ) -> Any:
        """Return the function with which Faust makes an event of a message."""
        create_event = app.create_event

        async def decode(message: Any, *, propagate: bool = default_propagate) -> Any:
            return create_event(message.key, message.value, message.headers, message)

        return decode
