"""Ranges that are frozen anew where most records have left them, and how prepared values change with that.

A scale that most records of a feature have left says nothing of it any more: the feature decides everything, or
nothing. It is then frozen anew from the last records, and given back when the feature comes back. A feature that goes
to and fro, as one with a daily wave, has one range for all its places, once it has turned back.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final, NamedTuple, Self

import numpy as np
from numpy.typing import NDArray
from resonance.engine.base import MAGNITUDE, FloatArray, IntArray
from resonance.engine.prepare.columns import Columns
from resonance.engine.prepare.scaling import is_steady, range_of
from resonance.kernels.arithmetic import jit
from resonance.kernels.table import require

LOOK: Final = 500
"""Records between two looks at how many were far outside: until a new range all other features say nothing."""
LOOK_BEFORE: Final = 1_000
"""The same in states of a preparation before revision 6."""
RECENT: Final = 200
"""Records before a look that a new range is taken from, as many as a warm-up has."""
RESTLESS: Final = 200
"""Looks for which it counts that a range changed, and that it turned back: from then on it widens over both places."""
_WIDEST = 50.0
"""How many times as wide as either place such a range may be: beyond, as with other units, they are kept apart."""
_LOW, _HIGH = -1.0, 2.0
"""Prepared values beyond are far outside of [0, 1]: by more than its width."""


@dataclass(frozen=True, slots=True)
class RangeChange:
    """A feature has another range than before; `before` and `after` are its ends, in the units of the input."""

    feature: str
    before: tuple[float, float]
    after: tuple[float, float]


class Rescaling(NamedTuple):
    """What was a prepared value x of a column is ``factor * x + shift`` from now on."""

    factor: FloatArray
    """Shape (dimension,), like `shift`."""
    shift: FloatArray
    changes: list[RangeChange]
    """The features of which that changes something."""


class Settling(NamedTuple):
    """The records of a warm-up, in order, as its first scale had them and as the one that stays has them."""

    before: FloatArray
    """Shape (warmup_records, dimension), like `after`."""
    after: FloatArray
    raw: FloatArray
    """Shape (warmup_records, features): as they came."""


@jit
def _count(prepared, features, columns, low, width, home_low, home_width, seen, far, back, recent):
    """Count records that are far outside of the present range and near the warm-up's; keep those before a look."""
    for t in range(len(prepared)):
        at = seen + t - (LOOK - RECENT)
        for k in range(len(features)):
            c, value = features[k], prepared[t, columns[k]]
            far[k] += not _LOW <= value <= _HIGH
            back[k] += _LOW <= (value * width[c] + (low[c] - home_low[k])) / home_width[k] <= _HIGH
            if at >= 0:
                recent[at, k] = value


def _over(one: tuple[float, float], other: tuple[float, float]) -> tuple[float, float]:
    """Return the range that reaches over two."""
    low = min(one[0], other[0])
    return low, max(one[0] + one[1], other[0] + other[1]) - low


