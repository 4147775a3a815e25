"""What happened lately, as sentences: the newest events, drifts and alerts of all streams."""

from collections import deque
from collections.abc import Collection, Iterator, Sequence
from typing import Any, Final, NamedTuple

from resonance.pipeline.watch.named import with_names
from resonance.pipeline.watch.watch import WatchedOutput, as_line, stream_of
from resonance.schemas import ClusterNames

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
    return TimelineEntry(0, output.kind, what, stream, cluster, other, severity, time, shown, known)


class Timeline:
    """The newest entries, in the order in which they came."""

    def __init__(self) -> None:
        self._entries: deque[TimelineEntry] = deque(maxlen=KEPT)
        self._next = 1

    @property
    def newest(self) -> int:
        """Number of the newest entry; 0 before the first."""
        return self._next - 1

    def add(self, entry: TimelineEntry) -> TimelineEntry:
        """Add an entry, and return it with its number."""
        numbered = entry._replace(number=self._next)
        self._entries.append(numbered)
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
        before: int = 0,
        names: ClusterNames | None = None,
    ) -> list[TimelineEntry]:
        """Return the newest entries that fit, the newest first; empty filters let all pass.

        The search is in the sentences with the `names` of their clusters.
        """
        wanted, called = search.casefold(), names or ClusterNames()
        found: list[TimelineEntry] = []
        for entry in reversed(self._entries):
            if (
                (not before or entry.number < before)
                and (not kinds or entry.kind in kinds or entry.what in kinds)
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


def as_json(entries: Sequence[TimelineEntry], names: ClusterNames) -> list[dict[str, Any]]:
    """Return entries as plain values, with the present names of their clusters in their sentences."""
    return [entry._asdict() | {"text": entry.named(names)} for entry in entries]
