"""What the order and the times of the records prove of a column of names, whatever a few of them are.

Files have records that came twice, late or with another name: no proof may depend on them.
"""

from collections import Counter, defaultdict
from collections.abc import Iterator, Sequence
from itertools import pairwise
from statistics import median
from typing import Any, Final

import orjson
from resonance.pipeline.files.clocks import AGAIN, forms_together, is_time, time_forms, times_of
from resonance.pipeline.files.survey import FEWEST, Column, FileSurvey
from resonance.pipeline.json_paths import ABSENT, find, parse_path
from resonance.pipeline.timestamps import timestamp_of

TURNED: Final = 3
"""Turns of a name, at least, that say how long one is."""

TURNS: Final = 0.42
"""How far, in its usual number of others, a source may come too early or too late; 0.5 and more where drawn at random.
"""

REPEATED: Final = 0.2
"""Share of times that come again from which they are of several sources."""

SLIPS: Final = 0.005
"""Share of records that may be repeated, late or wrong."""

UNLIKELY: Final = 0.05
"""Records that come again with the time and the name of another one, in those that would by chance, at most."""

ALIKE: Final = 1.1
"""Most runs of names, or restarts of a clock, in those that there should be."""

SEEN_APART: Final = 20
"""Most names whose spans of time are compared by records from the whole file."""


