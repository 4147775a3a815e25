"""Chunks: many records of one partition as one Faust event."""

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any, Final, NamedTuple

import faust
from faust.types import TP
from faust.types.tuples import Message
from resonance.pipeline.memory_budget import RECORD
from resonance.pipeline.record_columns import RecordColumns

_NONE: Final = RecordColumns.of(())


class Membership(NamedTuple):
    """The group coordinator's answer that assigned partitions: it fences everything done on their behalf."""

    generation: int
    member_id: str
    partitions: frozenset[TP]
    metadata: bytes = b""
    """What librdkafka's transactions take for it, see `group_metadata`."""

    @property
    def fenced(self) -> bool:
        """Whether Kafka can refuse what an outdated owner does; it accepts the empty membership of a reset client."""
        return self.generation >= 0 and bool(self.member_id)


@dataclass(slots=True)
class Fetched:
    """The result of one fetch."""

    seek: int
    """Number of the seek on which the positions are based; a later seek voids the records."""
    generation: int
    """Generation of the consumer group under which the records were fetched."""
    records: dict[TP, RecordColumns] = field(default_factory=dict)
    """Without those of aborted transactions."""
    next_offsets: dict[TP, int] = field(default_factory=dict)
    """Position behind what was read, transaction markers and aborted records included."""
    positions: dict[TP, int] = field(default_factory=dict)
    """Where the records were read from: where the fetch before ended, whatever gaps the offsets have."""
    ends: dict[TP, int] = field(default_factory=dict)
    """End of what can be read, as far as known, where more waits than was taken."""

    def chunks(self, size: int) -> "Iterator[Chunk]":
        """Yield chunks of at most `size` records, the partitions in turn, each in the order of its log.

        A position that moved without a record (over transaction markers) yields a chunk without records.
        """
        start, left, positions = 0, list(self.next_offsets), dict(self.positions)
        while left:
            for tp in left:
                records = self.records.get(tp, _NONE)
                last = start + size >= len(records)
                part = records[start : start + size]
                next_offset = self.next_offsets[tp] if last else int(part.offsets[-1]) + 1
                waiting = max(self.ends.get(tp, 0) - next_offset, len(records) - start - len(part))
                yield Chunk(
                    tp,
                    part,
                    next_offset,
                    position=positions[tp],
                    seek=self.seek,
                    generation=self.generation,
                    waiting=waiting,
                )
                positions[tp] = next_offset
            start += size
            left = [tp for tp in left if start < len(self.records.get(tp, _NONE))]


class Chunk(Message):  # type: ignore[misc] # Faust's modules are untyped for mypy
    """Records of one partition, in the order of its log, which pass through Faust as one message.

    It derives from ``Message`` and not from ``ConsumerMessage``, so that Faust neither tracks nor acks it. Faust acks
    a message when its agent fails, and a rebalance waits for acks that never come; neither happens to a chunk, and only
    a delivery commits offsets.
    """

    __slots__ = ("next_offset", "position", "seek", "size", "waiting")

    value: RecordColumns
    """Empty when the position moved over transaction markers only."""

    def __init__(
        self,
        tp: TP,
        records: RecordColumns,
        next_offset: int,
        *,
        position: int,
        seek: int,
        generation: int,
        waiting: int,
    ) -> None:
        time = int(records.times[-1]) / 1000 if records else 0.0
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
        # Where the chunk before ended, and where the log continues behind this one.
        self.position = position
        self.next_offset = next_offset
        # Bytes of memory that its records take.
        self.size = len(records.text) + len(records.keys) + RECORD * len(records) if records else 0
        # See `Fetched`.
        self.seek = seek
        # About how many records of the partition were known to wait behind it at the fetch: offsets have gaps.
        self.waiting = waiting


class RawSchema(faust.Schema):  # type: ignore[misc]
    """No codec: a message's key and value are the event's.

    Faust acks what a codec cannot decode, and so loses it; records are decoded where a failure becomes a dead letter.
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