class RangeWatch:
    """Counts how many records are far outside of the range of each of some features.

    Parameters
    ----------
    features, columns : ndarray of int64, shape (watched,)
        The features, and where in a prepared record each has its column.
    low, width : ndarray of shape (watched,)
        What becomes 0 of each, and how wide [0, 1] is: their ranges of the warm-up, to which they can return.

    Attributes
    ----------
    seen : int
        Records since the last look.
    """

    def __init__(self, features: IntArray, columns: IntArray, low: FloatArray, width: FloatArray) -> None:
        self._features, self._columns = features, columns
        self._home_low, self._home_width = low, width
        # Looks for which the last change counts yet, below 0 where it was downwards, beyond `RESTLESS` after a turn.
        self._restless = np.zeros(len(features), np.int64)
        self._begin()

    def _begin(self) -> None:
        """Count anew."""
        self.seen = 0
        self._far, self._back = (np.zeros(len(self._features), np.int64) for _ in range(2))
        self._recent = np.zeros((RECENT, len(self._features)))

    def see(self, prepared: FloatArray, low: FloatArray, width: FloatArray) -> None:
        """Count prepared records of these ranges, at most as many as there may be until the next look."""
        home = self._home_low, self._home_width
        counted = self._far, self._back, self._recent
        _count(prepared, self._features, self._columns, low, width, *home, self.seen, *counted)
        self.seen += len(prepared)

    def look(self, low: FloatArray, width: FloatArray, narrowest: FloatArray) -> tuple[FloatArray, FloatArray]:
        """Return the ranges of all features from now on: the present ones, or new ones wider than `narrowest`."""
        new_low, new_width = low.copy(), width.copy()
        for k, c in enumerate(self._features.tolist()):
            self._restless[k] -= np.sign(self._restless[k])
            present, home = (low[c], width[c]), (self._home_low[k], self._home_width[k])
            if present != home and 2 * self._back[k] > LOOK:
                found = home
            elif 2 * self._far[k] > LOOK and not is_steady(self._recent[:, k]):
                begins, wide = range_of(self._recent[:, k])
                found = float(low[c] + begins * width[c]), float(wide * width[c])
            else:
                continue
            both, narrower = _over(present, found), min(present[1], found[1])
            way = 1 if 2.0 * found[0] + found[1] >= 2.0 * present[0] + present[1] else -1
            turned = abs(self._restless[k]) > RESTLESS
            if turned and both[1] <= min(_WIDEST * narrower, MAGNITUDE):
                found = home = both
            if found is home or (abs(found[0]) <= MAGNITUDE and narrowest[c] < found[1] <= MAGNITUDE):
                new_low[c], new_width[c] = found
                self._home_low[k], self._home_width[k] = home
                turned |= way * self._restless[k] < 0
                self._restless[k] = way * (2 if turned else 1) * RESTLESS
        self._begin()
        return new_low, new_width

    def state(self) -> tuple[dict[str, int], dict[str, NDArray[Any]]]:
        """Return what `from_state` reads: members of a header, and arrays."""
        recent = self._recent[: max(self.seen - (LOOK - RECENT), 0)]
        arrays = {"far": self._far, "back": self._back, "recent": recent, "restless": self._restless}
        return {"seen": self.seen}, {**arrays, "home_low": self._home_low, "home_width": self._home_width}

    @classmethod
    def from_state(cls, seen: Any, arrays: Mapping[str, NDArray[Any]], features: IntArray, columns: IntArray) -> Self:
        """Continue from a state of these features; KeyError or ValueError where it is none."""
        far, back, recent, low, width = (arrays[name] for name in ("far", "back", "recent", "home_low", "home_width"))
        require(type(seen) is int and 0 <= seen <= LOOK_BEFORE, f"{seen!r} records since the last look")
        for counts in (far, back):
            require(counts.shape == features.shape and counts.dtype == np.int64, "counts of records outside")
            require(((counts >= 0) & (counts <= seen)).all(), "counts of records outside")
        require(low.shape == width.shape == features.shape, "ranges of the warm-up")
        # Before revision 7 no change counted for long.
        restless = arrays.get("restless", np.zeros(features.shape, np.int64))
        require(restless.shape == features.shape and restless.dtype == np.int64, "changes that count")
        require((np.abs(restless) <= 2 * RESTLESS).all(), "changes that count")
        usable = (np.abs(low) <= MAGNITUDE) & (width > 0.0) & (width <= MAGNITUDE)
        require(usable.all(), "ranges of the warm-up")
        kept, kept_before = (max(seen - (look - RECENT), 0) for look in (LOOK, LOOK_BEFORE))
        is_older = kept != kept_before == len(recent)
        if is_older:  # What was counted is of more records than there are between two looks.
            seen, kept, far, back, recent = 0, 0, np.zeros_like(far), np.zeros_like(back), recent[:0]
        require(recent.shape == (kept, len(features)) and (np.abs(recent) <= MAGNITUDE).all(), "last records")
        watch = cls(features, columns, low, width)
        watch.seen, watch._far, watch._back, watch._restless = seen, far, back, restless
        watch._recent[:kept] = recent
        return watch


def rescale(columns: Columns, watch: RangeWatch, names: Sequence[str]) -> Rescaling | None:
    """Give the features that have left their ranges new ones; None where nothing changes.

    `names` are those of the prepared columns. It is time for it where the watch has seen `LOOK` records.
    """
    # Two values at most, each spread over its step, are as good as none: a range of them would be all noise.
    table = columns.table
    low, width = watch.look(table.low, table.width, 2.0 * table.step)
    c = np.flatnonzero((low != table.low) | (width != table.width))
    if not len(c):
        return None
    factor, shift = np.ones(len(names)), np.zeros(len(names))
    at = table.first[c]
    factor[at], shift[at] = table.width[c] / width[c], (table.low[c] - low[c]) / width[c]
    before = _ranges(columns, len(names), at)
    columns.set_ranges(low, width)
    changed = [names[column] for column in at]
    return Rescaling(factor, shift, list(map(RangeChange, changed, before, _ranges(columns, len(names), at))))


def _ranges(columns: Columns, count: int, at: IntArray) -> list[tuple[float, float]]:
    """Return the input values that some of `count` columns map to 0 and to 1."""
    low, high = np.zeros(count), np.ones(count)
    for end in (low, high):
        columns.to_input_units(end, np.zeros(count))
    return list(zip(low[at].tolist(), high[at].tolist(), strict=True))
