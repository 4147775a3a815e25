"""What is done to the entries of sparse records before an engine sees them; zero stays zero."""

from collections.abc import Mapping, Sequence
from typing import Any, Final, Literal, get_args

import numpy as np
from resonance.engine.base import MAGNITUDE, BoolArray, FloatArray, IntArray
from resonance.engine.errors import ParameterError
from resonance.engine.prepare.scaling import LARGEST, bound, inverse_log1p
from resonance.engine.prepare.transform import NO_LOGARITHM, TOO_FAR, TOO_LARGE
from resonance.kernels.arithmetic import jit, log1p

REVISION: Final = 1
"""Raised with every change that alters prepared bits."""

EVERY: Final = "*"
"""Stands in parameters for all features that they do not name."""

Scale = Literal["none", "given"]


@jit
def _transform(data, place, logs, width, ranged, clip, out, faults):
    """Write prepared entries and their faults, 0 for none; return how many are outside [0, 1], and how many faulty."""
    outside, faulty = 0, 0
    for p in range(len(data)):
        v = data[p]
        faults[p] = 0
        out[p] = 0.0
        if logs[place[p]]:
            if v <= -1.0:
                faults[p] = NO_LOGARITHM
                faulty += 1
                continue
            v = log1p(v)
        if not abs(v) <= MAGNITUDE:
            faults[p] = TOO_LARGE
            faulty += 1
            continue
        v = v / width[place[p]]
        if not abs(v) <= MAGNITUDE:
            faults[p] = TOO_FAR
            faulty += 1
            continue
        if ranged and (v < 0.0 or v > 1.0):
            outside += 1
        if clip:
            v = v if v > 0.0 else 0.0
            v = v if v < 1.0 else 1.0
        out[p] = v
    return outside, faulty


class SparseScale:
    """Take logarithms of entries and map ranges that begin at 0 to [0, 1]: what `Preparation` does, but for absences.

    An absent feature is 0, so only what leaves 0 where it is can be done. The same entries give the same bits as in
    a dense record.

    Parameters
    ----------
    scale : {"none", "given"}
        ``given``: `ranges` does it.
    log1p : sequence of str
        Features of which log(1 + x) is taken; `EVERY` stands for all.
    ranges : mapping of str to (float, float)
        For ``given``: 0, and what becomes 1, in the input's units, by feature; that of `EVERY` is for all others.
    clip : bool
        Values outside [0, 1] become 0 or 1: for engines defined there only.

    Attributes
    ----------
    ranged : bool
        Values have a range that they can be outside of.

    Raises
    ------
    ParameterError
        A parameter that has no meaning for sparse records.
    """

    def __init__(
        self,
        scale: str = "none",
        log1p: Sequence[str] = (),
        ranges: Mapping[str, tuple[float, float]] | None = None,
        clip: bool = False,
    ) -> None:
        if scale not in get_args(Scale):
            raise ParameterError("scale", scale, "none or given, because the scale of sparse records is not learned")
        self.scale = scale
        self.log1p = tuple(log1p)
        self.ranges = {name: (pair[0], pair[1]) for name, pair in (ranges or {}).items()}
        self.clip = bool(clip)
        self.ranged = self.clip or scale == "given"
        if self.ranges and scale != "given":
            raise ParameterError("ranges", sorted(self.ranges), f"absent with scale = {scale}, or scale given")
        if scale == "given" and EVERY not in self.ranges:
            what = f'a table with "{EVERY}", the range of every feature that it does not name, because features grow'
            raise ParameterError("ranges", sorted(self.ranges), what)
        self._every = (EVERY in self.log1p, self._width(EVERY))
        # Features that differ from all others.
        self._own = {
            name: (name in self.log1p or self._every[0], self._width(name))
            for name in (*self.log1p, *self.ranges)
            if name != EVERY
        }

    def _width(self, name: str) -> float:
        """Return what a feature is divided by."""
        if self.scale != "given":
            return 1.0
        pair = self.ranges.get(name, self.ranges[EVERY])
        setting = f"ranges.{name if name in self.ranges else EVERY}"
        low, high = (bound(setting, end) for end in pair)
        if low != 0.0 or not high > 0.0:
            raise ParameterError(setting, pair, "0 and what becomes 1, because an absent feature is 0 and stays 0")
        return log1p(high) if name in self.log1p or EVERY in self.log1p else high

    @property
    def names_features(self) -> bool:
        """Whether what is done depends on a feature's name."""
        return bool(self._own)

    def factors(self, names: Sequence[str]) -> tuple[BoolArray, FloatArray]:
        """Return of which features the logarithm is taken, and what each is divided by."""
        if not self._own:
            return np.full(len(names), self._every[0]), np.full(len(names), self._every[1])
        found = [self._own.get(name, self._every) for name in names]
        return np.array([logs for logs, _ in found], np.bool_), np.array([width for _, width in found])

    def run(
        self, data: FloatArray, place: IntArray, logs: BoolArray, width: FloatArray
    ) -> tuple[FloatArray, IntArray, int, int]:
        """Return prepared entries and their faults, 0 for none; how many are outside [0, 1], and how many are faulty.

        `place` says where in `logs` and `width`, which `factors` has returned, the feature of each entry stands.
        """
        prepared, faults = np.empty(len(data)), np.empty(len(data), np.int64)
        outside, faulty = _transform(data, place, logs, width, self.ranged, self.clip, prepared, faults)
        return prepared, faults, outside, faulty

    def to_input_units(
        self, names: Sequence[str], centre: FloatArray, spread: FloatArray
    ) -> tuple[FloatArray, FloatArray]:
        """Map means and standard deviations of prepared features back, as `Preparation.to_input_units` does."""
        logs, width = self.factors(names)
        middle, wide = centre * width, spread * width
        for j in np.flatnonzero(logs):
            middle[j], slope = inverse_log1p(float(middle[j]))
            wide[j] = min(float(wide[j]) * slope, LARGEST)
        return middle, wide

    def settings(self) -> dict[str, Any]:
        """Return the parameters as JSON has them; the class takes them again."""
        return {"scale": self.scale, "log1p": self.log1p, "ranges": self.ranges, "clip": self.clip}

    @classmethod
    def compile(cls) -> None:
        """Compile the kernel, so that the first record does not wait for it."""
        scale = cls(log1p=[EVERY])
        scale.run(np.ones(1), np.zeros(1, np.int64), *scale.factors(["x"]))
