"""CIM, the measure of CAEA and its relatives, and the bandwidths that it takes: equations (1)-(4), (8) and (9).

Equation numbers are those of Masuyama et al., IEEE Access 2022. CIM is kept squared until it is compared with a
threshold: the order of nodes is the same, and one square root a record is enough.
"""

from decimal import Decimal, localcontext
from functools import lru_cache

import numpy as np
from resonance.engine.base import FloatArray
from resonance.kernels.arithmetic import bits_of, exp_minus, float_of, inline, jit
from resonance.kernels.borrowed import borrow

FAR = np.int64(0x7FF0000000000000)
"""The bits of infinity: no node."""

_SMALLEST_SIGMA = 1e-150
SMALLEST_SPREAD = 1e-6
"""Standard deviation of a feature that has none."""
ROUNDING = 1e-12
"""Standard deviation, in parts of the mean, at or below which a feature is constant: rounding leaves no more."""


@inline
def scale_of(sigma):
    """Return 1 / (2 s^2) for the common bandwidth s."""
    s = sigma if sigma > _SMALLEST_SIGMA else _SMALLEST_SIGMA
    return 1.0 / (2.0 * s * s)


@jit
def squared_cim(weights, stride, k, d, scale, x, sums, squares):
    """Write the bits of CIM(x, node)^2 (1)-(4) of `k` nodes to `squares`, the lanes behind them as `FAR`.

    Weights lie feature-major, the row of each feature `stride` long; `scale` is `scale_of` the common bandwidth. `sums`
    and `squares` have room for `k` rounded up to a multiple of 8.
    """
    padded = (k + 7) & ~7
    weights, total = borrow(weights), borrow(sums)[:padded]
    for j in range(padded):
        total[j] = 0.0
    for i in range(d):
        row = weights[i * stride : i * stride + padded]
        xi = x[i]
        for j in range(padded):
            z = xi - row[j]
            total[j] += exp_minus(z * z * scale)
    share = 1.0 / d
    out = borrow(squares)[:padded]
    for j in range(padded):
        v = (d - total[j]) * share
        # The bits of floats that are not negative are in the order of the floats: minima run on integers.
        out[j] = bits_of(v if v > 0.0 else 0.0)
    for j in range(k, padded):
        out[j] = FAR


@inline
def smallest(squares, padded):
    """Return the lowest position of the smallest entry, and the entry."""
    best = FAR
    for j in range(padded):
        best = min(best, squares[j])
    where = 0
    while where < padded and squares[where] != best:
        where += 1
    return where, best


@inline
def cim(bits):
    """Return CIM from the bits of its square."""
    return np.sqrt(float_of(bits))


@lru_cache(maxsize=256)
def bandwidth_factors(d: int, h: int) -> FloatArray:
    """Return ``(4 / (2 + d))^(1 / (4 + d))`` in entry 0 and ``m^(-1 / (4 + d))`` in entry m = 1..h (8).

    Taken in decimal arithmetic and rounded once: a library's power function differs from machine to machine. That
    takes milliseconds, so streams share the array.
    """
    with localcontext() as context:
        context.prec = 40
        exponent = Decimal(1) / (4 + d)
        first = (Decimal(4) / (2 + d)) ** exponent
        return np.array([float(first)] + [float(Decimal(m) ** -exponent) for m in range(1, h + 1)])


@jit
def two_middle(values, count):
    """Return the lower and the upper median of ``values[:count]``, which it reorders (quickselect)."""
    target = count // 2
    lo, hi = 0, count - 1
    while lo < hi:
        pivot = values[(lo + hi) // 2]
        i, j = lo, hi
        while i <= j:
            while values[i] < pivot:
                i += 1
            while values[j] > pivot:
                j -= 1
            if i <= j:
                values[i], values[j] = values[j], values[i]
                i += 1
                j -= 1
        if target <= j:
            hi = j
        elif target >= i:
            lo = i
        else:
            break
    upper = values[target]
    if count % 2 == 1:
        return upper, upper
    return values[:target].max(), upper


@jit
def spread_of_one(x, d):
    """Return the standard deviation over the attributes of one record, which has no spread of its own."""
    mean, total = 0.0, 0.0
    for i in range(d):
        mean += x[i] - x[0]
    mean = x[0] + mean / d
    for i in range(d):
        total += (x[i] - mean) * (x[i] - mean)
    q = np.sqrt(total / (d - 1)) if d > 1 else 0.0
    return q if q > 0.0 else SMALLEST_SPREAD


@jit
def window_squares(window, m, d, work):
    """Sum the squared deviations from the mean, feature by feature, of the first m >= 2 records of a window.

    `work` gets d means, then d sums; those of a feature that does not vary are of `SMALLEST_SPREAD`.
    """
    work, window = borrow(work), borrow(window)
    mean, square = work[:d], work[d : 2 * d]
    work[: 2 * d] = 0.0
    for r in range(m):
        row = window[r * d : (r + 1) * d]
        for i in range(d):
            mean[i] += row[i]
    for i in range(d):
        mean[i] /= m
    for r in range(m):
        row = window[r * d : (r + 1) * d]
        for i in range(d):
            square[i] += (row[i] - mean[i]) * (row[i] - mean[i])
    for i in range(d):
        square[i] = square[i] if square[i] > 0.0 else 1e-12 * (m - 1)  # q = SMALLEST_SPREAD


@jit
def _sigma_between(lower, upper, m, factors):
    """Return the bandwidth of which these are the two middle sums of squares, of m records."""
    sigma = factors[0] * np.sqrt(upper / (m - 1)) * factors[m]
    if lower == upper:
        return sigma
    return (factors[0] * np.sqrt(lower / (m - 1)) * factors[m] + sigma) / 2.0


@jit
def median_bandwidth(window, m, d, factors, x, work):
    """Return the bandwidth of a node founded by `x`, from a window of m records that `x` is one of (8)(9).

    `work` has room for 2 d floats; for the other parameters see `window_squares` and `bandwidth_factors`.
    """
    if m == 1:
        return factors[0] * spread_of_one(x, d)
    window_squares(window, m, d, work)
    # Root and factors are monotone: the median of sigma is taken over the sums of squares.
    return _sigma_between(*two_middle(work[d : 2 * d], d), m, factors)


@jit
def varying_bandwidth(window, m, d, factors, work):
    """Return the bandwidth as `median_bandwidth` does, with the median over the features that vary in the window.

    0 where none does. A feature varies when its spread is more than rounding leaves of values of its size.
    """
    window_squares(window, m, d, work)
    mean, square = borrow(work)[:d], borrow(work)[d : 2 * d]
    count = 0
    for i in range(d):
        rounding, first, varies = ROUNDING * mean[i], window[i], False
        for r in range(1, m):
            varies = varies or window[r * d + i] != first
        if varies and square[i] > rounding * rounding * m:
            square[count] = square[i]
            count += 1
    if count == 0:
        return 0.0
    return _sigma_between(*two_middle(square, count), m, factors)
