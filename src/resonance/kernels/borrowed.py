"""Views of arrays that their callers keep alive, for kernels that cannot afford to count references.

numba counts a reference with an atomic instruction wherever an array, or a slice of one, gets a name. In steps of
half a microsecond that is a fifth of the time. A borrowed array has no owner to count for, so the owner must outlive
the view: borrow arguments of a function, which its caller holds, never an array that the function itself has made.
numba frees that one after the last line that names it, view or not.
"""

from typing import Any

from llvmlite import ir
from numba import carray, types
from numba.core import cgutils
from numba.extending import intrinsic
from resonance.kernels.arithmetic import inline


@intrinsic
def borrow(typingctx, array):
    """Return the same array without its owner."""

    def codegen(context, builder, signature, args):
        view = context.make_array(array)(context, builder, args[0])
        view.meminfo = cgutils.get_null_value(view.meminfo.type)
        view.parent = cgutils.get_null_value(view.parent.type)
        return view._getvalue()

    return array(array), codegen


def _pointer_to(item: Any) -> Any:
    @intrinsic
    def pointer(typingctx, address):
        def codegen(context, builder, signature, args):
            return builder.inttoptr(args[0], ir.PointerType(context.get_value_type(item)))

        return types.CPointer(item)(types.int64), codegen

    return pointer


_integer_pointer: Any = _pointer_to(types.int64)
_byte_pointer: Any = _pointer_to(types.uint8)


@inline
def integers_at(address, length):
    """Return the int64 array of `length` at an address."""
    return carray(_integer_pointer(address), length)


@inline
def bytes_at(address, length):
    """Return the uint8 array of `length` at an address."""
    return carray(_byte_pointer(address), length)


@intrinsic
def row(typingctx, array, number):
    """Return a pointer to the first item of ``array[number]``, for functions that are called for every record.

    numba counts references even of borrowed arrays, by calls that find no owner, in every function that takes them.
    """

    def codegen(context, builder, signature, args):
        view = context.make_array(array)(context, builder, args[0])
        width = cgutils.unpack_tuple(builder, view.strides)[0]
        start = builder.add(builder.ptrtoint(view.data, ir.IntType(64)), builder.mul(args[1], width))
        return builder.inttoptr(start, view.data.type)

    return types.CPointer(array.dtype)(array, types.int64), codegen
