"""From a stream's raw features to the prepared values that an engine sees, and back to the input's units."""

import difflib
import math
from collections.abc import Mapping, Sequence
from typing import Any, Final, Literal, Self, TypeGuard, get_args

import numpy as np
from numpy.typing import ArrayLike
from resonance.engine.arithmetic import exp_minus, jit, log1p
from resonance.engine.base import MAGNITUDE, FloatArray, IntArray
from resonance.engine.errors import ParameterError, RecordError, StateError
from resonance.engine.state import pack, unpack

Scale = Literal["warmup", "none", "given"]

REVISION: Final = 1
"""Raised with every change that alters prepared bits."""
MOST_WARMUP_RECORDS: Final = 1_000_000

_KIND = "prepare"
_LARGEST = float(np.finfo(np.float64).max)

_MISSING, _NOT_FINITE, _NO_LOGARITHM, _TOO_LARGE, _TOO_FAR = range(1, 6)


@jit
def _transform(X, first, values, logs, ranged, low, width, fill, clip, out, faults):  # type: ignore[no-untyped-def]
    """Write prepared rows to `out` and what is wrong with a row to `faults`.

    ``faults[i]`` is (feature, code), code 0 for a usable row; the rest of a faulty row of `out` is not written.

    Returns
    -------
    int, int
        Values outside their range, and faulty rows.
    """
    outside, faulty = 0, 0
    for i in range(X.shape[0]):
        faults[i, 1] = 0
        beyond = 0
        for c in range(X.shape[1]):
            v = X[i, c]
            if math.isnan(v):
                v = fill[c]
            if math.isnan(v):
                faults[i, 0], faults[i, 1] = c, _MISSING
                break
            j = first[c]
            if values[c] > 0:
                for k in range(values[c]):
                    out[i, j + k] = 1.0 if v == k else 0.0
                continue
            if not abs(v) <= _LARGEST:
                faults[i, 0], faults[i, 1] = c, _NOT_FINITE
                break
            if logs[c]:
                if v <= -1.0:
                    faults[i, 0], faults[i, 1] = c, _NO_LOGARITHM
                    break
                v = log1p(v)
            if not abs(v) <= MAGNITUDE:
                faults[i, 0], faults[i, 1] = c, _TOO_LARGE
                break
            v = (v - low[c]) / width[c]
            if not abs(v) <= MAGNITUDE:
                faults[i, 0], faults[i, 1] = c, _TOO_FAR
                break
            if ranged[c] and (v < 0.0 or v > 1.0):
                beyond += 1
            if clip:
                # Written so that a negative zero becomes 0 on every CPU.
                v = v if v > 0.0 else 0.0
                v = v if v < 1.0 else 1.0
            out[i, j] = v
        if faults[i, 1] == 0:
            outside += beyond
        else:
            faulty += 1
    return outside, faulty


