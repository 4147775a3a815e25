"""How kernels see a `Table`: by one pointer, behind which its words lie.

As a tuple, a table of twenty-five arrays would be two hundred numbers: numba would look at each array in every call
from Python, and write all of them out again in every function that takes the table, which is most of the time that
these take to compile. References are not counted here: who calls a kernel holds the table.
"""

from typing import Any

import numpy as np
from llvmlite import ir
from numba import from_dtype, types
from numba.core import cgutils
from numba.core.errors import TypingError
from numba.core.imputils import lower_setattr_generic
from numba.core.typing.templates import AttributeTemplate
from numba.extending import NativeValue, infer_getattr, lower_getattr_generic, models, register_model, unbox
from numba.np.arrayobj import populate_array

_WORD = ir.IntType(64)
_BYTES = 8


class TableType(types.Type):  # type: ignore[misc]  # numba has no types
    """The type of the tables of one class.

    Parameters
    ----------
    name : str
        Of the class, with its module.
    fields : tuple of (str, type, int)
        Name of each array, its numbers (np.float64 or np.int64), and its dimensions.
    """

    def __init__(self, name: str, fields: tuple[tuple[str, type, int], ...]) -> None:
        self.first: dict[str, int] = {}
        """By its name, the first word of a field."""
        self.types: dict[str, Any] = {}
        self.words = 0
        for field, kind, dimensions in fields:
            number = from_dtype(np.dtype(kind))
            self.first[field] = self.words
            self.types[field] = types.Array(number, dimensions, "C") if dimensions else number
            self.words += 1 + dimensions
        # With the words: numba keeps kernels of packages beyond this one by the names of the types that they take.
        found = (f"{field} at {self.first[field]}: {each}" for field, each in self.types.items())
        super().__init__(name=f"{name}({', '.join(found)})")


register_model(TableType)(models.OpaqueModel)


@infer_getattr
class _Fields(AttributeTemplate):  # type: ignore[misc]
    """The types of the arrays of a table."""

    key = TableType

    def generic_resolve(self, kind: TableType, field: str) -> Any:
        return kind.types.get(field)


def _place(builder: Any, pointer: Any, word: int, item: Any) -> Any:
    """Return the address of a word of a table."""
    words = builder.bitcast(pointer, _WORD.as_pointer())
    return builder.bitcast(builder.gep(words, [ir.Constant(ir.IntType(32), word)]), item.as_pointer())


@lower_getattr_generic(TableType)
def _field(context: Any, builder: Any, kind: TableType, pointer: Any, field: str) -> Any:
    """Load a number or an array. Where an array lies, and its lengths, never change: LLVM may load them once."""
    first, array = kind.first[field], kind.types[field]
    if not isinstance(array, types.Array):
        return builder.load(_place(builder, pointer, first, context.get_value_type(array)))

    def word(place: int) -> Any:
        loaded = builder.load(_place(builder, pointer, first + place, _WORD))
        loaded.set_metadata("invariant.load", builder.module.add_metadata([]))
        return loaded

    view = context.make_array(array)(context, builder)
    shape = [word(1 + axis) for axis in range(array.ndim)]
    strides = [ir.Constant(_WORD, _BYTES)]
    for length in reversed(shape[1:]):
        strides.insert(0, builder.mul(strides[0], length))
    data = builder.gep(builder.bitcast(pointer, view.data.type), [word(0)])
    populate_array(view, data=data, shape=shape, strides=strides, itemsize=_BYTES, meminfo=None)
    return view._getvalue()


@lower_setattr_generic(TableType)
def _set(context: Any, builder: Any, signature: Any, args: Any, field: str) -> None:
    """Store a number."""
    kind, (pointer, value) = signature.args[0], args
    if isinstance(kind.types[field], types.Array):
        raise TypingError(f"{field} stays the same array: write into it")
    builder.store(value, _place(builder, pointer, kind.first[field], value.type))


@unbox(TableType)
def _pointer(kind: TableType, table: Any, c: Any) -> NativeValue:
    """Take the address that a table has."""
    address = c.pyapi.object_getattr_string(table, "_address")
    pointer = c.pyapi.long_as_voidptr(address)
    c.pyapi.decref(address)
    return NativeValue(pointer, is_error=cgutils.is_not_null(c.builder, c.pyapi.err_occurred()))
