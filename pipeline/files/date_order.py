"""Of forms of dates that all fit, such as with the day or the month first, the one that the records follow."""

from collections import defaultdict
from collections.abc import Sequence
from itertools import pairwise
from statistics import median
from typing import Any, Final, NamedTuple

from resonance.pipeline.files.sources import rows_of
from resonance.pipeline.files.survey import FileSurvey
from resonance.pipeline.timestamps import timestamp_of

FAR: Final = 5
"""How many times as often a wrong form goes back, or as uneven its steps are, at least: a month is 30 days."""


class _Order(NamedTuple):
    turns: int
    """How often times leave their direction; those of a file may fall."""
    spread: float
    """All steps by the usual one."""

    def surpasses(self, other: "_Order") -> bool:
        """Return whether it is clearly the better one."""
        even = self.turns <= other.turns and FAR * self.spread <= other.spread
        return even or other.turns >= FAR * max(self.turns, 1)


def forms_in_order(
    seen: FileSurvey, paths: Sequence[str], forms: Sequence[str], sources: Sequence[str]
) -> Sequence[str]:
    """Return only the form in which the times of the records, or of each source, are in order; all where unclear."""
    if len(forms) < 2:
        return forms
    names = [path for path in sources if path in seen.columns]
    rows: defaultdict[Any, list[tuple[Any, ...]]] = defaultdict(list)
    for row in rows_of(seen, *names, *paths):
        rows[row[: len(names)]].append(row[len(names) :])
    read = {form: [[_time(row, form) for row in own] for own in rows.values()] for form in forms}
    unread = {form: sum(each.count(None) for each in times) for form, times in read.items()}
    orders = {form: _order(times) for form, times in read.items() if unread[form] == min(unread.values())}
    best = [one for one in orders if all(orders[one].surpasses(each) for other, each in orders.items() if other != one)]
    return best or forms


def _time(row: Sequence[Any], form: str) -> int | None:
    try:
        return timestamp_of(row, form)
    except ValueError:
        return None


def _order(times: Sequence[Sequence[int | None]]) -> _Order:
    known = ([time for time in own if time is not None] for own in times)
    steps = [after - before for own in known for before, after in pairwise(own) if after != before]
    falls, sizes = sum(step < 0 for step in steps), list(map(abs, steps)) or [1]
    return _Order(min(falls, len(steps) - falls), sum(sizes) / median(sizes))
