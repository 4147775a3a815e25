"""What a state says of itself, checked once when it is loaded.

A checksum proves that bytes arrived as they were written, not that an engine wrote them. Kernels follow every position
and count of a model without looking: one that does not fit would read and write beyond its arrays, or never end.
"""

from collections.abc import Mapping
from typing import Any, ClassVar, Protocol, Self, TypeVar

import numpy as np
from resonance.engine.base import FloatArray, IntArray
from resonance.engine.caea.faults import FITS
from resonance.engine.errors import ParameterError, StateError
from resonance.engine.state import unpack


class Stated(Protocol):
    """What has a state: an engine, or a part of one."""

    name: ClassVar[str]
    revision: ClassVar[int]

    @classmethod
    def make(cls, parameters: Mapping[str, Any]) -> Self:
        """Return a new one."""


AnEngine = TypeVar("AnEngine", bound=Stated)

FAULTS = (
    "",
    "it ends within a model",
    "a number of records or events",
    "a number of nodes, clusters, links or labels",
    "a node",
    "a confirmed cluster",
    "a link between nodes",
    "a label",
    "a weight, bandwidth or record that is no finite number",
    "the place of a model in the tree",
    "a number of leaves",
    "the records that a node keeps",
    "what is left behind the last model",
)
"""What each fault of `faults` is about."""


def check_fault(name: str, code: int, at: int) -> None:
    """Raise `StateError` for the fault that a kernel found in the state of engine `name`, at one of its integers."""
    if code != FITS:
        raise StateError(f"the state of {name} does not hold what it says it holds: {FAULTS[code]} (integer {at})")


def opened(engine: type[AnEngine], data: bytes, most_classes: int) -> tuple[AnEngine, int, int, FloatArray, IntArray]:
    """Return a new engine with the parameters of a state, and the state's dimension, classes and arrays."""
    header, arrays = unpack(data, engine.name, engine.revision, engine.revision)
    try:
        model = engine.make(header["parameters"])
        dimension = header["dimension"]
    except (KeyError, TypeError, ValueError, AttributeError, ParameterError) as error:
        raise StateError(f"the state of {engine.name} cannot be read: {error!r}") from error
    if dimension == 0 and not arrays:
        return model, 0, 0, np.empty(0), np.empty(0, dtype=np.int64)
    return model, dimension, *checked_arrays(engine.name, dimension, header, arrays, most_classes)


def checked_arrays(
    name: str, dimension: object, header: Mapping[str, Any], arrays: Mapping[str, Any], most_classes: int
) -> tuple[int, FloatArray, IntArray]:
    """Return classes and arrays of a state, or raise `StateError` where they are none of that dimension."""
    floats, integers = _array(arrays, "floats", np.float64), _array(arrays, "integers", np.int64)
    # Every model has the last of its records: a larger dimension would make room for what is not there.
    if floats is None or integers is None or not _is_number(dimension, 1, len(floats)):
        raise StateError(f"the state of {name} has no model of dimension {dimension!r}")
    classes = header.get("classes", 0)
    if not _is_number(classes, 0, most_classes):
        raise StateError(f"the state of {name} has {classes!r} classes of labels")
    return classes, floats, integers


def _array(arrays: Mapping[str, Any], name: str, kind: type[np.generic]) -> Any:
    array = arrays.get(name)
    return array if array is not None and array.ndim == 1 and array.dtype == kind else None


def _is_number(value: object, least: int, most: int) -> bool:
    return isinstance(value, int) and not isinstance(value, bool) and least <= value <= most