class Preparation:
    """Scale, fill in, take logarithms and encode categories; the scale is learned once and then frozen.

    A raw record has one number for each feature: NaN where the feature is missing, and for a category the position of
    its value in the list, or -1 for a value that the list does not have. In this order: a missing feature is filled
    in, ``log1p`` is taken, the range is mapped to [0, 1]; a category becomes one column of 0 or 1 for each value.

    Until `ready` the first records are only held (`hold`); `freeze` learns from them and returns them prepared. From
    then on `apply` prepares batches. A record that cannot be prepared raises `RecordError`, which leaves everything
    as it was; `check` names all of a batch's records at fault, so that the others can go on.

    The same records give the same bits on every CPU and in every division into batches.

    Parameters
    ----------
    features : sequence of str
        Names of the features, in the order of the columns of a raw record.
    scale : {"warmup", "none", "given"}
        ``warmup``: the 1st to the 99th percentile of the feature in the held records becomes [0, 1], values outside
        go on outside; a feature with no width there keeps its unit and begins at 0. ``given``: `ranges` does it.
    warmup_records : int
        Records that `freeze` wants (1 to 1,000,000).
    missing : {"reject", "mean"} or float
        A missing feature: the record is at fault; the mean of the held records that have it (0 if none has); this
        number, in the input's units. A missing category is at fault, or like an unknown value in the other two.
    log1p : sequence of str
        Features of which log(1 + x) is taken.
    categories : mapping of str to sequence of str
        Features that are categories, with their values.
    ranges : mapping of str to (float, float)
        For ``given``: what becomes 0 and 1 of each feature that is no category, in the input's units.
    clip : bool
        Values outside [0, 1] become 0 or 1: for engines defined there only.

    Raises
    ------
    ParameterError
        A parameter outside its range, or a name that is no feature.
    """

    def __init__(
        self,
        features: Sequence[str],
        scale: Scale = "warmup",
        warmup_records: int = 200,
        missing: float | Literal["reject", "mean"] = "reject",
        log1p: Sequence[str] = (),
        categories: Mapping[str, Sequence[str]] | None = None,
        ranges: Mapping[str, tuple[float, float]] | None = None,
        clip: bool = False,
    ) -> None:
        self.features = tuple(features)
        self.scale = scale
        self.warmup_records = warmup_records
        self.missing = missing if isinstance(missing, str) else bound("missing", missing)
        self.log1p = tuple(log1p)
        self.categories = {name: tuple(values) for name, values in (categories or {}).items()}
        self.ranges = {name: (pair[0], pair[1]) for name, pair in (ranges or {}).items()}
        self.clip = bool(clip)
        self._check_parameters()
        self._lay_out()
        self._held: list[FloatArray] = []
        self._ready = scale != "warmup" and missing != "mean"
        self._outside = 0
        self._compared = 0

    def _check_parameters(self) -> None:
        if not self.features or len(set(self.features)) != len(self.features):
            raise ParameterError("features", list(self.features), "at least one name, each of them once")
        if self.scale not in get_args(Scale):
            raise ParameterError("scale", self.scale, "one of " + ", ".join(get_args(Scale)))
        records = self.warmup_records
        if isinstance(records, bool) or not isinstance(records, int) or not 1 <= records <= MOST_WARMUP_RECORDS:
            raise ParameterError("warmup_records", records, f"an integer from 1 to {MOST_WARMUP_RECORDS:,}")
        if isinstance(self.missing, str) and self.missing not in ("reject", "mean"):
            raise ParameterError("missing", self.missing, "reject, mean or a number")
        for setting, names in (("log1p", self.log1p), ("categories", self.categories), ("ranges", self.ranges)):
            for name in names:
                if name not in self.features:
                    raise ParameterError(setting, name, f"one of the features{_hint(name, self.features)}")
        for name in (*self.log1p, *self.ranges):
            if name in self.categories:
                raise ParameterError("categories", name, "a feature without log1p and without a range")
        for name, values in self.categories.items():
            if not values or len(set(values)) != len(values):
                raise ParameterError(f"categories.{name}", list(values), "at least one value, each of them once")
        if self.log1p and not isinstance(self.missing, str) and self.missing <= -1.0:
            raise ParameterError("missing", self.missing, "above -1, because log1p is taken of it")
        if self.ranges and self.scale != "given":
            raise ParameterError("ranges", sorted(self.ranges), f"absent with scale = {self.scale}, or scale given")
        for name in self.features if self.scale == "given" else ():
            if name not in self.ranges and name not in self.categories:
                raise ParameterError("ranges", sorted(self.ranges), f"a range for every feature: {name} has none")

    def _lay_out(self) -> None:
        """Columns of the output, and what is done with each feature while nothing has been learned."""
        d = len(self.features)
        self._first = np.zeros(d, np.int64)
        self._values = np.zeros(d, np.int64)
        self._logs = np.zeros(d, np.bool_)
        self._ranged = np.zeros(d, np.bool_)
        self._low = np.zeros(d)
        self._width = np.ones(d)
        self._fill = np.full(d, np.nan)
        columns: list[str] = []
        for c, name in enumerate(self.features):
            self._first[c] = len(columns)
            values = self.categories.get(name, ())
            self._values[c] = len(values)
            self._logs[c] = name in self.log1p
            self._ranged[c] = not values and self.scale != "none"
            if self.missing != "reject":
                # The mean is not known before `freeze`; 0 stands for it where records are only checked.
                self._fill[c] = -1.0 if values else 0.0 if isinstance(self.missing, str) else self.missing
            if name in self.ranges:
                self._low[c], self._width[c] = self._given(name)
            columns += [f"{name}={value}" for value in values] or [name]
        self._columns = tuple(columns)
        self._ranges = int(np.count_nonzero(self._ranged))

    def _given(self, name: str) -> tuple[float, float]:
        setting = f"ranges.{name}"
        low, high = (bound(setting, end) for end in self.ranges[name])
        if name in self.log1p:
            if low <= -1.0 or high <= -1.0:
                raise ParameterError(setting, (low, high), "above -1, because log1p is taken of it")
            low, high = log1p(low), log1p(high)
        if not low < high:
            raise ParameterError(setting, self.ranges[name], "two numbers, the smaller one first")
        return low, high - low

    @property
    def columns(self) -> tuple[str, ...]:
        """Names of the prepared columns: a feature's own name, or ``feature=value`` for each value of a category."""
        return self._columns

    @property
    def ready(self) -> bool:
        """Nothing more has to be held: `apply` can be used."""
        return self._ready

    @property
    def wanted(self) -> int:
        """Records that `hold` still takes before it is time to `freeze`."""
        return 0 if self._ready else self.warmup_records - sum(map(len, self._held))

    @property
    def outside(self) -> int:
        """Values outside the frozen range so far."""
        return self._outside

    @property
    def compared(self) -> int:
        """Values compared with the frozen range so far; `outside` is a part of them."""
        return self._compared

    def hold(self, X: ArrayLike) -> None:
        """Keep raw records of the warm-up.

        Parameters
        ----------
        X : array_like of shape (n, features), n <= `wanted`
            Raw records, in order.

        Raises
        ------
        RecordError
            Naming the first record that cannot be prepared; none was kept.
        """
        rows = self._rows(X)
        if len(rows) > self.wanted:
            raise ValueError(f"{len(rows)} records to hold, {self.wanted} are wanted")
        self._prepared(rows)
        self._held.append(rows.copy())

    def freeze(self) -> FloatArray:
        """Learn scale and means from the held records and return these, prepared, in order; shape (held, columns)."""
        if self._ready:
            raise RuntimeError("the scale is frozen already")
        raw = np.concatenate([np.empty((0, len(self.features))), *self._held])
        present = ~np.isnan(raw)
        if self.missing == "mean":
            for c in np.flatnonzero(self._values == 0):
                self._fill[c] = _mean(raw[present[:, c], c])
        if self.scale == "warmup":
            unscaled, *_ = self._run(raw, clip=False)
            for c in np.flatnonzero(self._values == 0):
                column = unscaled[:, self._first[c]]
                # A number that the user put in place of missing ones is a value like others; a mean says nothing new.
                self._low[c], self._width[c] = _range(column[present[:, c]] if self.missing == "mean" else column)
        prepared, _ = self._prepared(raw)
        self._ready = True
        self._held = []
        return prepared

    def apply(self, X: ArrayLike) -> FloatArray:
        """Prepare a batch.

        Parameters
        ----------
        X : array_like of shape (n, features)
            Raw records.

        Returns
        -------
        ndarray of shape (n, columns)
            Finite, at most `MAGNITUDE` in absolute value.

        Raises
        ------
        RecordError
            Naming the first record that cannot be prepared; `check` names them all.
        """
        if not self._ready:
            raise RuntimeError(f"{self.wanted} more records are wanted before the scale is frozen")
        rows = self._rows(X)
        prepared, outside = self._prepared(rows)
        self._outside += outside
        self._compared += len(rows) * self._ranges
        return prepared

    def check(self, X: ArrayLike) -> dict[int, str]:
        """Return what is wrong with which record: empty when `apply`, or `hold`, takes them all.

        Parameters
        ----------
        X : array_like of shape (n, features)
            Raw records.

        Returns
        -------
        dict of int to str
            Position in `X` and reason, in order.
        """
        rows = self._rows(X)
        _, faults, *_ = self._run(rows, self.clip)
        return {int(i): self._problem(rows[i], faults[i]) for i in np.flatnonzero(faults[:, 1])}

    def to_input_units(self, centre: FloatArray, spread: FloatArray) -> tuple[FloatArray, FloatArray]:
        """Map a prepared centre and the spread around it back to the units of the input.

        Where a logarithm was taken the spread is its first-order image: multiplied with the slope at the centre.

        Parameters
        ----------
        centre, spread : ndarray of shape (columns,)
            As in `Cluster`.

        Returns
        -------
        centre, spread : ndarray of shape (columns,)
            New arrays, finite.
        """
        middle, width = np.array(centre, np.float64), np.array(spread, np.float64)
        plain = np.flatnonzero(self._values == 0)
        columns = self._first[plain]
        middle[columns] = middle[columns] * self._width[plain] + self._low[plain]
        width[columns] *= self._width[plain]
        for c in np.flatnonzero(self._logs):
            j = self._first[c]
            middle[j], slope = inverse_log1p(float(middle[j]))
            width[j] = min(float(width[j]) * slope, _LARGEST)
        return middle, width

    def state(self) -> bytes:
        """Everything the next record depends on: versioned, checksummed, canonical (equal states, equal bytes)."""
        header = {
            "features": self.features,
            "scale": self.scale,
            "warmup_records": self.warmup_records,
            "missing": self.missing,
            "log1p": self.log1p,
            "categories": self.categories,
            "ranges": self.ranges,
            "clip": self.clip,
            "ready": self._ready,
            "outside": self._outside,
            "compared": self._compared,
        }
        held = np.concatenate([np.empty((0, len(self.features))), *self._held])
        arrays = {"low": self._low, "width": self._width, "fill": self._fill, "held": held}
        return pack(_KIND, REVISION, header, arrays)

    def frozen_state(self) -> bytes:
        """Return `state` without what was counted: a function of the settings and the warm-up alone."""
        copy = Preparation.from_state(self.state())
        copy._outside = copy._compared = 0
        return copy.state()

    @classmethod
    def from_state(cls, data: bytes) -> Self:
        """Continue from `state`; the next records give the same bits.

        Raises
        ------
        StateError
            Damaged, of another kind, or written by a newer program.
        """
        header, arrays = unpack(data, _KIND, REVISION)
        try:
            ready, outside, compared = (header.pop(name) for name in ("ready", "outside", "compared"))
            preparation = cls(**header)
            d = len(preparation.features)
            preparation._low, preparation._width, preparation._fill = (
                arrays[name].reshape(d) for name in ("low", "width", "fill")
            )
            preparation._held = [arrays["held"].reshape(-1, d)] if len(arrays["held"]) else []
            preparation._ready, preparation._outside, preparation._compared = bool(ready), int(outside), int(compared)
            if not 0 <= sum(map(len, preparation._held)) <= (0 if ready else preparation.warmup_records):
                raise ValueError(f"{len(arrays['held'])} records held")
        except (KeyError, TypeError, ValueError, ParameterError) as error:
            raise StateError(f"the state of {_KIND} cannot be read: {error!r}") from error
        return preparation

    @classmethod
    def compile(cls) -> None:
        """Compile the kernels, so that the first record does not wait for it."""
        preparation = cls(["x"], scale="none", log1p=["x"])
        preparation.apply(np.zeros((1, 1)))
        preparation.to_input_units(np.ones(1), np.ones(1))

    def _rows(self, X: ArrayLike) -> FloatArray:
        # Writable, because a kernel is compiled once more for arrays that are not.
        rows = X if _is_plain(X) else np.require(X, np.float64, ["C", "W"])
        if rows.ndim != 2 or rows.shape[1] != len(self.features):
            raise RecordError(0, f"raw records have shape (n, {len(self.features)}), these {rows.shape}")
        return rows

    def _run(self, rows: FloatArray, clip: bool) -> tuple[FloatArray, IntArray, int, int]:
        prepared = np.empty((len(rows), len(self._columns)))
        faults = np.empty((len(rows), 2), np.int64)
        outside, faulty = _transform(
            rows,
            self._first,
            self._values,
            self._logs,
            self._ranged,
            self._low,
            self._width,
            self._fill,
            clip,
            prepared,
            faults,
        )
        return prepared, faults, outside, faulty

    def _prepared(self, rows: FloatArray) -> tuple[FloatArray, int]:
        prepared, faults, outside, faulty = self._run(rows, self.clip)
        if faulty:
            i = int(np.flatnonzero(faults[:, 1])[0])
            raise RecordError(i, self._problem(rows[i], faults[i]))
        return prepared, outside

    def _problem(self, row: FloatArray, fault: IntArray) -> str:
        c, code = int(fault[0]), int(fault[1])
        name, value = self.features[c], float(row[c])
        if code == _MISSING:
            return f"{name} is missing"
        return (
            f"{name} is {value!r}: "
            + {
                _NOT_FINITE: "not a finite number",
                _NO_LOGARITHM: "log1p needs a value above -1",
                _TOO_LARGE: f"beyond {MAGNITUDE:g}",
                _TOO_FAR: f"beyond {MAGNITUDE:g} once scaled with width {float(self._width[c])!r}",
            }[code]
        )


