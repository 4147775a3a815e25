"""What each feature becomes: its step, logarithm, bend and range, or the columns of its category; and the way back."""

import math
from collections.abc import Mapping, Sequence
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray
from resonance.engine.base import MAGNITUDE, FloatArray, IntArray
from resonance.engine.prepare.parameters import PreparationParameters
from resonance.engine.prepare.scaling import (
    FLAG_WIDTH,
    LARGEST,
    asinh,
    bend_of,
    bent_grain,
    fine_step,
    flag_range,
    inverse_log1p,
    is_common,
    is_flag,
    is_steady,
    mean_of,
    range_of,
    sinh_and_slope,
    spread_steps,
    step_of,
)
from resonance.engine.prepare.transform import transform
from resonance.kernels.table import ABOVE_ZERO, Table, checked, floats, ints, new, packed, put, require

_STRONG: Final = 0.25
"""Share of the variance that one feature explains of another one from which both go together: a correlation of 1/2."""
_MAX_VALUES: Final = 20
"""Different values up to which a feature is compared by its values, and not by their order."""
_BLOCK: Final = 256
"""Columns that are compared at once, which bounds the memory."""


def _ranks(column: FloatArray) -> FloatArray:
    """Return the mean rank of each value among equal ones, from 0."""
    _, place, counts = np.unique(column, return_inverse=True, return_counts=True)
    ends = np.cumsum(counts)
    ranks: FloatArray = (ends - 0.5 * (counts + 1.0))[place]
    return ranks


def _explained(groupings: Sequence[IntArray], parts: FloatArray) -> FloatArray:
    """Return the share of each part's variance between the groups of each grouping, without that of chance.

    That is Kelley's epsilon squared; 0 where nothing varies. `parts` are columns.
    """
    n, sizes = len(parts), [int(group.max()) + 1 for group in groupings]
    member = np.zeros((n, sum(sizes)))
    starts = np.cumsum([0, *sizes[:-1]])
    for start, group in zip(starts, groupings, strict=True):
        member[np.arange(n), start + group] = 1.0
    whole = parts.sum(axis=0)
    total = (parts * parts).sum(axis=0) - whole * whole / n
    sums = member.T @ parts
    between = np.add.reduceat(sums * sums / member.sum(axis=0)[:, None], starts, axis=0) - whole * whole / n
    free = np.maximum(n - np.array(sizes), 0)[:, None]
    with np.errstate(divide="ignore", invalid="ignore"):
        found: FloatArray = 1.0 - (total - between) / free * (n - 1) / total
    return np.where((total > 0.0) & (free > 0), found, 0.0)


def _parts(column: FloatArray) -> FloatArray:
    """Return what is explained of a column: each value for itself, as the order of few says little; else the ranks."""
    values = np.unique(column)
    if len(values) > _MAX_VALUES:
        return _ranks(column)[:, None]
    # Of two values one says as much as the other.
    return np.equal(column[:, None], values[1:] if len(values) == 2 else values).astype(np.float64)


def go_together(columns: Sequence[FloatArray], among: Sequence[int]) -> set[int]:
    """Return which of the columns at the places `among`, with few values and none missing, go together with any other.

    Each of them splits the records into groups, one for each of its values.
    """
    left = {}
    for c in among:
        values, group = np.unique(columns[c], return_inverse=True)
        if len(values) > 1:
            left[c] = group
    found: set[int] = set()
    for first in range(0, len(columns), _BLOCK):
        if not left:
            break
        others = range(first, min(first + _BLOCK, len(columns)))
        made = [_parts(columns[other]) for other in others]
        owner = np.repeat(others, [each.shape[1] for each in made])
        looked = np.array(list(left))
        strong = _explained(list(left.values()), np.hstack(made)) >= _STRONG
        together = looked[(strong & (owner != looked[:, None])).any(axis=1)].tolist()
        found.update(together)
        left = {c: group for c, group in left.items() if c not in found}
    return found


