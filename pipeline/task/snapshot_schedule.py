"""When each stream of a partition needs its next snapshot.

A stream's turn comes by the records of its partition, not by its own. Otherwise a silent stream would hold back the
offset where a recovery begins, until the broker deletes the records there. After each snapshot, `snapshots.ratio` times
its size in input must come before the next one is written. This spreads the work evenly, and all streams are written
once for `ratio` times their total size in input. A stream without a snapshot gets its first one earlier, from the input
that the others leave over.
"""

from collections.abc import Callable
from heapq import heappop, heappush
from typing import NamedTuple

from resonance.pipeline.config.sections import SnapshotsSection
from resonance.pipeline.task.expiry import Moment

FIRST_RECORDS = 500
"""Records of the partition after which a stream gets its first snapshot, so that it can be inspected."""

USUAL_BYTES = 20_000
"""Expected bytes of a snapshot, before the partition has written one."""


class Dirty(NamedTuple):
    """A stream whose model has learned since its snapshot."""

    offset: int
    """The lowest that its last snapshot does not contain."""
    seen: int
    """Records that the partition had seen when it became dirty."""
    name: str
    before: Moment
    """What the ends of streams depend on at that offset."""


class SnapshotSchedule:
    """The dirty streams of a partition; `moment` returns what the ends of streams depend on at an offset."""

    def __init__(self, limits: SnapshotsSection, moment: Callable[[int], Moment]) -> None:
        self._limits, self._moment = limits, moment
        self._dirty: dict[str, Dirty] = {}
        # A heap of these; an entry that is no longer that of its stream is passed over.
        self._lowest: list[Dirty] = []
        # The dirty streams without any snapshot.
        self._new: dict[str, None] = {}
        self._seen = 0
        # Input bytes that are still missing to pay for the snapshots written so far.
        self._owed = 0.0
        self._usual_bytes = USUAL_BYTES

    def learned(self, records: int, size: int) -> None:
        """Count records of the partition, and their bytes."""
        self._seen += records
        self._owed -= size

    def mark(self, name: str, offset: int) -> Dirty:
        """Return how a stream is dirty that changes with the record at an offset."""
        return Dirty(offset, self._seen, name, self._moment(offset))

    def note(self, name: str, offset: int, *, is_new: bool) -> None:
        """Note that a stream changes with the record at an offset; `is_new` is whether it has no snapshot."""
        known = self._dirty.get(name)
        if known is None:
            dirty = self._dirty[name] = self.mark(name, offset)
            heappush(self._lowest, dirty)
            if is_new:
                self._new[name] = None
        elif offset < known.offset:
            # A record of another stream may have changed it before its own in the same batch.
            dirty = self._dirty[name] = known._replace(offset=offset, before=self._moment(offset))
            heappush(self._lowest, dirty)

    def remove(self, name: str) -> Dirty | None:
        """Take a stream out, and return how it was dirty; None where it was not."""
        self._new.pop(name, None)
        return self._dirty.pop(name, None)

    def written(self, name: str, size: int) -> None:
        """Note that the snapshot of a stream is written, in so many bytes."""
        self._usual_bytes = size
        self._owed += self._limits.ratio * size
        self.remove(name)

    def go_on_at(self, offset: int) -> None:
        """Let no dirty stream have a record below an offset."""
        before = self._moment(offset)
        self._dirty = {name: dirty._replace(offset=offset, before=before) for name, dirty in self._dirty.items()}
        self._lowest = sorted(self._dirty.values())

    @property
    def lowest(self) -> Dirty | None:
        """The dirty stream whose snapshot lacks the lowest offset."""
        # The first dirty stream may not be the lowest: streams restored at different offsets become dirty in any order.
        while self._lowest and self._dirty.get(self._lowest[0].name) is not self._lowest[0]:
            heappop(self._lowest)
        return self._lowest[0] if self._lowest else None

    def everything(self) -> list[str]:
        """Return every dirty stream, the longest dirty first."""
        return sorted(self._dirty, key=lambda name: self._dirty[name].offset)

    def due(self, snapshot_bytes: Callable[[str], int]) -> list[str]:
        """Return the streams whose next snapshot is due, the longest dirty first.

        `snapshot_bytes` returns the size of a stream's last snapshot, 0 where there is none.
        """
        chosen: dict[str, None] = {}
        left = -self._owed
        records = self._limits.records
        for waiting, most in ((self._dirty, records), (self._new, min(records, FIRST_RECORDS))):
            for name in waiting:
                if self._seen - self._dirty[name].seen < most:
                    break
                if name in chosen:
                    continue
                if left < 0:
                    return list(chosen)
                chosen[name] = None
                left -= self._limits.ratio * (snapshot_bytes(name) or self._usual_bytes)
        # Nothing else is due, and input left over must not pay for a burst later.
        self._owed = max(self._owed, 0.0)
        return list(chosen)