def _hint(name: str, known: Sequence[str]) -> str:
    near = difflib.get_close_matches(name, known, n=1)
    return f" {', '.join(known)}" + (f" (did you mean {near[0]}?)" if near else "")


def _is_plain(X: ArrayLike) -> TypeGuard[FloatArray]:
    """Whether the kernel takes an array as it is."""
    return isinstance(X, np.ndarray) and X.dtype == np.float64 and X.flags.c_contiguous and X.flags.writeable


def bound(name: str, value: Any) -> float:
    """Return a parameter that is a value of a feature as float, or say what it has to be."""
    usable = isinstance(value, int | float) and not isinstance(value, bool) and abs(value) <= MAGNITUDE
    if not usable:
        raise ParameterError(name, value, f"a finite number of at most {MAGNITUDE:g} in absolute value")
    return float(value)


def _mean(values: FloatArray) -> float:
    """Mean, one value after the other: no sum that could overflow, and never outside the values; 0 of none."""
    mean = 0.0
    for k, value in enumerate(values.tolist(), 1):
        mean += (value - mean) / k
    return mean


def _percentile(ordered: FloatArray, percent: int) -> float:
    """Percentile of ascending values by Hazen's definition: the k-th of n values lies at (k - 1/2) / n.

    Linear between neighbours. The definition that puts the smallest value at 0 takes the warm-up's range for that of
    the whole stream, which goes further.
    """
    place, rest = divmod(2 * len(ordered) * percent + 100, 200)
    if not 1 <= place < len(ordered):
        return float(ordered[0 if place < 1 else -1])
    below, above = float(ordered[place - 1]), float(ordered[place])
    return below + (above - below) * (rest / 200)


