"""Messages of a C client, each a struct at an address, as columns: no Python object is made for any of them.

The client's functions are called by their addresses, which are arguments: a kernel that is kept on disk knows no
address of a process.
"""

from typing import Final

import numpy as np
from llvmlite import ir
from numba import types
from numba.extending import intrinsic
from resonance.kernels.arithmetic import inline, jit
from resonance.kernels.borrowed import bytes_at, integers_at

_WORDS: Final = 9
"""Of a message: error, topic, partition, value, its length, key, its length, offset, and one of the client's own."""

NULL_VALUE: Final = 1
NULL_KEY: Final = 2
"""What `unpack` says is null, and not empty."""


@intrinsic
def _call(typingctx, function, arguments):
    """Call a C function, all of whose arguments are words, by its address; return the word that it returns."""

    def codegen(context, builder, signature, args):
        word = ir.IntType(64)
        kind = ir.FunctionType(word, [word] * len(signature.args[1]))
        parts = [builder.extract_value(args[1], at) for at in range(len(signature.args[1]))]
        return builder.call(builder.inttoptr(args[0], kind.as_pointer()), parts)

    return types.int64(types.int64, arguments), codegen


@inline
def _copy(address, size, text, at):
    if size > 0:
        text[at : at + size] = bytes_at(address, size)


@jit
def look(messages, error, topic, partition, sizes):
    """Read what each message is about, and the bytes of all values and all keys."""
    values = keys = 0
    for k in range(len(messages)):
        message = integers_at(messages[k], _WORDS)
        error[k] = np.int32(message[0] & 0xFFFFFFFF)
        topic[k] = message[1]
        partition[k] = np.int32(message[2] & 0xFFFFFFFF)
        if error[k] == 0:
            values += message[4]
            keys += message[6]
    sizes[0] = values
    sizes[1] = keys


@jit
def unpack(messages, functions, text, ends, keys, key_ends, offsets, times, nulls, headers, found):
    """Copy messages into columns and destroy those without headers; return how many have some.

    ``functions`` has the addresses of three of the client's: a message's time, its headers, its end. ``nulls`` gets
    `NULL_VALUE` and `NULL_KEY`; ``headers`` the number of each message that has some, and ``found`` where these are.
    """
    end = key_end = count = 0
    place = np.zeros(1, np.int64)
    for k in range(len(messages)):
        address = messages[k]
        message = integers_at(address, _WORDS)
        value, size, key, key_size = message[3], message[4], message[5], message[6]
        _copy(value, size, text, end)
        end += size
        ends[k] = end
        text[end] = 0
        end += 1
        _copy(key, key_size, keys, key_end)
        key_end += key_size
        key_ends[k] = key_end
        offsets[k] = message[7]
        times[k] = _call(functions[0], (address, np.int64(0)))
        nulls[k] = (NULL_VALUE if value == 0 else 0) | (NULL_KEY if key == 0 else 0)
        if _call(functions[1], (address, np.int64(place.ctypes.data))) & 0xFFFFFFFF == 0:
            headers[count] = k
            found[count] = place[0]
            count += 1
        else:
            _call(functions[2], (address,))
    return count


def compile() -> None:
    """Compile the kernels, or load them from the cache."""
    none, small, tiny = np.empty(0, np.int64), np.empty(0, np.int32), np.empty(0, np.uint8)
    look(none, small, none, small, np.zeros(2, np.int64))
    unpack(none, np.zeros(3, np.int64), tiny, none, tiny, none, none, none, tiny, none, none)
