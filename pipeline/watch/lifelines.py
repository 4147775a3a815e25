"""The lives of clusters, from the outputs: when each began and ended, and its share of the records in between."""

from array import array
from bisect import bisect_left
from collections import Counter, defaultdict, deque
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray
from resonance.pipeline.inspect.stream_outputs import RECENT, recent_shares
from resonance.pipeline.timestamps import epoch_ms
from resonance.schemas import Assignment, ClusterEvent, ClusterSnapshot, DriftEvent
from resonance.schemas.cluster_event import begun_by, ended_by

POINTS: Final = 300
"""Steps into which a line divides the records."""

WINDOW: Final = 8
"""Steps over which a point of a line is averaged."""

MOST_LINES: Final = 60
"""Most lines of a stream; those with the fewest records are left out."""

MOST_STREAMS: Final = 6
"""Most streams; those with the fewest records are left out."""

_TIMES: Final = 4_096
_UNKNOWN: Final = "1970-"


@dataclass(slots=True)
class LifeLine:
    """The life of one cluster."""

    name: str
    """Id of the cluster."""
    born: int
    """Record that caused its first event."""
    ended: int
    """Record that caused its last event; the end of the stream while the cluster lives."""
    level: int = 1
    called: str = ""
    """What people call it."""
    parent: str | None = None
    """Cluster that it split from."""
    heir: str | None = None
    """Cluster that absorbed it."""
    within: str | None = None
    """Cluster of the level above that most of its records belong to."""
    x: NDArray[np.float64] = field(default_factory=lambda: np.empty(0))
    """Records at the points of the line; one value of `share` belongs to each."""
    share: NDArray[np.float64] = field(default_factory=lambda: np.empty(0))
    """Share of the records around each point that are assigned to it; NaN where no assignments are known."""
    recent: float | None = None
    """Share of the stream's last answers that name it; None where no assignments are known."""

    def measure(self, mine: NDArray[np.bool_]) -> None:
        """Compute the points of the line; `mine` says of each record whether it is assigned to the cluster."""
        step = max(len(mine) // POINTS, 1)
        points = np.arange(0, len(mine) + 1, step)
        count = np.concatenate(([0], np.cumsum(mine)))
        self.x = np.array([self.born, *points[(points > self.born) & (points < self.ended)], self.ended], dtype=float)
        low = np.clip(self.x - WINDOW * step / 2, self.born, self.ended).astype(int)
        high = np.clip(self.x + WINDOW * step / 2, self.born, self.ended).astype(int)
        found = count[high] - count[low]
        self.share = found / np.maximum(high - low, 1)


@dataclass(slots=True)
class StreamLife:
    """What a picture shows of a stream."""

    stream: str
    records: int
    """Length of the lines: records, or milliseconds where no assignments are known."""
    lines: list[LifeLine]
    """In an order in which each cluster is near those that it came from."""
    found: int
    """Clusters that there were, with a line or without."""
    present: int
    """Those that live at the end."""
    clusters: dict[str, ClusterSnapshot]
    """Each cluster as it was described last, by id."""
    drifts: list[tuple[int, DriftEvent]]
    """With the records that caused them."""
    times: list[tuple[int, str]]
    """Some records, in their order, each with its time."""
    counted: bool
    """Whether the lines count records, and not milliseconds."""
    marks: Sequence[tuple[int, str]] = ()
    """What happened besides, each with its record."""


def births_and_ends(
    events: Iterable[ClusterEvent], at: Callable[[ClusterEvent], int], records: int
) -> dict[str, LifeLine]:
    """Return the clusters of a stream by id, oldest first; `at` returns the place of the record behind an event."""
    lives: dict[str, LifeLine] = {}
    for event in events:
        place, other = at(event), event.get("other")
        for name, _ in ended_by(event):
            if name in lives:
                lives[name].ended, lives[name].heir = max(place, lives[name].born), other
        for name, _ in sorted(begun_by(event)):
            # Delivered at least once, an event may come again.
            lives.setdefault(name, LifeLine(name, place, records, event.get("level", 1), parent=other))
    return lives


def stream_lives(
    assignments: Iterable[Assignment],
    events: Iterable[ClusterEvent],
    drifts: Iterable[DriftEvent],
    clusters: Iterable[Mapping[str, Any]],
    *,
    recent: Mapping[str, float] | None = None,
) -> tuple[list[StreamLife], int]:
    """Return the lives of the largest streams, and how many streams were left out.

    `assignments` are in the order of each stream; `clusters` are the present ones, each with its ``stream``. Their
    `recent` shares are counted where they are not given.
    """
    by_stream: defaultdict[str, _Outputs] = defaultdict(_Outputs)
    for event in events:
        by_stream[event["stream"]].events.append(event)
    for drift in drifts:
        by_stream[drift["stream"]].drifts.append(drift)
    for cluster in clusters:
        by_stream[cluster["stream"]].present[cluster["id"]] = cluster  # type: ignore[assignment]
    for outputs in by_stream.values():
        outputs.causes = {*map(_source, outputs.events), *map(_source, outputs.drifts)}
    for answer in assignments:
        by_stream[answer["stream"]].add(answer)
    largest = sorted(by_stream, key=lambda name: (-by_stream[name].count, name))
    return [by_stream[name].life(name, recent) for name in largest[:MOST_STREAMS]], max(len(largest) - MOST_STREAMS, 0)


class _Outputs:
    """The outputs of one stream, as far as its life-lines need them."""

    def __init__(self) -> None:
        self.events: list[ClusterEvent] = []
        self.drifts: list[DriftEvent] = []
        self.present: dict[str, ClusterSnapshot] = {}
        self.causes: set[tuple[Any, ...]] = set()
        self.count = 0
        self._places: dict[tuple[Any, ...], int] = {}
        # By level the number of the cluster of each record, -1 for none, and the numbers of the clusters.
        self._levels: list[array[int]] = []
        self._numbers: dict[str, int] = {}
        self._within: defaultdict[str, Counter[str]] = defaultdict(Counter)
        self._times: list[tuple[int, str]] = []
        self._stride = 1
        self._last: deque[Sequence[str | None]] = deque(maxlen=RECENT)

    def add(self, answer: Assignment) -> None:
        """Add the next answer."""
        source = _place(answer["source"])
        if source in self.causes:
            self._places[source] = self.count
        named = answer["clusters"]
        while len(self._levels) < len(named):
            self._levels.append(array("i", [-1]) * self.count)
        for level, column in enumerate(self._levels):
            name = named[level] if level < len(named) else None
            column.append(-1 if name is None else self._numbers.setdefault(name, len(self._numbers)))
            if level and name is not None and (above := named[level - 1]) is not None:
                self._within[name][above] += 1
        if self.count % self._stride == 0:
            self._times.append((self.count, answer["time"]))
            if len(self._times) > _TIMES:
                self._times, self._stride = self._times[::2], self._stride * 2
        self.count += 1
        self._last.append(named)

    def life(self, stream: str, recent: Mapping[str, float] | None = None) -> StreamLife:
        """Return what a picture shows of the stream."""
        counted = self.count > 0
        moments = sorted(event["time"] for event in (*self.events, *self.drifts))
        first = epoch_ms(moments[0]) if moments else 0
        # Without assignments the last event is the last that is known; what it ended is not present.
        records = self.count if counted else int(1.02 * (epoch_ms(moments[-1]) - first)) + 1 if moments else 1
        times = [moment for _, moment in self._times]

        def place(event: ClusterEvent | DriftEvent) -> int:
            if not counted:
                return epoch_ms(event["time"]) - first
            known = self._places.get(_source(event))
            if known is None:
                # Its record is not among these, but older perhaps.
                known = ([*(at for at, _ in self._times), records])[bisect_left(times, event["time"])]
            return known

        lives = births_and_ends(self.events, place, records)
        for name in self.present:
            # Its event is no longer known.
            lives.setdefault(name, LifeLine(name, 0, records, name.rpartition("/")[2].count(".") + 1))
        sizes = self._measure(lives)
        if shares := recent or recent_shares(self._last):
            for name, line in lives.items():
                line.recent = shares.get(name, 0.0)
        kept = sorted(lives, key=lambda name: -sizes[name])[:MOST_LINES]
        described = {each["id"]: each for event in self.events for each in (*event["before"], *event["after"])}
        shown = times and not times[0].startswith(_UNKNOWN)
        if not counted:
            self._times = [(epoch_ms(moment) - first, moment) for moment in moments]
        return StreamLife(
            stream,
            records,
            in_order([line for line in lives.values() if line.name in set(kept)]),
            len(lives),
            sum(line.ended >= records for line in lives.values()),
            described | self.present,
            [(place(event), event) for event in self.drifts],
            self._times if shown or not counted else [],
            counted,
        )

    def _measure(self, lives: Mapping[str, LifeLine]) -> dict[str, int]:
        """Compute the points of the lines, and return how many records each cluster has."""
        if not self.count:
            for line in lives.values():
                line.x = np.array([line.born, line.ended], dtype=float)
                line.share = np.full(2, np.nan)
            return {name: self.present[name]["size"] if name in self.present else 0 for name in lives}
        columns = [np.frombuffer(column, dtype=np.int32) for column in self._levels]
        sizes = {}
        for name, line in lives.items():
            number = self._numbers.get(name, -2)
            mine = np.zeros(self.count, dtype=bool)
            for column in columns:
                mine |= column == number
            line.within = next((above for above, _ in self._within[name].most_common(1)), None)
            line.measure(mine)
            sizes[name] = int(mine.sum())
        return sizes


def in_order(lines: Sequence[LifeLine]) -> list[LifeLine]:
    """Return each line followed by those of the level below, those that split from it, and those that it absorbed."""
    names = {line.name for line in lines}
    below: defaultdict[str | None, list[LifeLine]] = defaultdict(list)
    for line in lines:
        below[next((name for name in (line.within, line.parent, line.heir) if name in names), None)].append(line)
    ordered: dict[str, LifeLine] = {}
    # Last those of a circle: one that absorbed the one it split from.
    waiting = [*lines[::-1], *below[None][::-1]]
    while waiting:
        line = waiting.pop()
        if line.name not in ordered:
            ordered[line.name] = line
            waiting += below[line.name][::-1]
    return list(ordered.values())


def _source(event: ClusterEvent | DriftEvent) -> tuple[Any, ...]:
    return _place(event["cause"]["source"])


def _place(source: Mapping[str, Any]) -> tuple[Any, ...]:
    return source["topic"], source["partition"], source["offset"], source.get("index")
