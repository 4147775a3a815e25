"""What is wrong with a record that cannot be prepared, in words."""

from collections.abc import Sequence

from resonance.engine.base import MAGNITUDE, FloatArray, IntArray
from resonance.engine.prepare import transform


def problem(row: FloatArray, fault: IntArray, features: Sequence[str], width: FloatArray) -> str:
    """Return what is wrong with a raw row by the fault that `transform` found: a feature, or an axis, and a code."""
    c, code = int(fault[0]), int(fault[1])
    if code == transform.AXIS_TOO_FAR:
        return f"beyond {MAGNITUDE:g} along principal axis {c + 1}"
    if code == transform.MISSING:
        return f"{features[c]} is missing"
    what = {
        transform.NOT_FINITE: "not a finite number",
        transform.NO_LOGARITHM: "log1p needs a value above -1",
        transform.TOO_LARGE: f"beyond {MAGNITUDE:g}",
        transform.TOO_FAR: f"beyond {MAGNITUDE:g} once scaled with width {float(width[c])!r}",
    }
    return f"{features[c]} is {float(row[c])!r}: {what[code]}"
