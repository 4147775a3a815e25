"""Which numbers count something for each source of records, and say little of what it is like."""

from collections.abc import Sequence
from typing import Any, Final

from resonance.pipeline.files.kinds import AGAIN, GRID
from resonance.pipeline.files.sources import rows_in
from resonance.pipeline.files.survey import FEW, HEAD, FileSurvey

MOVES: Final = 50
"""Records of a meter for each that counts something, at most."""


def grows_within(seen: FileSurvey, path: str, sources: Sequence[str]) -> bool:
    """Return whether numbers count the records of each source, are its times, or what it has used up."""
    column, names = seen.columns[path], seen.columns[sources[0]]
    if not column.only(int, float) or len(column.few) < GRID:
        return False
    is_ordered = names.counts is not None and names.changes == len(names.counts) - 1
    if column.only(int) and len(column.few) > FEW and column.falls and is_ordered and column.falls <= names.changes:
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
    if not falls and _counts_rarely(*ends):
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