class ColumnTable(Table):
    """What is done with each feature, as the kernels take it."""

    first: IntArray = ints("features", stored=False)  # the first column that it becomes
    values: IntArray = ints("features", stored=False)  # of a category, 0 for a number
    logs: IntArray = ints("features", stored=False)  # 1: log(1 + x) is taken
    ranged: IntArray = ints("features", stored=False)  # 1: it is compared with its range
    low: FloatArray = floats("features")  # what becomes 0, after its logarithm or bend
    width: FloatArray = floats("features", fill=1.0, low=ABOVE_ZERO)  # how wide [0, 1] is
    fill: FloatArray = floats("features", fill=np.nan, stored=False)  # what stands for a missing value; NaN for nothing
    pivot: FloatArray = floats("features")  # where it is bent
    bend: FloatArray = floats("features", low=0.0)  # unit of its bend, 0 where it is not bent
    step: FloatArray = floats("features", low=0.0, high=MAGNITUDE)  # over which values are spread, in the input's units


class Columns:
    """What is done with each feature before any projection: what the user has set, then what is learned of records."""

    def __init__(self, parameters: PreparationParameters) -> None:
        self._parameters = parameters
        self.table = table = new(ColumnTable, features=len(parameters.features))
        self._has_steps = False
        self._grain: tuple[FloatArray, list[int]] | None = None
        column = 0
        for c, name in enumerate(parameters.features):
            values = parameters.categories.get(name, ())
            table.first[c], table.values[c] = column, len(values)
            table.logs[c] = name in parameters.log1p
            table.ranged[c] = not values and parameters.scale != "none"
            if parameters.missing != "reject":
                # The mean is not known before `learn`; 0 stands for it where records are only checked.
                number = 0.0 if isinstance(parameters.missing, str) else parameters.missing
                table.fill[c] = -1.0 if values else number
            if name in parameters.ranges:
                table.low[c], table.width[c] = parameters.range_of(name)
            column += len(values) or 1
        self._count = column

    @property
    def rescalable(self) -> IntArray:
        """Features of which the range can be frozen anew: numbers that are not bent."""
        return np.flatnonzero((self.table.values == 0) & ~(self.table.bend > 0.0))

    def learn_means(self, raw: FloatArray) -> None:
        """Take the means of raw records for what is missing, where the user has set that."""
        if self._parameters.missing == "mean":
            for c in np.flatnonzero(self.table.values == 0):
                self.table.fill[c] = mean_of(raw[~np.isnan(raw[:, c]), c])

    def learn_steps(self, raw: FloatArray) -> None:
        """Find the features that raw records have in steps."""
        table = self.table
        for c in np.flatnonzero(table.logs == 0).tolist():
            column = raw[~np.isnan(raw[:, c]), c]
            if table.values[c]:
                table.step[c] = fine_step(column)
            else:
                table.step[c] = step_of(column) or (0.0 if is_common(column) else fine_step(column))
        self._has_steps = bool(table.step.any())

    def learn_ranges(self, raw: FloatArray, spread: FloatArray) -> None:
        """Take the ranges of raw records, as they are and as their steps are spread."""
        table, robust, flags = self.table, self._parameters.robust, []
        plain = np.flatnonzero(table.values == 0).tolist()
        unscaled, *_ = self.transform(spread, clip=False)
        separating = self._separating(raw) if robust else set()
        for c in plain:
            given, column = raw[:, c], unscaled[:, table.first[c]]
            if self._parameters.missing == "mean":
                # A number that the user put in place of missing ones is a value like others; a mean says nothing new.
                given, column = given[~np.isnan(given)], column[~np.isnan(given)]
            # Among many features rare ones tell kinds apart together, and an axis hardly follows a single one.
            if robust and c not in separating and (is_flag(given) if self._parameters.axes else is_steady(given)):
                flags.append(c)
            elif robust and not is_flag(given):
                table.pivot[c], table.bend[c] = bend_of(column)
                if table.bend[c] > 0.0:
                    column = np.array([asinh(value) for value in ((column - table.pivot[c]) / table.bend[c]).tolist()])
            table.low[c], table.width[c] = range_of(column)
        if robust and len(flags) < len(plain):
            for c in flags:
                table.low[c], table.width[c] = flag_range(unscaled[:, table.first[c]])
            for c in np.flatnonzero(table.values).tolist():
                table.width[c] = 1.0 if c in separating else FLAG_WIDTH

    def _separating(self, raw: FloatArray) -> set[int]:
        """Return the flags and categories that go together with another feature, and so separate groups."""
        values = self.table.values
        usable = raw[~np.isnan(raw).any(axis=1)]
        # Without what spreads the values that they have.
        columns = [np.rint(column) if values[c] else column for c, column in enumerate(usable.T)]
        among = [c for c in range(len(columns)) if values[c] or is_flag(columns[c])]
        return go_together(columns, [c for c in among if len(usable) and not is_common(columns[c])])

    def spread(self, raw: FloatArray, number: int, further: int = 1) -> FloatArray:
        """Return raw records, the first of which has this number, with values spread over their steps."""
        return spread_steps(raw, self.table.step, number, further) if self._has_steps else raw

    def set_ranges(self, low: FloatArray, width: FloatArray) -> None:
        """Let other values become 0, and other widths [0, 1]."""
        self.table.low[:], self.table.width[:] = low, width
        self._grain = None

    def grain(self, prepared: FloatArray) -> FloatArray:
        """Return how far apart values may be that were one before they were spread, as `Preparation.grain` has it."""
        table = self.table
        if self._grain is None:
            even = (table.values == 0) & (table.bend == 0.0)
            found = np.zeros((1, self._count))
            found[0, table.first[even]] = (table.step / table.width)[even]
            self._grain = found, np.flatnonzero((table.bend > 0.0) & (table.step > 0.0)).tolist()
        found, bent = self._grain
        if bent:
            found = np.repeat(found, len(prepared), axis=0)
        for c in bent:
            j = table.first[c]
            bent_grain(prepared[:, j], table.low[c], table.width[c], table.step[c] / table.bend[c], found[:, j])
        return found

    def transform(self, raw: FloatArray, clip: bool) -> tuple[FloatArray, IntArray, int, int]:
        """Return columns, (feature, code) of each record's fault, values outside their range, and faulty records."""
        prepared = np.empty((len(raw), self._count))
        faults = np.empty((len(raw), 2), np.int64)
        outside, faulty = transform(raw, self.table, clip, prepared, faults)
        return prepared, faults, outside, faulty

    def to_input_units(self, middle: FloatArray, width: FloatArray) -> None:
        """Map a centre and the spread around it, both of columns, back to the units of the input, in place."""
        table = self.table
        plain = np.flatnonzero(table.values == 0)
        columns = table.first[plain]
        middle[columns] = middle[columns] * table.width[plain] + table.low[plain]
        width[columns] *= table.width[plain]
        for c in np.flatnonzero(table.values > 0):
            listed = slice(table.first[c], table.first[c] + table.values[c])
            middle[listed] *= table.width[c]
            width[listed] *= table.width[c]
        for c in np.flatnonzero(table.bend > 0.0):
            j = table.first[c]
            value, slope = sinh_and_slope(float(middle[j]))
            middle[j] = table.pivot[c] + table.bend[c] * value
            width[j] = min(float(width[j]) * slope * table.bend[c], LARGEST)
        for c in np.flatnonzero((table.step > 0.0) & (table.values == 0)):
            j = table.first[c]
            # A uniform number within a step has a twelfth of its square as variance.
            own, added = min(float(width[j]), LARGEST / 2.0), float(table.step[c]) / math.sqrt(12.0)
            width[j] = math.sqrt(max(own - added, 0.0)) * math.sqrt(own + added)
        for c in np.flatnonzero(table.logs):
            j = table.first[c]
            middle[j], slope = inverse_log1p(float(middle[j]))
            width[j] = min(float(width[j]) * slope, LARGEST)

    def _kept(self) -> tuple[str, ...]:
        """Return the arrays of which a state is."""
        return ("low", "width", "fill", *(("pivot", "bend", "step") if self._parameters.robust else ()))

    def arrays(self) -> dict[str, NDArray[Any]]:
        """Return what `read` reads."""
        return {name: getattr(self.table, name) for name in self._kept()}

    def read(self, arrays: Mapping[str, NDArray[Any]]) -> None:
        """Continue with what a state holds; KeyError or ValueError where it is none of these features."""
        d = len(self._parameters.features)
        # The second revision knew no steps.
        given = {"step": np.zeros(d), **arrays}
        found = packed(self.table) | {name: given[name] for name in self._kept()}
        missing, fill = np.isnan(self.table.fill), found.pop("fill")
        checked(ColumnTable, found, features=d)
        require(fill.dtype == np.float64, f"fill of {fill.dtype}")
        require(fill.shape == (d,), f"fill of shape {fill.shape}")
        # Nothing stands for a missing value where there must be none.
        require((np.isfinite(fill) | (missing & np.isnan(fill))).all(), "fill")
        put(self.table, found)
        self.table.fill[:] = fill
        self._has_steps = bool(self.table.step.any())
