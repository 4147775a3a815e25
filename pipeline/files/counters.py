"""Which numbers count something for each source of records, and say little of what it is like."""

from collections.abc import Iterable, Mapping, Sequence
from math import nan
from statistics import median
from typing import Any, Final

import numpy as np
from resonance.engine.base import FloatArray
from resonance.pipeline.files.clocks import AGAIN
from resonance.pipeline.files.kinds import GRID
from resonance.pipeline.files.proofs import in_runs, restarts_with, rows_in, values_of
from resonance.pipeline.files.survey import FEW, HEAD, FileSurvey
from resonance.pipeline.json_paths import ABSENT

MOVES: Final = 50
"""Records of a meter for each that counts something, at most."""

LARGE: Final = 0.25
"""Part of what a tank has had by which it is filled up at once, at least."""

JUMPS: Final = 3
"""How often it is, at least, and how many times as often as as much goes out of it at once."""

CYCLE: Final = 200
"""Records of a source from one time to the next, at least: of a shorter cycle a model sees all before it answers."""

FEWEST_STEPS: Final = 20
"""Steps the one way for each back, at least: of a daily wave a side is hardly steeper."""

ONE_WAY: Final = 0.5
"""Part of the way of all small steps that is left of their sum, at least: those of waves and noise are to and fro."""

EMPTY: Final = 0.2
"""How full a tank is by the median of all records, at least, and how empty."""


def grows_within(seen: FileSurvey, path: str, sources: Sequence[str]) -> bool:
    """Return whether numbers count the records of each source, are its times, or what it has used up."""
    column, names = seen.columns[path], seen.columns[sources[0]]
    if not column.only(int, float) or len(column.few) < GRID:
        return False
    if column.only(int) and len(column.few) > FEW and in_runs(names) and restarts_with(column, names):
        return True
    compared = rises = falls = 0
    ends: list[dict[Any, int | float]] = []
    later: list[bool] = []
    for records in (seen.head, seen.tail):
        # Between the first and the last ones a tank may be filled up.
        latest: dict[Any, int | float] = {}
        for *names_of, value in rows_in(records, (*sources, path)):
            name = tuple(names_of)
            if name in latest:
                compared += 1
                rises += value > latest[name]
                falls += value < latest[name]
                # Most columns rise and fall within the first few records.
                if AGAIN * min(rises, falls) > HEAD:
                    return False
            elif ends and name in ends[0]:
                later.append(value > ends[0][name])
            latest[name] = value
        ends.append(latest)
    count = max(map(len, ends))
    if compared <= count:
        return False
    # A record that comes late falls.
    if AGAIN * falls <= rises and _counts_rarely(*ends):
        return True
    if len(column.few) <= FEW:
        return False
    if column.only(int) and AGAIN * (compared - rises) <= compared:
        return True
    # What a meter counts may rest for a while; what is smooth rises or falls as steadily, but for minutes or hours.
    moves = max(rises, falls)
    is_steady = AGAIN * min(rises, falls) <= moves and MOVES * moves >= compared
    return is_steady and (compared > AGAIN * count or (not falls and bool(later) and all(later)))


def _counts_rarely(first: dict[Any, int | float], later: dict[Any, int | float]) -> bool:
    """Return whether whole numbers of most sources are larger at the end, by different amounts, and of none smaller.

    So does what counts errors or restarts. A setting that is changed once is changed by as much for many.
    """
    more = [later[name] - first[name] for name in first.keys() & later.keys()]
    is_whole = all(number % 1 == 0 for number in (*first.values(), *later.values()))
    return is_whole and len(set(more)) > 2 and min(more) >= 0 and 2 * more.count(0) < len(more)


def jumping_back(seen: FileSurvey, paths: Iterable[str], sources: Sequence[str]) -> list[str]:
    """Return the columns whose numbers go one way for each source, and now and then back by a large part at once.

    So do what is in a tank and the charge of a battery.
    """
    scales = [
        (records, _by_source(records, sources), apart)
        for records, apart in ((seen.spaced, seen.apart), (seen.head, 1.0))
    ]
    columns = {path: seen.columns[path] for path in paths}
    return [
        path
        for path, column in columns.items()
        if len(column.few) > FEW and column.only(int, float) and _jumps_back(path, scales)
    ]


def _by_source(records: Sequence[dict[str, Any]], sources: Sequence[str]) -> dict[tuple[Any, ...], list[int]]:
    """Return the places of the records of each source."""
    names = [values_of(records, path) for path in sources]
    found: dict[tuple[Any, ...], list[int]] = {}
    for at in range(len(records)):
        found.setdefault(tuple(each[at] for each in names), []).append(at)
    return found


def _jumps_back(path: str, scales: Iterable[tuple[Sequence[dict[str, Any]], Mapping[Any, list[int]], float]]) -> bool:
    """Return whether a column does so in records that are some apart, or in the first ones."""
    ranges: dict[Any, float] = {}
    for records, places, apart in scales:
        found = [nan if each is None or each is ABSENT else each for each in values_of(records, path)]
        numbers = np.array(found, np.float64)
        own = {name: values[~np.isnan(values)] for name, at in places.items() for values in [numbers[at]]}
        if not ranges:
            ranges = {name: float(np.ptp(values)) for name, values in own.items() if len(values) and np.ptp(values) > 0}
            # What dies away after a burst is near its least most of the time, where a tank is as often full as empty.
            full = [float(np.median(own[name]) - np.min(own[name])) / ranges[name] for name in ranges]
            if not full or not EMPTY <= median(full) <= 1 - EMPTY:
                return False
        # Noise may hide the way from one record to the next, but not over several.
        series, every = [own[name] / ranges[name] for name in own.keys() & ranges.keys()], 1
        while steps := [np.diff(values[::every]) for values in series if len(values) > FEWEST_STEPS * every]:
            if any(_is_sawtooth([side * each for each in steps], apart * every) for side in (1, -1)):
                return True
            every *= 2
    return False


def _is_sawtooth(steps: Sequence[FloatArray], apart: float) -> bool:
    """Return whether steps of sources, in what each has from end to end, go up but for large ones down."""
    every = np.concatenate(steps)
    back, forth = int(np.sum(every <= -LARGE)), int(np.sum(every >= LARGE))
    if back < JUMPS or JUMPS * forth > back or len(every) < max(FEWEST_STEPS, CYCLE / apart) * back:
        return False
    small = [each[each > -LARGE] for each in steps]
    return bool(median(each.sum() / (np.abs(each).sum() or 1.0) for each in small) >= ONE_WAY)
