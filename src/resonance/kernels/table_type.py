"""How kernels see a `Table`: by one pointer, behind which lie the addresses and the lengths of its arrays.

As a tuple, a table of twenty-five arrays would be two hundred numbers: numba would look at each array in every call
from Python, and write all of them out again in every function that takes the table, which is most of the time that
these take to compile. References are not counted here: who calls a kernel holds the table.
"""

from typing import Any

import numpy as np
from llvmlite import ir
from numba import from_dtype, types
from numba.core import cgutils
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
        self.arrays: dict[str, tuple[int, Any]] = {}
        """By its name, the first word of an array behind the pointer, and its type."""
        words = 0
        for field, kind, dimensions in fields:
            self.arrays[field] = words, types.Array(from_dtype(np.dtype(kind)), dimensions, "C")
            words += 1 + dimensions
        super().__init__(name=f"{name}({', '.join(f'{field}: {each}' for field, (_, each) in self.arrays.items())})")


register_model(TableType)(models.OpaqueModel)


@infer_getattr
class _Fields(AttributeTemplate):  # type: ignore[misc]
    """The types of the arrays of a table."""

    key = TableType

    def generic_resolve(self, kind: TableType, field: str) -> Any:
        return kind.arrays[field][1] if field in kind.arrays else None


@lower_getattr_generic(TableType)
def _field(context: Any, builder: Any, kind: TableType, pointer: Any, field: str) -> Any:
    """Load an array. Its words never change: LLVM may load them once for all uses."""
    first, array = kind.arrays[field]
    words = builder.bitcast(pointer, _WORD.as_pointer())

    def word(place: int) -> Any:
        loaded = builder.load(builder.gep(words, [ir.Constant(ir.IntType(32), first + place)]))
        loaded.set_metadata("invariant.load", builder.module.add_metadata([]))
        return loaded

    view = context.make_array(array)(context, builder)
    shape = [word(1 + axis) for axis in range(array.ndim)]
    strides = [ir.Constant(_WORD, _BYTES)]
    for length in reversed(shape[1:]):
        strides.insert(0, builder.mul(strides[0], length))
    data = builder.inttoptr(word(0), view.data.type)
    populate_array(view, data=data, shape=shape, strides=strides, itemsize=_BYTES, meminfo=None)
    return view._getvalue()


@unbox(TableType)
def _pointer(kind: TableType, table: Any, c: Any) -> NativeValue:
    """Take the address that a table has."""
    address = c.pyapi.object_getattr_string(table, "_address")
    pointer = c.pyapi.long_as_voidptr(address)
    c.pyapi.decref(address)
    return NativeValue(pointer, is_error=cgutils.is_not_null(c.builder, c.pyapi.err_occurred()))
