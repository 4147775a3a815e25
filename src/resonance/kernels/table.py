"""The arrays of a model, each declared once: room and growth, what a state holds of them, and what it may hold.

A model is a `Table`, as kernels take it. The default of a field declares its array::

    class Model(Table):
        head: IntArray = ints((Numbers(1, name="records"), Numbers(), None))
        id: IntArray = ints("slots", below="records", distinct=True)
        at: FloatArray = floats("d", "slots", most=MAGNITUDE, turned=True)
        sums: FloatArray = floats("slots", stored=False)

An axis is a length, the name of one (``slots+8``: that and 8 more), or a tuple with what each of its entries may be;
those that are None are in no state. A name stands for the room where arrays are made, and for what is used of it in a
state. Where a state does not tell it, the first array of which it is an axis does.
"""

import math
import sys
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, replace
from functools import cache
from typing import Any, ClassVar, TypeVar

import numpy as np
from numpy.typing import NDArray
from resonance.kernels.table_type import TableType

MAX_RECORDS = 2**53
"""Counts up to here are exact as floats."""

ROUNDING = 1e-9
"""What rounding may have added to a value, relative to it or to 1."""

LARGEST, ABOVE_ZERO = sys.float_info.max, math.ulp(0.0)
"""The largest float, and the smallest above 0."""

WIDEST_VARIANCE = 1e304
"""No variance of records of a few hundred features, each at most `base.MAGNITUDE`, is larger."""

LANES = 8
"""Slots that a vector loop takes at once."""

Arrays = Mapping[str, NDArray[Any]]
Bound = float | str
"""A number, or the name of one, or of an array with one for each row."""


def require(holds: Any, what: str) -> None:
    """Raise ValueError where something does not hold."""
    if not holds:
        raise ValueError(what)


@dataclass(frozen=True, slots=True)
class Numbers:
    """What the numbers of an array, or of one of its rows, may be in a state."""

    low: Bound = 0
    high: Bound = MAX_RECORDS
    below: Bound = math.inf
    total: Bound = math.inf  # of a row
    ascending: bool = False
    distinct: bool = False
    name: str = ""  # by which bounds of later numbers call these

    def check(self, array: Any, known: Mapping[str, Any], what: str, rows: Any = ...) -> None:
        """Raise ValueError where an array, or a number, may not be; `rows` are those that the numbers stand in."""
        low, high, below = self.low, self.high, self.below
        low = known[low] if isinstance(low, str) else low
        high = known[high] if isinstance(high, str) else high
        below = known[below] if isinstance(below, str) else below
        if not isinstance(array, np.ndarray):
            require(low <= array <= high and array < below, what)
            return
        if isinstance(low, np.ndarray) or isinstance(high, np.ndarray) or isinstance(below, np.ndarray):
            low, high, below = (_beside(array, bound, rows) for bound in (low, high, below))
            require(((array >= low) & (array <= high) & (array < below)).all(), what)
        elif array.size:
            # Not number by number: a start reads thousands of models. What is no number has no order.
            least, most = array.min(), array.max()
            require(least >= low and most <= high and most < below, what)
        if self.total != math.inf:
            total = known[self.total] if isinstance(self.total, str) else self.total
            total = total[rows] if isinstance(total, np.ndarray) else total
            require((array.sum(-1, float) <= total).all(), f"the sum of {what}")
        require(not self.ascending or (np.diff(array) > 0).all(), f"the order of {what}")
        require(not self.distinct or len(set(array.tolist())) == array.size, f"{what} that come twice")


def _beside(array: NDArray[Any], bound: Any, rows: Any) -> Any:
    """Return a bound in the shape in which it is compared with an array whose numbers stand in some rows."""
    return bound[rows].reshape(-1, *[1] * (array.ndim - 1)) if isinstance(bound, np.ndarray) else bound


Axis = int | str | tuple[Numbers | None, ...]


