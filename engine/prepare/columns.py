"""What each feature becomes: its step, logarithm, bend and range, or the columns of its category; and the way back."""

import math
from collections.abc import Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray
from resonance.engine.base import MAGNITUDE, FloatArray, IntArray
from resonance.engine.prepare.parameters import PreparationParameters
from resonance.engine.prepare.scaling import (
    FLAG_WIDTH,
    LARGEST,
    asinh,
    bend_of,
    flag_range,
    inverse_log1p,
    is_flag,
    is_steady,
    mean_of,
    range_of,
    sinh_and_slope,
    spread_steps,
    step_of,
)
from resonance.engine.prepare.transform import transform


class Columns:
    """What is done with each feature before any projection; nothing is known of the records until `learn`.

    Parameters
    ----------
    parameters : PreparationParameters
        What the user has set.

    Attributes
    ----------
    low, width : ndarray of shape (features,)
        What becomes 0 of a feature, and how wide [0, 1] is, after its logarithm or bend.
    ranged : ndarray of bool, shape (features,)
        Whether values are compared with that range.
    step : ndarray of shape (features,)
        Over which values are spread, in the input's units; 0 where they are not.
    first : ndarray of int64, shape (features,)
        The first column that a feature becomes.
    """

    def __init__(self, parameters: PreparationParameters) -> None:
        self._parameters = parameters
        d = len(parameters.features)
        self.first = np.zeros(d, np.int64)
        self._values = np.zeros(d, np.int64)
        self._logs = np.zeros(d, np.bool_)
        self.ranged = np.zeros(d, np.bool_)
        self._pivot, self._bend, self.step = np.zeros(d), np.zeros(d), np.zeros(d)
        self._has_steps = False
        self.low = np.zeros(d)
        self.width = np.ones(d)
        self._fill = np.full(d, np.nan)
        column = 0
        for c, name in enumerate(parameters.features):
            self.first[c] = column
            values = parameters.categories.get(name, ())
            self._values[c] = len(values)
            self._logs[c] = name in parameters.log1p
            self.ranged[c] = not values and parameters.scale != "none"
            if parameters.missing != "reject":
                # The mean is not known before `learn`; 0 stands for it where records are only checked.
                number = 0.0 if isinstance(parameters.missing, str) else parameters.missing
                self._fill[c] = -1.0 if values else number
            if name in parameters.ranges:
                self.low[c], self.width[c] = parameters.range_of(name)
            column += len(values) or 1
        self._count = column

    @property
    def rescalable(self) -> IntArray:
        """Features of which the range can be frozen anew: numbers that are not bent."""
        return np.flatnonzero((self._values == 0) & ~(self._bend > 0.0))

    @property
    def kernel_arguments(self) -> tuple[Any, ...]:
        """What is done with each feature, as the kernels take it."""
        return (
            self.first,
            self._values,
            self._logs,
            self.ranged,
            self._pivot,
            self._bend,
            self.low,
            self.width,
            self._fill,
        )

    def learn_means(self, raw: FloatArray) -> None:
        """Take the means of raw records for what is missing, where the user has set that."""
        if self._parameters.missing == "mean":
            for c in np.flatnonzero(self._values == 0):
                self._fill[c] = mean_of(raw[~np.isnan(raw[:, c]), c])

    def learn_steps(self, raw: FloatArray) -> None:
        """Find the features that raw records have in steps."""
        for c in np.flatnonzero((self._values == 0) & ~self._logs).tolist():
            column = raw[:, c]
            self.step[c] = step_of(column[~np.isnan(column)])
        self._has_steps = bool(self.step.any())

    def learn_ranges(self, raw: FloatArray) -> None:
        """Take the ranges of raw records, whose steps are spread."""
        robust, flags = self._parameters.robust, []
        plain = np.flatnonzero(self._values == 0).tolist()
        unscaled, *_ = self.transform(raw, clip=False)
        for c in plain:
            column = unscaled[:, self.first[c]]
            # A number that the user put in place of missing ones is a value like others; a mean says nothing new.
            column = column[~np.isnan(raw[:, c])] if self._parameters.missing == "mean" else column
            # Among many features rare ones tell kinds apart together, and an axis hardly follows a single one.
            if robust and (is_flag(column) if self._parameters.axes else is_steady(column)):
                flags.append(c)
            elif robust:
                self._pivot[c], self._bend[c] = bend_of(column)
                if self._bend[c] > 0.0:
                    column = np.array([asinh(value) for value in ((column - self._pivot[c]) / self._bend[c]).tolist()])
            self.low[c], self.width[c] = range_of(column)
        if robust and len(flags) < len(plain):
            for c in flags:
                self.low[c], self.width[c] = flag_range(unscaled[:, self.first[c]])
            self.width[self._values > 0] = FLAG_WIDTH

    def spread(self, raw: FloatArray, number: int) -> FloatArray:
        """Return raw records, the first of which has this number, with values spread over their steps."""
        return spread_steps(raw, self.step, number) if self._has_steps else raw

    def transform(self, raw: FloatArray, clip: bool) -> tuple[FloatArray, IntArray, int, int]:
        """Return columns, (feature, code) of each record's fault, values outside their range, and faulty records."""
        prepared = np.empty((len(raw), self._count))
        faults = np.empty((len(raw), 2), np.int64)
        outside, faulty = transform(raw, *self.kernel_arguments, clip, prepared, faults)
        return prepared, faults, outside, faulty

    def to_input_units(self, middle: FloatArray, width: FloatArray) -> None:
        """Map a centre and the spread around it, both of columns, back to the units of the input, in place."""
        plain = np.flatnonzero(self._values == 0)
        columns = self.first[plain]
        middle[columns] = middle[columns] * self.width[plain] + self.low[plain]
        width[columns] *= self.width[plain]
        for c in np.flatnonzero(self._values > 0):
            listed = slice(self.first[c], self.first[c] + self._values[c])
            middle[listed] *= self.width[c]
            width[listed] *= self.width[c]
        for c in np.flatnonzero(self._bend > 0.0):
            j = self.first[c]
            value, slope = sinh_and_slope(float(middle[j]))
            middle[j] = self._pivot[c] + self._bend[c] * value
            width[j] = min(float(width[j]) * slope * self._bend[c], LARGEST)
        for c in np.flatnonzero(self.step > 0.0):
            j = self.first[c]
            # A uniform number within a step has a twelfth of its square as variance.
            own, added = min(float(width[j]), LARGEST / 2.0), float(self.step[c]) / math.sqrt(12.0)
            width[j] = math.sqrt(max(own - added, 0.0)) * math.sqrt(own + added)
        for c in np.flatnonzero(self._logs):
            j = self.first[c]
            middle[j], slope = inverse_log1p(float(middle[j]))
            width[j] = min(float(width[j]) * slope, LARGEST)

    def arrays(self) -> dict[str, NDArray[Any]]:
        """Return what `read` reads."""
        found = {"low": self.low, "width": self.width, "fill": self._fill}
        return found | (
            {"pivot": self._pivot, "bend": self._bend, "step": self.step} if self._parameters.robust else {}
        )

    def read(self, arrays: Mapping[str, NDArray[Any]]) -> None:
        """Continue with what a state holds.

        Raises
        ------
        KeyError, ValueError
            It is none of these features.
        """
        d, missing = len(self._parameters.features), np.isnan(self._fill)
        names = ("low", "width", "fill", *(("pivot", "bend") if self._parameters.robust else ()))
        # The second revision knew no steps.
        found = {name: arrays[name] for name in names} | {"step": arrays.get("step", np.zeros(d))}
        for name, array in found.items():
            if array.dtype != np.float64 or array.size != d:
                raise ValueError(f"{name} of features: {array.dtype} of shape {array.shape}")
            values = array.reshape(d)
            # Nothing stands for a missing value where there must be none.
            usable = np.isfinite(values) | (missing & np.isnan(values) if name == "fill" else False)
            if name in ("width", "bend", "step"):
                usable &= values > 0.0 if name == "width" else values >= 0.0
            if not usable.all() or (name == "step" and values.max(initial=0.0) > MAGNITUDE):
                raise ValueError(f"{name} of features")
            found[name] = values
        self.low, self.width, self._fill, self.step = (found[name] for name in ("low", "width", "fill", "step"))
        if self._parameters.robust:
            self._pivot, self._bend = found["pivot"], found["bend"]
        self._has_steps = bool(self.step.any())
