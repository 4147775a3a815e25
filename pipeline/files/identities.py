"""Which numbers name something though their names do not say so, or are the same for each source: none is measured."""

from collections.abc import Iterable, Sequence
from itertools import pairwise
from math import gcd, sqrt
from typing import Any, Final

import numpy as np
from resonance.pipeline.files.proofs import rows_in, values_of
from resonance.pipeline.files.survey import FEW, FEWEST, FileSurvey

EACH: Final = 10
"""Records of a source, on average, from which on equal numbers are no accident."""

FINE: Final = 1_000_000
"""Steps from the least to the largest number, at least: hardly any instrument has as many, but a number of a card."""

COME_AGAIN: Final = 5
"""How often each number comes, on average, where they come again, and the part of them that do so to the end."""

TO_THE_END: Final = 0.75
"""Part of the numbers of the first half of a file that come again in the second one, at least."""

EVENLY: Final = 1.63
"""Most distance from an even distribution, in the square root of how many there are: 1 in 100 is beyond by chance."""


def same_for_each(seen: FileSurvey, path: str, sources: Sequence[str]) -> bool:
    """Return whether a number is the same in all records of each source, such as its rated power.

    Of a number that changed for a while nothing may be overlooked: where not all records are at hand, it is counted.
    """
    column = seen.columns[path]
    own: dict[tuple[Any, ...], Any] = {}
    rows = 0
    for *names, value in rows_in((*seen.head, *seen.spaced, *seen.tail), (*sources, path)):
        if type(value) in (int, float) and own.setdefault(tuple(names), value) != value:
            return False
        rows += 1
    if len(own) < 2 or rows < EACH * len(own):
        return False
    known = {*own.values()}
    if column.counts is None:
        # How many there were, mostly none.
        is_count = column.common == 0 == column.low.value
        return (
            not is_count
            and {column.low.value, column.high.value} <= known
            and (len(column.few) > FEW or column.few <= known)
        )
    counts = {value: count for value, count in column.counts.items() if type(value) is int}
    names_of = seen.columns[sources[0]].counts if len(sources) == 1 else None
    if names_of is None or not counts.keys() <= known:
        return counts.keys() <= known
    due = dict.fromkeys(counts, 0)
    for name, value in own.items():
        due[value] += names_of[name[0]]
    return all(count <= due[value] for value, count in counts.items())


def named_by(seen: FileSurvey, path: str) -> str:
    """Return why whole numbers are those of cards, or hashes, rather than measured; empty where they may be."""
    found = [value for value in values_of(seen.spaced, path) if type(value) in (int, float)]
    if len(found) < FEWEST or any(value % 1 for value in found):
        return ""
    values = [int(value) for value in found]
    different = sorted({*values})
    if len(different) <= FEW or different[-1] - different[0] < FINE * gcd(*_steps(different)):
        return ""
    digits = f"{len(str(different[-1]))} digits"
    if COME_AGAIN * len(different) <= len(values):
        first, later = {*values[: len(values) // 2]}, {*values[len(values) // 2 :]}
        if len(first & later) >= TO_THE_END * len(first):
            return f"integers of up to {digits} that come again, as ids do"
    if len(different) >= FEWEST and _is_even(different) and not _has_order(values):
        return f"integers spread evenly over {digits}, without an order, as ids are"
    return ""


def _steps(values: Iterable[int]) -> list[int]:
    return [after - before for before, after in pairwise(values)]


def _is_even(different: Sequence[int]) -> bool:
    """Return whether numbers in order are spread evenly, by the test of Kolmogorov and Smirnov."""
    places = (np.array(different, np.float64) - different[0]) / (different[-1] - different[0])
    apart = np.abs(places - np.linspace(0, 1, len(places))).max()
    return bool(apart * sqrt(len(places)) <= EVENLY)


def _has_order(values: Sequence[int]) -> bool:
    """Return whether numbers say something of those that follow them, one or several later."""
    own = np.array(values, np.float64)
    own = (own - own.mean()) / (own.std() or 1.0)
    together = [abs(float(np.mean(own[:-lag] * own[lag:]))) for lag in (1, 2, 5)]
    return max(together) > 4 / sqrt(len(own))