def times_come_again(found: Sequence[tuple[Any, ...]]) -> bool:
    """Return whether many times come more than once, and hardly ever with the same names, which follow each."""
    again = len(found) - len({*found})
    if len(found) < FEWEST or again > SLIPS * len(found):
        return False
    times = Counter(row[0] for row in found)
    if len(found) - len(times) < REPEATED * len(found):
        return False
    # Of many names that are drawn at random few come again, too.
    pairs = sum(count * (count - 1) // 2 for count in times.values())
    alike = sum(count * count for count in Counter(row[1:] for row in found).values()) / len(found) ** 2
    return again <= UNLIKELY * pairs * alike


def goes_forward(seen: FileSurvey, path: str) -> bool:
    """Return whether times hardly ever go back, in the file or for each name of a column."""
    column = seen.columns[path]
    if column.falls is not None and AGAIN * column.falls <= column.changes:
        return True
    others = (each for each, names in seen.columns.items() if each != path and names.counts is not None)
    return any(_goes_forward(list(rows_of(seen, each, path))) for each in others)


def _goes_forward(found: Sequence[tuple[Any, Any]]) -> bool:
    latest: dict[Any, Any] = {}
    compared = falls = 0
    for name, value in found:
        if name in latest:
            compared += 1
            falls += value < latest[name]
        latest[name] = value
    return compared >= FEWEST and AGAIN * falls <= compared


def begins_again(seen: FileSurvey, path: str, clock: str) -> bool:
    """Return whether the names of a column come one behind the other, and times begin again at most with each."""
    times = seen.columns[clock]
    is_ordered = times.only(int, float) or is_time(times)
    return bool(is_ordered and in_runs(seen.columns[path]) and restarts_with(times, seen.columns[path]))


def in_runs(names: Column) -> bool:
    """Return whether all records of a name come one behind the other, then all of the next one."""
    others = len(names.counts or ()) - 1
    return others > 0 and others <= names.runs <= ALIKE * others


def restarts_with(numbers: Column, names: Column) -> bool:
    """Return whether numbers, or times, begin again, at most as often as the name is another one."""
    return 0 < numbers.restarts <= ALIKE * names.runs


def follow_in_time(seen: FileSurvey, path: str, clock: str) -> bool:
    """Return whether each name of a column has a span of time of its own, one after the other, and never returns."""
    names, times = seen.columns[path], seen.columns[clock]
    if not in_runs(names):
        return False
    is_read = times.only(int, float) or is_time(times)
    if is_read and not times.restarts:
        return True
    is_few = names.runs < SEEN_APART
    if is_read and not is_few and restarts_with(times, names):
        return False
    # Records that come a little late fall too, and of times in other forms nothing is counted: look at what changes.
    found = [_spans(seen, records, path, clock) for records in ((seen.spaced,) if is_few else (seen.head, seen.tail))]
    pairs = [pair for spans in found for pair in pairwise(spans)]
    return bool(pairs) and all(before[1] <= after[0] for before, after in pairs)


def _spans(seen: FileSurvey, records: Sequence[dict[str, Any]], path: str, clock: str) -> list[tuple[int, int]]:
    """Return the times of each name but for the outermost ones; nothing where they cannot be read."""
    times, column = times_of(seen, clock), seen.columns[clock]
    forms = forms_together(column, seen.columns[times[1]]) if times[1:] else time_forms(column)
    for form in [""] if is_time(column) else forms:
        own: defaultdict[Any, list[int]] = defaultdict(list)
        try:
            for name, *texts in rows_in(records, (path, *times)):
                if (time := timestamp_of(texts, form or None)) is not None:
                    own[name].append(time)
        except ValueError:
            continue
        ordered = map(sorted, own.values())
        return [(each[len(each) // 10], each[len(each) * 9 // 10]) for each in ordered]
    return []


def is_within(seen: FileSurvey, path: str, wider: str) -> bool:
    """Return whether a column has more names than another, and each of them goes with one of that."""
    return len({*rows_of(seen, wider)}) < len({*rows_of(seen, path)}) and settles(seen, (path,), wider)


def settles(seen: FileSurvey, paths: Sequence[str], other: str) -> bool:
    """Return whether some columns together say what another one is, in all records but a few."""
    own: defaultdict[Any, Counter[Any]] = defaultdict(Counter)
    for *names, value in rows_of(seen, *paths, other):
        own[tuple(names)][value] += 1
    usual = sum(max(each.values()) for each in own.values())
    return sum(map(Counter.total, own.values())) - usual <= SLIPS * usual


def take_turns(names: Sequence[Any]) -> bool:
    """Return whether a name nearly always comes again after as many others, which are not drawn at random."""
    newest: dict[Any, int] = {}
    gaps: defaultdict[Any, list[int]] = defaultdict(list)
    for at, name in enumerate(names):
        if name in newest:
            gaps[name].append(at - newest[name])
        newest[name] = at
    # Of what came two or three times nothing says how often it does.
    usual = [(gap, float(median(own))) for own in gaps.values() if len(own) >= TURNED for gap in own]
    # A source may be silent for a while.
    off = sum(min(abs(gap - middle), 2 * middle) for gap, middle in usual)
    return off < TURNS * sum(middle for _, middle in usual)


def distinct(records: Sequence[dict[str, Any]]) -> list[dict[str, Any]]:
    """Return records without those that are a copy of one before."""
    return list({orjson.dumps(record): record for record in records}.values())


def rows_of(seen: FileSurvey, *paths: str) -> Iterator[tuple[Any, ...]]:
    """Yield the values of some columns in the first and the last records that have all of them."""
    return rows_in((*seen.head, *seen.tail), paths)


def rows_in(records: Sequence[dict[str, Any]], paths: Sequence[str]) -> Iterator[tuple[Any, ...]]:
    """Yield the values of some columns in the records that have all of them."""
    return rows_from(*(values_of(records, path) for path in paths))


def values_of(records: Sequence[dict[str, Any]], path: str) -> list[Any]:
    """Return the values of a column, `ABSENT` where a record has none."""
    names = parse_path(path)
    if len(names) == 1:  # The usual case, several times as fast.
        return [record.get(names[0], ABSENT) for record in records]
    return [find(record, names) for record in records]


def rows_from(*values: Sequence[Any]) -> Iterator[tuple[Any, ...]]:
    """Yield the values of some columns side by side, where none is missing."""
    return (row for row in zip(*values, strict=True) if None not in row and ABSENT not in row)
