"""The arrays of a model, each declared once: room and growth, what a state holds of them, and what it may hold.

A model is a `Table`, as kernels take it. The default of a field declares its array, or, without an axis, its number::

    class Model(Table):
        learned: int = ints(rows="head", low=1)
        next_id: int = ints(rows="head", high="learned")
        id: IntArray = ints("slots", below="next_id", distinct=True)
        at: FloatArray = floats("d", "slots", most=MAGNITUDE, turned=True)
        sums: FloatArray = floats("slots", stored=False)

An axis is a length, or the name of one (``slots+8``: that and 8 more). A name stands for the room where arrays are
made, and for what is used of it in a state. Where a state has not got it, the first array of which it is an axis
does. Fields with the same `rows` stand one behind the other in one array of a state, those with the same `columns` side
by side.

All arrays of a table lie in one block of 64-bit words. At its beginning stand, for each field in order, the word at
which its array begins and its lengths, or, of a number, the number itself.
"""

import math
import sys
from collections.abc import Callable, Mapping
from dataclasses import dataclass
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
    below: Bound = math.nan  # of none
    total: Bound = math.inf  # of a row
    ascending: bool = False
    distinct: bool = False

    def check(self, array: Any, known: Mapping[str, Any], what: str, rows: Any = ...) -> None:
        """Raise ValueError where an array, or a number, may not be; `rows` are those that the numbers stand in."""
        low, high, below = self.low, self.high, self.below
        low = known[low] if isinstance(low, str) else low
        high = known[high] if isinstance(high, str) else high
        below = known[below] if isinstance(below, str) else below
        if not isinstance(array, np.ndarray):
            require(low <= array <= high and not array >= below, what)
            return
        if isinstance(low, np.ndarray) or isinstance(high, np.ndarray) or isinstance(below, np.ndarray):
            low, high, below = (_beside(array, bound, rows) for bound in (low, high, below))
            require(((array >= low) & (array <= high) & ~(array >= below)).all(), what)
        elif array.size:
            # Not number by number: a start reads thousands of models. What is no number has no order.
            least, most = array.min(), array.max()
            require(least >= low and most <= high and not most >= below, what)
        if self.total != math.inf:
            total = known[self.total] if isinstance(self.total, str) else self.total
            total = total[rows] if isinstance(total, np.ndarray) else total
            require((array.sum(-1, float) <= total).all(), f"the sum of {what}")
        require(not self.ascending or (np.diff(array) > 0).all(), f"the order of {what}")
        require(not self.distinct or len(set(array.tolist())) == array.size, f"{what} that come twice")


def _beside(array: NDArray[Any], bound: Any, rows: Any) -> Any:
    """Return a bound in the shape in which it is compared with an array whose numbers stand in some rows."""
    return bound[rows].reshape(-1, *[1] * (array.ndim - 1)) if isinstance(bound, np.ndarray) else bound


Axis = int | str


@dataclass(frozen=True, slots=True)
class Array:
    """One array of a model: its type and axes, what is in it at first (or np.arange), and what a state has of it.

    That is nothing, or the array under its own name or another one; `turned` the other way round; `sparse` as row,
    column and number of what is not 0; as one of several along axis `stacked` of an array.
    """

    kind: type
    axes: tuple[Axis, ...]
    numbers: Numbers
    fill: Any
    stored: bool | str
    turned: bool
    sparse: bool
    stacked: int | None

    def part(self, array: NDArray[Any], used: Mapping[str, Any]) -> NDArray[Any]:
        """Return what a state has of the array: of an axis so many, or those that an array lists."""
        for at, axis in enumerate(self.axes):
            some = used.get(_name(axis))
            if some is not None:
                array = array[(slice(None),) * at + (some if np.ndim(some) else slice(some),)]
        if not self.sparse:
            return array.T if self.turned else array
        place = np.nonzero(array)
        return np.stack([*place, array[place]], axis=1)

    def check(self, name: str, array: Any, known: dict[str, Any]) -> None:
        """Raise ValueError where a state has not such an array; put the sizes that have names to `known`."""
        shape = f"{name} of shape {array.shape}"
        if self.sparse:
            require(array.ndim == 2 and array.shape[1] == 3, shape)
            (row, column, number), (rows, columns) = array.T, (known[_name(axis)] for axis in self.axes)
            inside = (row >= 0) & (row < rows) & (column >= 0) & (column < columns)
            require(inside.all() and (np.diff(row * max(columns, 1) + column) > 0).all(), f"the places of {name}")
            self.numbers.check(number, known, name, row)
            return
        whole = array.T if self.turned else array
        require(whole.ndim == len(self.axes), shape)
        for axis, length in zip(self.axes, whole.shape, strict=True):
            if isinstance(axis, str):
                require(known.setdefault(_name(axis), length) == length, shape)
            else:
                require(length == axis, shape)
        self.numbers.check(array, known, name)


