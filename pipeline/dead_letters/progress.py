"""Replay progress in a partition of dead letters: an offset that a group commits, and a note in its metadata.

Dead letters can be replayed by class, so the replayed ones need not be the first. Every one below the committed offset
is done. The metadata of the same commit lists those above it that are done, as ranges within which nothing is left.
"""

import base64
import zlib
from bisect import bisect_right
from collections.abc import Collection, Iterable
from dataclasses import dataclass
from typing import Final, Self

import orjson
from resonance.pipeline.errors import ConfigurationError

MAX_METADATA: Final = 4_000
"""Most characters of a note: a broker accepts 4,096 (offset.metadata.max.bytes)."""


@dataclass(frozen=True, slots=True)
class ReplayProgress:
    """Which dead letters of a partition are done."""

    below: int = 0
    """Every dead letter below this offset is done."""
    ranges: tuple[tuple[int, int], ...] = ()
    """First and last offset of each range of done dead letters above it, ascending."""

    @classmethod
    def read(cls, offset: int, note: str | None, topic_id: str) -> Self:
        """Return what was committed; nothing is done where it was committed for an earlier topic of the same name.

        The offset is negative where none was committed; `topic_id` is Kafka's id of the topic, ``""`` where it has
        none.
        """
        written, _, packed = (note or "").partition(":")
        if offset < 0 or written != topic_id:
            return cls()
        try:
            steps = [int(step) for step in orjson.loads(zlib.decompress(base64.b85decode(packed)))] if packed else []
        except (ValueError, TypeError, zlib.error):
            # The note is another program's: only the dead letters below the offset are certainly done.
            return cls(offset)
        ranges, last = [], offset
        for skip, length in zip(steps[::2], steps[1::2], strict=False):
            ranges.append((last + skip, last + skip + length))
            last += skip + length
        return cls(offset, tuple(ranges))

    def note(self, topic_id: str) -> str:
        """Return the metadata to commit with `below`.

        Raises `ConfigurationError` where it has too many ranges to fit: replay with fewer filters.
        """
        steps, last = list[int](), self.below
        for first, end in self.ranges:
            steps += [first - last, end - first]
            last = end
        packed = base64.b85encode(zlib.compress(orjson.dumps(steps), 9)).decode() if steps else ""
        if len(topic_id) + 1 + len(packed) > MAX_METADATA:
            raise ConfigurationError(
                f"dlq replay: {len(self.ranges):,} separate ranges of dead letters would be done in one partition, "
                "more than can be remembered; replay with fewer filters, such as everything of a partition"
            )
        return f"{topic_id}:{packed}"

    def has(self, offset: int) -> bool:
        """Whether the dead letter at an offset is done."""
        if offset < self.below:
            return True
        place = bisect_right(self.ranges, (offset, offset))
        return any(first <= offset <= last for first, last in self.ranges[max(place - 1, 0) : place + 1])

    def with_done(self, dead_letters: Iterable[int], done: Collection[int]) -> "ReplayProgress":
        """Return the progress after more dead letters are done.

        `dead_letters` are the offsets of all dead letters of the partition that can be replayed, ascending.
        """
        below, ranges = self.below, list[tuple[int, int]]()
        start: int | None = None
        last, prefix = -1, True
        for offset in dead_letters:
            if offset in done or self.has(offset):
                if prefix:
                    below = max(below, offset + 1)
                elif start is None:
                    start = offset
                last = offset
            else:
                prefix = False
                if start is not None:
                    ranges.append((start, last))
                    start = None
        if start is not None:
            ranges.append((start, last))
        return ReplayProgress(below, tuple(ranges))
