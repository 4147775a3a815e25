"""Arithmetic whose bits do not depend on the CPU.

Only + - * / sqrt and *explicit* fused multiply-adds are used: IEEE 754 defines each of them to the last bit, with or
without a vector unit, so a loop over nodes may be vectorised freely. Nothing here calls a mathematics library.
"""

from typing import Any

import numpy as np
from llvmlite import ir
from numba import njit, types
from numba.extending import intrinsic
from resonance.kernels.compiler import KernelCompiler, deferring
from resonance.kernels.numba_cache import KernelCache


def _by_type(kind: Any) -> Any:
    """Return the type of an argument, of a constant that of its value."""
    return kind.from_types(tuple(map(_by_type, kind))) if type(kind) is types.Tuple else types.unliteral(kind)


def _kept(**options: Any) -> Any:
    """Return numba's decorator for functions whose machine code is kept in the folder of their module."""
    options |= {"nogil": True, "error_model": "numpy", "no_cfunc_wrapper": True}

    def decorate(function: Any) -> Any:
        if function.__module__.startswith("resonance."):
            kernel = deferring(njit(pipeline_class=KernelCompiler, **options)(function))
            # As `enable_caching` does it, in the folder of the module.
            kernel._cache = KernelCache(function)
        else:
            kernel = njit(cache=True, **options)(function)
        # Kernels that call it with constants get the same machine code as those that do not: half a second less each.
        template = kernel.get_call_template
        kernel.get_call_template = lambda args, named: template(
            tuple(map(_by_type, args)), {name: _by_type(kind) for name, kind in named.items()}
        )
        return kernel

    return decorate


jit = _kept()
"""How every kernel is compiled: kept on disk, without the interpreter's lock, IEEE division."""

inline = _kept(inline="always")
"""For small functions of inner loops: their callers must see through them to vectorise."""


@intrinsic
def fma(typingctx, a, b, c):
    """Return ``a * b + c``, rounded once."""

    def codegen(context, builder, signature, args):
        return builder.fma(*args)

    return types.float64(types.float64, types.float64, types.float64), codegen


@intrinsic
def bits_of(typingctx, x):
    """Return the bits of a float64 as an int64."""

    def codegen(context, builder, signature, args):
        return builder.bitcast(args[0], ir.IntType(64))

    return types.int64(types.float64), codegen


@intrinsic
def float_of(typingctx, n):
    """Return the float64 that has the bits of an int64."""

    def codegen(context, builder, signature, args):
        return builder.bitcast(args[0], ir.DoubleType())

    return types.float64(types.int64), codegen


@inline
def mixed(seed, number):
    """Return output number + 1 of splitmix64, 64 bits that follow from a seed and a number alone."""
    z = seed + (np.uint64(number) + np.uint64(1)) * np.uint64(0x9E3779B97F4A7C15)
    z = (z ^ (z >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    z = (z ^ (z >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return z ^ (z >> np.uint64(31))


@inline
def draw(number):
    """Return a number from 0 to 1 that follows from an integer alone."""
    return (mixed(np.uint64(0), number) >> np.uint64(11)) * 2.0**-53


# Adding 1.5 * 2**52 rounds to the nearest integer and leaves it in the lowest bits.
_ROUND = 6755399441055744.0
_ROUND_BITS = 0x4338000000000000
# e**-700 is as good as 0 beside 1, and still far from the denormal numbers, which are slow.
_FAR = 700.0

# e**-f for |f| <= log(2)/2: Remez polynomial of degree 11 that begins 1 - f, relative error 4e-18 before rounding.
_P2 = float.fromhex("0x1.000000000000ap-1")
_P3 = float.fromhex("-0x1.55555555554fap-3")
_P4 = float.fromhex("0x1.555555555087cp-5")
_P5 = float.fromhex("-0x1.1111111127be5p-7")
_P6 = float.fromhex("0x1.6c16c1842a11dp-10")
_P7 = float.fromhex("-0x1.a01a012a57b51p-13")
_P8 = float.fromhex("0x1.a0199a0c677acp-16")
_P9 = float.fromhex("-0x1.71df2552390c2p-19")
_P10 = float.fromhex("0x1.28ad72cc30daap-22")
_P11 = float.fromhex("-0x1.ad7f6f0799ee2p-26")

LOG2_E = float.fromhex("0x1.71547652b82fep+0")
LN_2 = float.fromhex("0x1.62e42fefa39efp-1")
_LN_2_LOW = float.fromhex("0x1.abc9e3b39803fp-56")
_SQRT_2 = float.fromhex("0x1.6a09e667f3bcdp+0")


@inline
def exp_minus(t):
    """Return e**-t for t >= 0, within 0.6 units of its last place for small t; e**-700 for every t beyond 700."""
    t = t if t < _FAR else _FAR
    shifted = fma(t, LOG2_E, _ROUND)
    n = shifted - _ROUND
    # log(2) in two parts: what is left of t keeps all its digits.
    f = fma(n, -_LN_2_LOW, fma(n, -LN_2, t))
    p = fma(_P11, f, _P10)
    p = fma(p, f, _P9)
    p = fma(p, f, _P8)
    p = fma(p, f, _P7)
    p = fma(p, f, _P6)
    p = fma(p, f, _P5)
    p = fma(p, f, _P4)
    p = fma(p, f, _P3)
    p = fma(p, f, _P2)
    p = fma(p, f, -1.0)
    p = fma(p, f, 1.0)
    # The exponent of 2**-n stands 52 bits up: a negative int64 shift-free product would cost more than this.
    return p * float_of((1023 - (bits_of(shifted) - _ROUND_BITS)) << 52)


@jit
def log(x):
    """Return the natural logarithm of a positive normal float64, within 4e-16 of the larger of 1 and the result."""
    bits = bits_of(x)
    exponent = (bits >> 52) - 1023
    mantissa = float_of((bits & 0x000FFFFFFFFFFFFF) | (1023 << 52))
    if mantissa > _SQRT_2:
        mantissa *= 0.5
        exponent += 1
    # log m = 2 artanh(t), t = (m - 1)/(m + 1), |t| < 0.1716: the series has fallen below 1e-17 after 11 terms.
    t = (mantissa - 1.0) / (mantissa + 1.0)
    t2 = t * t
    series = 0.0
    for k in range(21, 1, -2):
        series = fma(series, t2, 1.0 / k)
    return fma(float(exponent), LN_2, 2.0 * fma(series * t2, t, t))


@jit
def log1p(x):
    """Return log(1 + x) for x > -1, accurate near 0."""
    u = 1.0 + x
    if u == 1.0:
        return x
    # What rounding took from u is given back to first order.
    return log(u) - ((u - 1.0) - x) / u


@jit
def correlation_time(variance, covariance, most):
    """Return how many values in a row say as much as one that is independent of the others.

    `covariance` is that of two in a row. With their correlation *r*, from 0 to `most`, it is (1 + r) / (1 - r).
    """
    r = min(max(covariance / variance, 0.0), most)
    return (1.0 + r) / (1.0 - r)
