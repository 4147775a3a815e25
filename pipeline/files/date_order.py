"""Of forms of dates that all fit, such as with the day or the month first, the one that the records follow."""

from collections import defaultdict
from collections.abc import Sequence
from itertools import pairwise
from statistics import median
from typing import Any, Final

from resonance.pipeline.files.proofs import rows_in
from resonance.pipeline.files.survey import FileSurvey
from resonance.pipeline.timestamps import timestamp_of

FAR: Final = 5
"""How many times as often a wrong form goes back, or as uneven its steps are, at least: a month is 30 days."""


def forms_in_order(
    seen: FileSurvey, paths: Sequence[str], forms: Sequence[str], sources: Sequence[str]
) -> Sequence[str]:
    """Return only the form in which the times of the records, or of each source, are in order; all where unclear."""
    if len(forms) < 2:
        return forms
    # The first and the last records may be of a day each, and those between of the days between.
    for records in ((*seen.head, *seen.tail), seen.spaced):
        if len(found := _in_order(records, paths, forms, [path for path in sources if path in seen.columns])) == 1:
            return found
    return forms


def _in_order(
    records: Sequence[dict[str, Any]], paths: Sequence[str], forms: Sequence[str], names: Sequence[str]
) -> Sequence[str]:
    rows: defaultdict[Any, list[tuple[Any, ...]]] = defaultdict(list)
    for row in rows_in(records, (*names, *paths)):
        rows[row[: len(names)]].append(row[len(names) :])
    read = {form: [[_time(row, form) for row in own] for own in rows.values()] for form in forms}
    unread = {form: sum(each.count(None) for each in times) for form, times in read.items()}
    orders = {form: _order(times) for form, times in read.items() if unread[form] == min(unread.values())}
    return [one for one, own in orders.items() if all(_surpasses(own, each) for each in orders.values() if each != own)]


def _surpasses(one: tuple[int, float], other: tuple[int, float]) -> bool:
    is_even = one[0] <= other[0] and FAR * one[1] <= other[1]
    return is_even or other[0] >= FAR * max(one[0], 1)


def _time(row: Sequence[Any], form: str) -> int | None:
    try:
        return timestamp_of(row, form)
    except ValueError:
        return None


def _order(times: Sequence[Sequence[int | None]]) -> tuple[int, float]:
    """Return how often times leave their direction, which may be backwards, and all steps by the usual one."""
    known = ([time for time in own if time is not None] for own in times)
    steps = [after - before for own in known for before, after in pairwise(own) if after != before]
    falls, sizes = sum(step < 0 for step in steps), list(map(abs, steps)) or [1]
    return min(falls, len(steps) - falls), sum(sizes) / median(sizes)
