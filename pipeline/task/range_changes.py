"""How often features leave the range of their scale: one that does so again and again spoils the clusters of all."""

import threading
from collections import Counter, deque
from collections.abc import Iterable
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from typing import Final

from resonance.pipeline.errors import counted

OFTEN: Final = 6
"""Changes of a range that no cause ends: a daily wave is inside one after a few, another unit comes once."""

WITHIN: Final = timedelta(days=7)
"""Time of the records in which so many changes are often."""


@dataclass(slots=True)
class RestlessRanges:
    """Features whose range changed often, in some partitions or in one stream."""

    streams: int = 0
    """Streams that have had records enough for it."""
    restless: dict[str, int] = field(default_factory=dict)
    """Those of them in which the range of a feature changed often."""
    changes: dict[str, int] = field(default_factory=dict)
    """How often it changed there."""

    def add(self, feature: str, streams: int, changes: int) -> None:
        """Add streams in which the range of a feature changed often, or take them away."""
        self.restless[feature] = self.restless.get(feature, 0) + streams
        self.changes[feature] = self.changes.get(feature, 0) + changes
        if not self.restless[feature]:
            del self.restless[feature], self.changes[feature]

    @property
    def hint(self) -> str:
        """A sentence on the features that changed often in at least half of the streams, or none.

        In fewer it is these streams that are unusual, and not the feature.
        """
        found = sorted(
            (-self.changes[feature], feature) for feature, own in self.restless.items() if 2 * own >= self.streams
        )
        if not found:
            return ""
        listed = ", ".join(
            f"{feature} left its range {-changes:,} times in {self.restless[feature]:,} of "
            f"{counted(self.streams, 'stream')} with many records"
            for changes, feature in found
        )
        return (
            f"{listed}: a feature that only grows makes clusters of its own; leave it out of input.features "
            "(docs/tuning.md#quality)"
        )


class RangeChanges:
    """Counts the changes of ranges in the streams of a partition; other threads may ask for them."""

    def __init__(self) -> None:
        self._looks: Counter[str] = Counter()
        self._changes: dict[str, Counter[str]] = {}
        self._last: dict[tuple[str, str], deque[datetime]] = {}
        self._often: dict[str, set[str]] = {}
        # Kept up to date, because it is read once a second, however many streams there are.
        self._found = RestlessRanges()
        self._lock = threading.Lock()

    def looked(self, stream: str) -> None:
        """Note that the ranges of a stream were compared with its records, which is when they can change."""
        with self._lock:
            self._looks[stream] += 1
            self._found.streams += self._looks[stream] == OFTEN

    def changed(self, stream: str, feature: str, time: str) -> None:
        """Note that the range of a feature changed with a record of this time."""
        with self._lock:
            changes, often = self._changes.setdefault(stream, Counter()), self._often.setdefault(stream, set())
            changes[feature] += 1
            last = self._last.setdefault((stream, feature), deque(maxlen=OFTEN))
            last.append(datetime.fromisoformat(time))
            if feature in often:
                self._found.changes[feature] += 1
            elif len(last) == OFTEN and last[-1] - last[0] <= WITHIN:
                often.add(feature)
                self._found.add(feature, 1, changes[feature])

    def ended(self, stream: str) -> None:
        """Forget a stream."""
        with self._lock:
            self._found.streams -= self._looks.pop(stream, 0) >= OFTEN
            changes = self._changes.pop(stream, Counter[str]())
            for feature in self._often.pop(stream, ()):
                self._found.add(feature, -1, -changes[feature])
            for feature in changes:
                del self._last[stream, feature]

    def found(self) -> RestlessRanges:
        """Return the features whose range changed often."""
        with self._lock:
            return RestlessRanges(self._found.streams, self._found.restless.copy(), self._found.changes.copy())


def together(some: Iterable[RestlessRanges]) -> RestlessRanges:
    """Return what was found in several partitions."""
    found = RestlessRanges()
    for each in some:
        found.streams += each.streams
        for feature, streams in each.restless.items():
            found.add(feature, streams, each.changes[feature])
    return found
