"""Whether what streams show is about the same: records that are off, features that moved, centres of clusters."""

from collections.abc import Callable, Iterable, Mapping
from typing import Final

from resonance.pipeline.incidents.signs import Move, Value

ALIKE: Final = 0.5
"""Share of the features in common that have to agree."""

OWN_SCALE: Final = 3.0
"""Usual ranges by which the usual values of two streams differ that have scales of their own."""


def fits(tests: Mapping[str, Callable[[float], bool]], centres: Iterable[Mapping[str, float]]) -> float:
    """Return the largest share of features that pass in one of some centres."""
    return max(
        sum(name in centre and passes(centre[name]) for name, passes in tests.items()) / len(tests)
        for centre in centres
    )


def fits_values(moves: Mapping[str, Move], values: Mapping[str, Value]) -> float:
    """Return the share of features that moved where a record of another stream is off, or the same way."""
    same = sum(
        name in moves and is_same(moves[name]._replace(before=each.usual), each.value) for name, each in values.items()
    )
    return same / min(len(moves), len(values))


def are_alike(one: Mapping[str, Value], other: Mapping[str, Value], *, is_own: bool = False) -> bool:
    """Whether two records are off alike in half of the features that both name, or more."""
    return (alike(one, other, is_own=is_own) or 0.0) >= ALIKE


def alike(one: Mapping[str, Value], other: Mapping[str, Value], *, is_own: bool = False) -> float | None:
    """Return in which share of features two records are off alike; None where they have none in common.

    Those of one stream are so only where they are at the same place.
    """
    names = one.keys() & other.keys()
    if not names:
        return None
    count = 0
    for name in names:
        mine, yours = one[name], other[name]
        # Half of what is usual, or of the way that each went: a new kind has a width of its own.
        ranges = max(mine.high - mine.low, yours.high - yours.low)
        near = 0.5 * max(ranges, min(abs(each.value - each.usual) for each in (mine, yours)))
        is_near = abs(mine.usual - yours.usual) <= OWN_SCALE * ranges and abs(mine.value - yours.value) <= near
        # Or to the same side about as far, in what is usual of each.
        ways = ((each.value - each.usual) / (each.high - each.low or 1.0) for each in (mine, yours))
        count += is_near or (not is_own and is_as_far(*ways))
    return count / len(names)


def is_as_far(way: float, other: float) -> bool:
    """Whether a way goes to the side of another one, and a third to three times as far."""
    return other != 0 and 1 / 3 <= way / other <= 3


def moves_alike(mine: Move, yours: Move) -> bool:
    """Whether two features went to the same place, or, where streams have levels of their own, the same way."""
    return is_same(mine, yours.after) or is_as_far(mine.shift, yours.shift)


def is_same(move: Move, value: float) -> bool:
    """Whether a value is about where a feature moved to: a drift is seen under way."""
    return is_as_far(value - move.before, move.after - move.before)


def are_close(one: Mapping[str, float], other: Mapping[str, float]) -> bool:
    """Whether two centres differ by less than a quarter in most features."""
    names = one.keys() & other.keys()
    close = [name for name in names if abs(one[name] - other[name]) <= 0.25 * max(abs(one[name]), abs(other[name]))]
    return bool(names) and len(close) > 0.75 * len(names)