@cache
def axis_of(axis: Axis) -> tuple[str, int]:
    """Return the name of an axis, which may be none, and how much longer than what it names it is in memory."""
    if isinstance(axis, int):
        return "", axis
    name, _, more = axis.partition("+")
    return name, int(more or 0)


def _name(axis: Axis) -> str:
    """Return the name of an axis that has one."""
    return axis_of(axis)[0]


def _length(axis: Axis, sizes: Mapping[str, int]) -> int:
    """Return the length of an axis in memory."""
    name, more = axis_of(axis)
    return more + (sizes[name] if name else 0)


def _declare(
    kind: type,
    axes: tuple[Axis, ...],
    numbers: Numbers,
    fill: Any = 0,
    stored: bool | str = True,
    turned: bool = False,
    sparse: bool = False,
    rows: str = "",
    columns: str = "",
) -> Array:
    stacked = 0 if rows else 1 if columns else None
    return Array(kind, axes, numbers, fill, rows or columns or stored, turned, sparse, stacked)


def ints(*axes: Axis, **given: Any) -> Any:
    """Declare an array of integers: from 0 to `MAX_RECORDS` where members of `Numbers` among `given` say nothing else.

    The rest of `given` is `fill`, `stored`, `turned` and `sparse`, as of `Array`, `rows` or `columns`.
    """
    numbers = {name: given.pop(name) for name in Numbers.__slots__ if name in given}
    return _declare(np.int64, axes, Numbers(**numbers), **given)


def floats(*axes: Axis, most: float = LARGEST, **given: Any) -> Any:
    """Declare an array of floats as `ints` does it: from -`most` to `most` where nothing else is said."""
    numbers = {name: given.pop(name) for name in Numbers.__slots__ if name in given}
    return _declare(np.float64, axes, Numbers(**{"low": -most, "high": most, **numbers}), **given)


class Table:
    """Arrays that kernels take together, by reference. Their numbers change; another array makes another table.

    Parameters
    ----------
    block : ndarray of int64
        The words of the table, which it takes as they are.
    """

    _fields: ClassVar[dict[str, Array]] = {}
    _numba_type_: ClassVar[TableType]

    def __init_subclass__(cls) -> None:
        cls._fields = {field: each for field, each in vars(cls).items() if isinstance(each, Array)}
        fields = tuple((field, each.kind, len(each.axes)) for field, each in cls._fields.items())
        cls._numba_type_ = TableType(f"{cls.__module__}.{cls.__qualname__}", fields)
        for field, each in cls._fields.items():
            if each.axes:
                delattr(cls, field)
            else:
                setattr(cls, field, _number(cls._numba_type_.first[field], each.kind))

    def __init__(self, block: NDArray[np.int64]) -> None:
        # Kept with the table: kernels read from there.
        self.__dict__["_block"], self.__dict__["_address"] = block, block.__array_interface__["data"][0]

    def __getattr__(self, field: str) -> Any:
        # Once for each array: of the many models of a tree, few arrays are looked at.
        if field not in self._fields:
            raise AttributeError(f"{type(self).__name__} has no {field!r}")
        each, at = self._fields[field], self._numba_type_.first[field]
        start, *shape = self._block[at : at + 1 + len(each.axes)].tolist()
        array = self._block[start : start + math.prod(shape)].view(each.kind).reshape(shape)
        self.__dict__[field] = array
        return array

    def __setattr__(self, name: str, value: Any) -> None:
        if not isinstance(getattr(type(self), name, None), property):
            raise AttributeError(f"{type(self).__name__}.{name} stays the same array: write into it, or use `resized`")
        super().__setattr__(name, value)

    def __reduce__(self) -> tuple[Any, ...]:
        # A deep copy has a block of its own, and so an address of its own.
        return type(self), (self._block,)


def _number(at: int, kind: type) -> property:
    """Return the property that is the number in a word of a table."""

    def read(table: Any) -> Any:
        return table._block[at : at + 1].view(kind).item()

    def write(table: Any, value: Any) -> None:
        table._block[at : at + 1].view(kind)[0] = value

    return property(read, write)


Model = TypeVar("Model", bound=Table)


