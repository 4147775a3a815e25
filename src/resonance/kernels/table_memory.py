"""Tables that kernels make and enlarge themselves, as a tree does in the middle of a record.

A plan says of what a block of a table is, so that one kernel makes the blocks of all classes.
"""

import numpy as np
from llvmlite import ir
from numba import types
from numba.extending import intrinsic
from numpy.typing import NDArray
from resonance.kernels.arithmetic import jit
from resonance.kernels.borrowed import integers_at
from resonance.kernels.table import LANES, Table, axis_of


def plan_of(kind: type[Table], *sizes: str) -> NDArray[np.int64]:
    """Return a row for each field of a class: its first word, its axes, and of each axis its size and how much more.

    A size is its position among `sizes`, -1 for none. No array has more than two axes.
    """
    rows = []
    for field, each in kind._fields.items():
        axes = [axis_of(axis) for axis in each.axes]
        found = [part for name, more in axes for part in (sizes.index(name) if name else -1, more)]
        rows.append([kind._numba_type_.first[field], len(axes), *found, *[0] * (4 - len(found))])
    return np.array(rows, dtype=np.int64)


@jit
def new_block(plan, sizes):
    """Return the block of a table with room for sizes, all of it 0."""
    last = plan[len(plan) - 1]
    end = last[0] + last[1] + 1
    words = np.zeros(end, dtype=np.int64)
    for field in range(len(plan)):
        first, axes = plan[field, 0], plan[field, 1]
        if axes == 0:
            continue
        end = -(-end // LANES) * LANES
        words[first], length = end, 1
        for axis in range(axes):
            size, more = plan[field, 2 + 2 * axis], plan[field, 3 + 2 * axis]
            words[first + 1 + axis] = more + (sizes[size] if size >= 0 else 0)
            length *= words[first + 1 + axis]
        end += length
    block = np.zeros(end, dtype=np.int64)
    for word in range(len(words)):
        block[word] = words[word]
    return block


@jit
def copy_block(plan, old, new):
    """Copy the numbers of a table, and of its arrays what another one has room for. Both are words."""
    for field in range(len(plan)):
        first, axes = plan[field, 0], plan[field, 1]
        if axes == 0:
            new[first] = old[first]
            continue
        rows = min(old[first + 1], new[first + 1]) if axes == 2 else 1
        wide, wider = old[first + axes], new[first + axes]
        for row in range(rows):
            a, b = old[first] + row * wide, new[first] + row * wider
            for at in range(min(wide, wider)):
                new[b + at] = old[a + at]


@intrinsic
def address_of(typingctx, table):
    """Return where a table lies."""

    def codegen(context, builder, signature, args):
        return builder.ptrtoint(args[0], ir.IntType(64))

    return types.int64(table), codegen


@jit
def words_of(table, plan):
    """Return the block of a table without its owner."""
    address, last = address_of(table), plan[len(plan) - 1]
    end = last[0] + last[1] + 1
    head = integers_at(address, end)
    for field in range(len(plan)):
        if plan[field, 1] > 0:
            length = head[plan[field, 0] + 1] * (head[plan[field, 0] + 2] if plan[field, 1] == 2 else 1)
            end = max(end, head[plan[field, 0]] + length)
    return integers_at(address, end)


@intrinsic
def published(typingctx, address):
    """Return the same address, as one that LLVM knows nothing of.

    Kernels take where arrays lie, and their lengths, for constant: in the function that writes these words, LLVM may
    load them before. Assembly of no instruction may read and write all memory, so they are written before it, and an
    address that it returns is none that anything could be loaded from earlier.
    """

    def codegen(context, builder, signature, args):
        kind = ir.FunctionType(ir.IntType(64), [ir.IntType(64)])
        return builder.asm(kind, "", "=r,0,~{memory}", args, side_effect=True)

    return types.int64(types.int64), codegen


def taker_of(kind: type[Table]) -> object:
    """Return the kernel that returns the table of a class at an address."""

    @intrinsic
    def table_at(typingctx, address):
        def codegen(context, builder, signature, args):
            return builder.inttoptr(args[0], context.get_value_type(kind._numba_type_))

        return kind._numba_type_(types.int64), codegen

    return table_at
