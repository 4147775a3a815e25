"""Alike alerts of many streams as one: a change that hits all machines opens an alert for each of them."""

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any, Final, Generic, NamedTuple, TypeVar

GAP_SECONDS: Final = 600.0
"""Longest time from one alike alert to the next: machines report at different times, some of them rarely."""

SPAN_SECONDS: Final = 3_600.0
"""Longest time from the first of them to the last."""

FEWEST: Final = 3
"""Fewest streams whose alerts become one line."""

NAMED: Final = 3
"""Most streams that a summary names."""

Item = TypeVar("Item")


@dataclass(slots=True)
class _Group(Generic[Item]):
    """Items that were found alike so far, since the time of the first one."""

    began: float = 0.0
    latest: float = 0.0
    items: list[Item] = field(default_factory=list)
    streams: set[str] = field(default_factory=set)

    def takes(self, time: float) -> bool:
        """Whether an alike alert of a time belongs to these, which are in the order of time or against it."""
        return abs(time - self.latest) <= GAP_SECONDS and abs(time - self.began) <= SPAN_SECONDS


class _Alike(NamedTuple):
    """What alike alerts have in common, and the time of one of them."""

    what: tuple[object, ...]
    time: float
    stream: str


def together(
    items: Iterable[Item], alert_of: Callable[[Item], Mapping[str, Any] | None], *, each: bool = False
) -> list[list[Item]]:
    """Group items whose alerts are alike: of one rule and kind, soon after each other, in `FEWEST` streams or more.

    A group has the place of its first item. Any other item is a group of its own, so is one without an alert; with
    `each` all are.
    """
    groups: list[_Group[Item]] = []
    newest: dict[tuple[object, ...], _Group[Item]] = {}
    for item in items:
        alike = None if each else _alike(alert_of(item))
        if alike is None:
            groups.append(_Group(items=[item]))
            continue
        group = newest.get(alike.what)
        if group is None or not group.takes(alike.time):
            group = newest[alike.what] = _Group(alike.time, alike.time)
            groups.append(group)
        group.items.append(item)
        group.streams.add(alike.stream)
        group.latest = alike.time
    return [
        part
        for group in groups
        for part in ([group.items] if len(group.streams) >= FEWEST else [[item] for item in group.items])
    ]


def _alike(alert: Mapping[str, Any] | None) -> _Alike | None:
    """Return how to compare an alert; None for one of a whole partition, and for a later release's."""
    try:
        if alert is None or alert["stream"] is None or not isinstance(alert["text"], str):
            return None
        what = alert["rule"], alert["kind"], alert["severity"], alert.get("reason"), alert.get("feature")
        return _Alike(what, datetime.fromisoformat(alert["time"]).timestamp(), alert["stream"])
    except (KeyError, TypeError, ValueError):
        return None


def summary(alerts: Sequence[Mapping[str, Any]], text: str) -> str:
    """Return one sentence for alike alerts, whose first one says `text`."""
    if len(alerts) == 1:
        return text
    streams = list(dict.fromkeys(alert["stream"] for alert in alerts))
    last = max(alert["time"] for alert in alerts)[11:19]
    more = len(streams) - 1 - NAMED
    others = ", ".join(streams[1 : NAMED + 1]) + (f" and {more:,} more" if more > 0 else "")
    return f"{len(streams):,} streams by {last} (--each lists them): {text}; likewise {others}"