def _of_shapes(kind: type[Model], shapes: Mapping[str, tuple[int, ...]]) -> Model:
    """Return a table whose arrays have these shapes, with what is in them at first."""
    first, end = kind._numba_type_.first, kind._numba_type_.words
    words = [0] * end
    for field, shape in shapes.items():
        # Arrays begin whole lines of the cache apart: all are aligned as the block is.
        end = -(-end // LANES) * LANES
        words[first[field] : first[field] + 1 + len(shape)] = end, *shape
        end += math.prod(shape)
    block = np.zeros(end, dtype=np.int64)
    block[: len(words)] = words
    table = kind(block)
    for field, each in kind._fields.items():
        if each.fill is np.arange:
            array = getattr(table, field)
            array[:] = np.arange(len(array))
        elif each.fill and each.axes:
            getattr(table, field)[...] = each.fill
        elif each.fill:
            setattr(table, field, each.fill)
    return table


def new(kind: type[Model], **sizes: int) -> Model:
    """Return an empty model with room for sizes."""
    arrays = {field: each.axes for field, each in kind._fields.items() if each.axes}
    return _of_shapes(kind, {field: tuple(_length(axis, sizes) for axis in axes) for field, axes in arrays.items()})


@cache
def _sized(kind: Any, names: frozenset[str]) -> list[tuple[str, list[Axis]]]:
    """Return the fields that have an axis of these names, and those axes, 0 for another."""
    axes = ((name, [axis if _name(axis) in names else 0 for axis in each.axes]) for name, each in kind._fields.items())
    return [each for each in axes if any(each[1])]


def resized(model: Model, **sizes: int) -> Model:
    """Return the model with room for other sizes; one that has it stays the same."""
    kind: Any = type(model)
    larger = dict[str, tuple[int, ...]]()
    # Engines call it for each batch, of each of many streams.
    for field, axes in _sized(kind, frozenset(sizes)):
        old = getattr(model, field).shape
        shape = tuple(_length(axis, sizes) if axis else have for axis, have in zip(axes, old, strict=True))
        if shape != old:
            larger[field] = shape
    if not larger:
        return model
    arrays = {field: getattr(model, field) for field, each in kind._fields.items() if each.axes}
    made: Model = _of_shapes(kind, {field: larger.get(field, array.shape) for field, array in arrays.items()})
    for field in kind._fields:
        if field in arrays:
            getattr(made, field)[tuple(map(slice, arrays[field].shape))] = arrays[field]
        else:
            setattr(made, field, getattr(model, field))
    return made


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


def stored_fields(kind: type) -> dict[str, list[tuple[str, Array]]]:
    """Return the fields of which each array of a state is."""
    return _stored(kind)


@cache
def _stored(kind: Any) -> dict[str, list[tuple[str, Array]]]:
    found: dict[str, list[tuple[str, Array]]] = {}
    for field, each in kind._fields.items():
        if each.stored:
            found.setdefault(each.stored if isinstance(each.stored, str) else field, []).append((field, each))
    return found


def packed(model: Table, **used: Any) -> dict[str, NDArray[Any]]:
    """Return what a state has of a model, of which these sizes, or these indices, are used."""
    found = dict[str, NDArray[Any]]()
    for name, fields in stored_fields(type(model)).items():
        kind, axes, stacked = fields[0][1].kind, fields[0][1].axes, fields[0][1].stacked
        if not axes:
            found[name] = np.array([getattr(model, field) for field, _ in fields], dtype=kind)
            continue
        parts = [each.part(getattr(model, field), used) for field, each in fields]
        found[name] = parts[0] if stacked is None else np.array(parts).swapaxes(0, stacked)
    return found


def checked(kind: type[Table], arrays: Arrays, **known: Any) -> dict[str, Any]:
    """Return the arrays and numbers of a state by their fields, and its sizes.

    KeyError or ValueError where it has no such model. `known` are the sizes and bounds that the state has not got.
    """
    for name, fields in stored_fields(kind).items():
        array, declaration = arrays[name], fields[0][1]
        require(array.dtype == declaration.kind, f"{name} of {array.dtype}")
        parts = [array]
        if not declaration.axes:
            require(array.shape == (len(fields),), f"{name} of shape {array.shape}")
            for (field, each), number in zip(fields, array.tolist(), strict=True):
                each.numbers.check(number, known, f"{name} {field}")
                known[field] = number
            continue
        if declaration.stacked is not None:
            lengths = array.shape[declaration.stacked :]
            require(lengths[:1] == (len(fields),), f"{name} of shape {array.shape}")
            parts = list(array.swapaxes(0, declaration.stacked))
        for (field, each), part in zip(fields, parts, strict=True):
            each.check(name if len(fields) == 1 else f"{name} {field}", part, known)
            known[field] = part
    return known


def put(model: Table, found: Mapping[str, Any]) -> None:
    """Write checked arrays and numbers to a model that has room for them."""
    for fields in stored_fields(type(model)).values():
        for field, each in fields:
            given = found[field]
            if not each.axes:
                setattr(model, field, given)
            elif each.sparse:
                getattr(model, field)[given[:, 0], given[:, 1]] = given[:, 2]
            else:
                given = given.T if each.turned else given
                getattr(model, field)[tuple(map(slice, given.shape))] = given


def require_covariances(matrices: NDArray[Any], least: float) -> None:
    """Raise ValueError where one of some matrices is no covariance of records; no variance is below `least`."""
    variances = np.diagonal(matrices, axis1=1, axis2=2)
    require(((variances >= least) & (variances <= WIDEST_VARIANCE)).all(), "variances")
    roots = np.sqrt(variances)
    require((np.abs(matrices) <= roots[:, :, None] * roots[:, None] * (1.0 + 1e-6)).all(), "covariances")
