"""What happened lately, as sentences: the newest events, drifts and alerts of all streams."""

from bisect import bisect_left, insort
from collections import deque
from collections.abc import Collection, Iterator, Sequence
from typing import Any, Final, NamedTuple

from resonance.pipeline.timestamps import is_canonical
from resonance.pipeline.watch.named import with_names
from resonance.pipeline.watch.watch import WatchedOutput, as_line, stream_of
from resonance.schemas import ClusterNames, PresentName

KEPT: Final = 20_000
"""Entries that are kept; about 500 bytes each."""

TEXT: Final = 600
"""Longest sentence, in characters."""


class TimelineEntry(NamedTuple):
    """An output that a person would read."""

    number: int
    """Counts the entries since the page's start."""
    kind: str
    """``events``, ``drift`` or ``alerts``."""
    what: str
    """Kind of the event or drift event; of an alert its rule and whether it opened."""
    stream: str
    cluster: str
    other: str
    severity: str
    """``info``, ``warning`` or ``critical``."""
    time: str
    text: str
    version: int
    """Version of the stream's model; 0 without one."""

    def named(self, names: ClusterNames) -> str:
        """Return the sentence with the present names of its clusters."""
        return with_names(self.text, filter(None, (self.cluster, self.other)), names)


def entry_of(output: WatchedOutput) -> TimelineEntry:
    """Return an output as an entry without a number."""
    payload = output.payload
    what = payload.get("kind", "")
    if output.kind == "alerts":
        severity = payload.get("severity", "info") if what == "opened" else "info"
        what = f"{payload.get('rule', '')} {what}"
    else:
        severity = "warning" if what == "drift" else "info"
    cluster, other = (str(payload.get(name) or "") for name in ("cluster", "other"))
    text = as_line(output)
    shown = text if len(text) <= TEXT else f"{text[:TEXT]}…"
    stream, time, version = stream_of(output) or "", str(payload.get("time", "")), payload.get("version")
    known = version if isinstance(version, int) else 0
    # An output that no worker wrote can have anything there.
    time = time if is_canonical(time) else ""
    return TimelineEntry(0, output.kind, what, stream, cluster, other, severity, time, shown, known)


class Timeline:
    """The entries that came last, in the order in which they came and in that of their times."""

    def __init__(self) -> None:
        self._entries: deque[TimelineEntry] = deque()
        self._by_time: list[TimelineEntry] = []
        self._next = 1

    @property
    def newest(self) -> int:
        """Number of the newest entry; 0 before the first."""
        return self._next - 1

    def add(self, entry: TimelineEntry) -> TimelineEntry:
        """Add an entry, and return it with its number."""
        numbered = entry._replace(number=self._next)
        self._entries.append(numbered)
        # Partitions are read one after the other, so that many entries come later than those with a later time.
        insort(self._by_time, numbered, key=_moment)
        if len(self._entries) > KEPT:
            oldest = self._entries.popleft()
            del self._by_time[bisect_left(self._by_time, _moment(oldest), key=_moment)]
        self._next += 1
        return numbered

    def since(self, number: int) -> list[TimelineEntry]:
        """Return the entries after a number, the oldest first."""
        found = []
        for entry in reversed(self._entries):
            if entry.number <= number:
                break
            found.append(entry)
        return found[::-1]

    def select(
        self,
        most: int,
        *,
        kinds: Collection[str] = (),
        severities: Collection[str] = (),
        stream: str = "",
        cluster: str = "",
        search: str = "",
        before: tuple[str, int] | None = None,
        names: ClusterNames | None = None,
    ) -> list[TimelineEntry]:
        """Return the entries with the latest times that fit, the latest first; empty filters let all pass.

        `before` is the time and the number of an entry: only those from before it are returned. The search is in the
        sentences with the `names` of their clusters.
        """
        wanted, called = search.casefold(), _Names(names or ClusterNames())
        found: list[TimelineEntry] = []
        end = len(self._by_time) if before is None else bisect_left(self._by_time, before, key=_moment)
        for at in range(end - 1, -1, -1):
            entry = self._by_time[at]
            if (
                (not kinds or entry.kind in kinds or entry.what in kinds)
                and (not severities or entry.severity in severities)
                and (not stream or entry.stream == stream)
                and (not cluster or cluster in (entry.cluster, entry.other))
                and (not wanted or wanted in entry.named(called).casefold())
            ):
                found.append(entry)
                if len(found) == most:
                    break
        return found

    def __iter__(self) -> Iterator[TimelineEntry]:
        return iter(self._entries)


class _Names(ClusterNames):
    """Names during one search: each is looked up once."""

    def __init__(self, names: ClusterNames) -> None:
        super().__init__(names.table)
        self.given = names.given
        self._found: dict[str, PresentName] = {}

    def of(self, cluster: str) -> PresentName:
        found = self._found.get(cluster)
        if found is None:
            found = self._found[cluster] = super().of(cluster)
        return found


def _moment(entry: TimelineEntry) -> tuple[str, int]:
    return entry.time, entry.number


def as_json(entries: Sequence[TimelineEntry], names: ClusterNames) -> list[dict[str, Any]]:
    """Return entries as plain values, with the present names of their clusters in their sentences."""
    return [entry._asdict() | {"text": entry.named(names)} for entry in entries]