@dataclass(frozen=True, slots=True)
class Array:
    """One array of a model: its type and axes, what is in it at first (or np.arange), and what a state has of it.

    That is nothing, or the array under its own name or another one; `turned` the other way round; `sparse` as row,
    column and number of what is not 0.
    """

    kind: type
    axes: tuple[Axis, ...]
    numbers: Numbers
    fill: Any
    stored: bool | str
    turned: bool
    sparse: bool

    def made(self, sizes: Mapping[str, int]) -> NDArray[Any]:
        """Return the array with room for sizes."""
        shape = [_length(axis, sizes) for axis in self.axes]
        made: NDArray[Any]
        if self.fill is np.arange:
            made = np.arange(*shape)
        else:
            made = np.full(shape, self.fill, self.kind) if self.fill else np.zeros(shape, self.kind)
        return made

    def part(self, array: NDArray[Any], used: Mapping[str, Any]) -> NDArray[Any]:
        """Return what a state has of the array: of an axis so many, or those that an array lists."""
        for at, axis in enumerate(self.axes):
            some = _listed(axis) if isinstance(axis, tuple) else used.get(_name(axis))
            if some is not None:
                array = array[(slice(None),) * at + (some if np.ndim(some) else slice(some),)]
        if not self.sparse:
            return array.T if self.turned else array
        place = np.nonzero(array)
        return np.stack([*place, array[place]], axis=1)

    def check(self, name: str, array: NDArray[Any], known: dict[str, Any]) -> None:
        """Raise ValueError where a state has not such an array; put the sizes and rows that have names to `known`."""
        shape = f"{name} of shape {array.shape}"
        if array.dtype != self.kind:
            raise ValueError(f"{name} of {array.dtype}")
        if self.sparse:
            require(array.ndim == 2 and array.shape[1] == 3, shape)
            (row, column, number), (rows, columns) = array.T, (known[_name(axis)] for axis in self.axes)
            inside = (row >= 0) & (row < rows) & (column >= 0) & (column < columns)
            require(inside.all() and (np.diff(row * max(columns, 1) + column) > 0).all(), f"the places of {name}")
            self.numbers.check(number, known, name, row)
            return
        whole = array.T if self.turned else array
        require(whole.ndim == len(self.axes), shape)
        single = [(array, self.numbers)]
        for at, (axis, length) in enumerate(zip(self.axes, whole.shape, strict=True)):
            if isinstance(axis, str):
                require(known.setdefault(_name(axis), length) == length, shape)
            elif isinstance(axis, tuple):
                require(length == len(_listed(axis)), shape)
                rows = array.tolist() if array.ndim == 1 else whole.swapaxes(0, at)
                single = list(zip(rows, filter(None, axis), strict=True))
            else:
                require(length == axis, shape)
        for row, numbers in single:
            numbers.check(row, known, f"{name} {numbers.name}" if numbers.name else name)
            if numbers.name:
                known[numbers.name] = row


@cache
def _split(axis: str) -> tuple[str, int]:
    """Return the name of an axis, and how much longer it is in memory."""
    name, _, more = axis.partition("+")
    return name, int(more or 0)


def _name(axis: Axis) -> str:
    """Return the name of an axis that has one."""
    return _split(axis)[0] if isinstance(axis, str) else ""


def _length(axis: Axis, sizes: Mapping[str, int]) -> int:
    """Return the length of an axis in memory."""
    if isinstance(axis, str):
        name, more = _split(axis)
        return sizes[name] + more
    return len(axis) if isinstance(axis, tuple) else axis


def _listed(axis: tuple[Numbers | None, ...]) -> list[int]:
    """Return the entries of an axis that a state has."""
    return [at for at, numbers in enumerate(axis) if numbers]


def ints(
    *axes: Axis, fill: Any = 0, stored: bool | str = True, turned: bool = False, sparse: bool = False, **numbers: Any
) -> Any:
    """Declare an array of integers: from 0 to `MAX_RECORDS` where `numbers`, members of `Numbers`, say nothing else."""
    return Array(np.int64, axes, Numbers(**numbers), fill, stored, turned, sparse)


def floats(
    *axes: Axis, fill: float = 0.0, stored: bool | str = True, turned: bool = False, most: float = LARGEST, **given: Any
) -> Any:
    """Declare an array of floats: from -`most` to `most` where `given`, members of `Numbers`, say nothing else."""
    numbers = Numbers(**{"low": -most, "high": most, **given})
    return Array(np.float64, axes, numbers, fill, stored, turned, False)


class Table:
    """Arrays that kernels take together, by reference. Their numbers change; another array makes another table.

    Parameters
    ----------
    *arrays : ndarray
        One for each field: float64 or int64 as it is declared. One whose rows lie apart is copied.
    """

    _numba_type_: ClassVar[TableType]

    def __init_subclass__(cls) -> None:
        fields = tuple((field, each.kind, len(each.axes)) for field, _, each in declared(cls))
        cls._numba_type_ = TableType(f"{cls.__module__}.{cls.__qualname__}", fields)

    def __init__(self, *arrays: NDArray[Any]) -> None:
        words: list[int] = []
        for (field, _, declaration), given in zip(declared(type(self)), arrays, strict=True):
            if given.dtype != declaration.kind or given.ndim != len(declaration.axes):
                raise TypeError(f"{field}: {given.dtype} of shape {given.shape}")
            self.__dict__[field] = array = np.ascontiguousarray(given)
            words += [array.__array_interface__["data"][0], *array.shape]
        # Kept with the arrays: kernels read them from there.
        self.__dict__["_words"] = np.array(words, dtype=np.int64)
        self.__dict__["_address"] = self.__dict__["_words"].ctypes.data

    def __iter__(self) -> Iterator[NDArray[Any]]:
        return (getattr(self, field) for field, _, _ in declared(type(self)))

    def __setattr__(self, name: str, value: Any) -> None:
        raise AttributeError(f"{type(self).__name__}.{name} stays the same array: write into it, or use `resized`")

    def __reduce__(self) -> tuple[Any, ...]:
        # A copy has arrays of its own, and so addresses of its own.
        return type(self), tuple(self)


