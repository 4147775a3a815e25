"""Which routes are learned: each feature record once and in the order of its own log, despite repeats.

Under at-least-once delivery a first stage that starts again writes routes again, with the same bytes. A send that timed
out can leave out a route whose successors were stored; all of them come again, because nothing of them was committed.
Every route names its record and the previous record on the same way, and that is enough: a record that was seen is a
repeat, and a record whose predecessor was not seen comes again behind it. Under exactly-once delivery neither happens.

The decisions are a function of the routes alone. After a crash some routes are read again that the state has already
decided; therefore the state holds the offsets of the dropped ones.
"""

import logging
from bisect import bisect_right
from collections.abc import Sequence
from typing import Any, Final

from resonance.pipeline.errors import MismatchError
from resonance.pipeline.logs import at
from resonance.pipeline.records import RoutedRecord
from resonance.pipeline.repartition.envelope import FIRST, Route

KEPT: Final = 1_000
"""Runs of dropped routes that are remembered, in addition to those that a restart needs."""

_log = logging.getLogger(__name__)


class Deduplicator:
    """Decides which routes of one partition are learned."""

    def __init__(self, topic: str, partition: int) -> None:
        # Routes that were dropped: their record had come already, or its predecessor had not come yet.
        self.repeated = self.early = 0
        self._at = topic, partition
        # Offset of the newest record of each input partition.
        self._newest: dict[tuple[str, int], int] = {}
        # Set where the log is not known from its beginning: the input partitions seen so far. The first record of any
        # other may have any predecessor.
        self._met: set[tuple[str, int]] | None = None
        # Routes below this offset are decided. The dropped ones are kept as pairs of first and last offset.
        self._until = 0
        self._dropped: list[list[int]] = []
        self._forgotten = -1
        self._waiting: set[tuple[str, int]] = set()

    def accept_any_predecessor(self) -> None:
        """Accept the next record of each input partition with any predecessor, as long as its offset is higher."""
        self._met = set()

    def kept(self, routes: Sequence[Route]) -> list[RoutedRecord]:
        """Return the records of those routes that are learned, in offset order."""
        newest, taken = self._newest, []
        for record, before in routes:
            if record.offset < self._until:
                if not self._was_dropped(record.offset):
                    taken.append(record)
                continue
            place = (record.topic, record.partition)
            known = newest.get(place, FIRST)
            if known < record.source_offset and (before <= known or self._is_new(place)):
                newest[place] = record.source_offset
                self._waiting.discard(place)
                if self._met is not None:
                    self._met.add(place)
                taken.append(record)
            else:
                self._drop(record, known)
            self._until = record.offset + 1
        return taken

    def _is_new(self, place: tuple[str, int]) -> bool:
        return self._met is not None and place not in self._met

    def _drop(self, record: RoutedRecord, known: int) -> None:
        if record.source_offset <= known:
            self.repeated += 1
        else:
            self.early += 1
            self._warn(record)
        if self._dropped and self._dropped[-1][1] + 1 == record.offset:
            self._dropped[-1][1] = record.offset
        else:
            self._dropped.append([record.offset, record.offset])

    def _warn(self, record: RoutedRecord) -> None:
        """Log a missing predecessor once per input partition, until its records continue."""
        place = (record.topic, record.partition)
        if place in self._waiting:
            return
        self._waiting.add(place)
        emitted = (*self._at, record.offset, *place, record.source_offset)
        text = "%s[%d]@%d: the record that was routed before %s[%d]@%d has not come; they wait until it comes again"
        _log.warning(text, *emitted, extra=at(*self._at, record.offset))

    def _was_dropped(self, offset: int) -> bool:
        if offset <= self._forgotten:
            raise MismatchError(
                f"{self._at[0]}[{self._at[1]}]: offset {offset} must be read again, and it is no longer known which "
                f"routes up to {self._forgotten} were repeats; begin anew with `resonance worker --reset`",
                ["--reset"],
            )
        place = bisect_right(self._dropped, [offset + 1]) - 1
        return place >= 0 and self._dropped[place][0] <= offset <= self._dropped[place][1]

    def take_over(self, other: "Deduplicator") -> None:
        """Continue where another task of the partition stands; no earlier route is read again."""
        self.restore(other.state(None))

    def state(self, recovery_offset: int | None) -> dict[str, Any]:
        """Return JSON values for a restart that reads again from `recovery_offset`; None means from here on."""
        needed = self._until if recovery_offset is None else recovery_offset
        old = sum(last < needed for _, last in self._dropped) - KEPT
        if old > 0:
            self._forgotten = self._dropped[old - 1][1]
            del self._dropped[:old]
        return {
            "newest": [[*place, offset] for place, offset in sorted(self._newest.items())],
            "met": None if self._met is None else [list(place) for place in sorted(self._met)],
            "until": self._until,
            "dropped": [list(pair) for pair in self._dropped],
            "forgotten": self._forgotten,
        }

    def restore(self, content: Any) -> None:
        """Restore a `state`.

        Any other content is a `KeyError`, `TypeError` or `ValueError`.
        """
        self._newest = {(str(topic), int(number)): int(offset) for topic, number, offset in content["newest"]}
        met = content["met"]
        self._met = None if met is None else {(str(topic), int(number)) for topic, number in met}
        self._until = int(content["until"])
        self._dropped = [[int(first), int(last)] for first, last in content["dropped"]]
        self._forgotten = int(content["forgotten"])