def _range(values: FloatArray) -> tuple[float, float]:
    """Return what becomes 0, and how wide [0, 1] is, for the values of a warm-up."""
    if not len(values):
        return 0.0, 1.0
    # Adding 0 makes every zero positive: which of -0 and 0 a sort puts first depends on the CPU.
    ordered = np.sort(values + 0.0)
    low = _percentile(ordered, 1)
    width = _percentile(ordered, 99) - low
    if not width > 0.0:
        width = 1.0
    farthest = max(float(ordered[-1]) - low, low - float(ordered[0]))
    # A range so narrow that its own warm-up would go beyond the engines' numbers: such a feature stays as it is.
    return (low, width) if farthest / width <= MAGNITUDE else (0.0, 1.0)


@jit
def _exp(x):  # type: ignore[no-untyped-def]
    """Return e**x for |x| < 600."""
    return exp_minus(-x) if x <= 0.0 else 1.0 / exp_minus(x)


def inverse_log1p(t: float) -> tuple[float, float]:
    """Return exp(t) - 1 and its slope exp(t), finite."""
    if abs(t) < 1e-5:
        # The difference would lose the digits that this keeps.
        return t + 0.5 * t * t, 1.0 + t
    # Halved, because _exp is defined up to 600 and the logarithm of the largest number is 709.8.
    root = _exp(0.5 * min(t, 1000.0)) if t > 0.0 else _exp(t)
    slope = min(root * root, _LARGEST) if t > 0.0 else root
    return slope - 1.0, slope