Model = TypeVar("Model", bound=Table)


def declared(kind: type, stored: bool = False) -> list[tuple[str, str, Array]]:
    """Return field, name in a state, and declaration of a model's arrays; with `stored` those that a state has."""
    return _declared(kind, stored)


@cache
def _declared(kind: type, stored: bool) -> list[tuple[str, str, Array]]:
    fields = {field: each for field, each in vars(kind).items() if isinstance(each, Array)}
    named = [(field, each.stored if isinstance(each.stored, str) else field, each) for field, each in fields.items()]
    return [each for each in named if each[2].stored or not stored]


def new(kind: type[Model], **sizes: int) -> Model:
    """Return an empty model with room for sizes."""
    return kind(*(array.made(sizes) for _, _, array in declared(kind)))


@cache
def _sized(kind: type, names: frozenset[str]) -> list[tuple[str, Array, list[Axis]]]:
    """Return field and declaration of the arrays that have an axis of these names, and those axes, 0 for another."""
    axes = (
        (name, each, [axis if _name(axis) in names else 0 for axis in each.axes]) for name, _, each in declared(kind)
    )
    return [each for each in axes if any(each[2])]


def resized(model: Model, **sizes: int) -> Model:
    """Return the model with room for other sizes; one that has it, and an array that has, stays the same."""
    larger: dict[str, NDArray[Any]] = {}
    kind: type = type(model)
    # Engines call it for each batch, of each of many streams.
    for field, array, axes in _sized(kind, frozenset(sizes)):
        old = getattr(model, field)
        shape = tuple(_length(axis, sizes) if axis else have for axis, have in zip(axes, old.shape, strict=True))
        if shape != old.shape:
            larger[field] = replace(array, axes=shape).made({})
            larger[field][tuple(map(slice, old.shape))] = old
    if not larger:
        return model
    return type(model)(*(larger.get(field, getattr(model, field)) for field, _, _ in declared(kind)))


def more_slots(slots: int) -> int:
    """Return the number of slots after `slots`: an odd number of cache lines.

    The update of a slot goes down a column. With a power of 2 as its step it would meet the same few sets of the cache
    over and over.
    """
    return 2 * slots + LANES


def room_for(wanted: int, first: int, more: Callable[[int], int] = lambda room: 2 * room) -> int:
    """Return the first room that is enough of those that follow one another from `first` on."""
    while first < wanted:
        first = more(first)
    return first


def packed(model: Table, **used: Any) -> dict[str, NDArray[Any]]:
    """Return what a state has of a model, of which these sizes, or these indices, are used."""
    return {name: array.part(getattr(model, field), used) for field, name, array in declared(type(model), True)}


def checked(kind: type, arrays: Arrays, **known: Any) -> dict[str, Any]:
    """Return the arrays of a state by their fields, and its sizes; KeyError or ValueError where it has no such model.

    `known` are the sizes and bounds that the state does not tell.
    """
    for field, name, array in declared(kind, True):
        array.check(name, arrays[name], known)
        known[field] = arrays[name]
    return known


def put(model: Table, found: Mapping[str, Any]) -> None:
    """Write checked arrays to a model that has room for them."""
    for field, _, array in declared(type(model), True):
        to, given = getattr(model, field), found[field]
        if array.sparse:
            to[given[:, 0], given[:, 1]] = given[:, 2]
        else:
            given = given.T if array.turned else given
            index = [
                _listed(axis) if isinstance(axis, tuple) else slice(have)
                for axis, have in zip(array.axes, given.shape, strict=True)
            ]
            to[tuple(index)] = given


def require_covariances(matrices: NDArray[Any], least: float) -> None:
    """Raise ValueError where one of some matrices is no covariance of records; no variance is below `least`."""
    variances = np.diagonal(matrices, axis1=1, axis2=2)
    require(((variances >= least) & (variances <= WIDEST_VARIANCE)).all(), "variances")
    roots = np.sqrt(variances)
    require((np.abs(matrices) <= roots[:, :, None] * roots[:, None] * (1.0 + 1e-6)).all(), "covariances")
