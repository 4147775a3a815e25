"""Eigenvalues of a symmetric matrix, without vectors and without a library: the same bits on every CPU.

Householder's reduction to a tridiagonal matrix, then implicit QL steps in the form of Pal, Walker and Kahan, which
needs the squares of the off-diagonal only and no square root but that of the shift.

References
----------
B. N. Parlett, "The Symmetric Eigenvalue Problem", SIAM 1998, sections 7.4 (reduction) and 8.15 (QL without roots).
"""

import numpy as np
from resonance.engine.arithmetic import fma, jit
from resonance.engine.borrowed import borrow

_EPSILON = 2.0**-52
_NOTHING = 1e-280
"""What a square of an element is taken for 0 below: beside a largest element of 1 it is, and divisions stay sound."""
_MAX_STEPS = 50
"""QL steps for one eigenvalue; two or three are usual. Beyond it what is left of the off-diagonal is rounding."""


@jit
def _reduce(own, d, lanes, diagonal, off, v, w):
    """Bring rows ``own[:d]`` to tridiagonal form: `diagonal`, and in `off` the squares of the elements beside it.

    `own` has zeros in the lanes from `d` on; it is overwritten. `v` and `w` have room for `lanes`.
    """
    a, v, w = borrow(own), borrow(v), borrow(w)
    for k in range(d - 2):
        row = a[k]
        rest = 0.0
        for i in range(k + 2, d):
            rest = fma(row[i], row[i], rest)
        diagonal[k] = row[k]
        first = row[k + 1]
        norm2 = fma(first, first, rest)
        off[k] = norm2
        if rest < _NOTHING:
            continue
        # The reflection takes row k to (norm, 0, ..., 0); v is its direction.
        norm = np.sqrt(norm2)
        head = first + norm if first >= 0.0 else first - norm
        for i in range(lanes):
            v[i] = row[i] if i > k + 1 else 0.0
            w[i] = 0.0
        v[k + 1] = head
        half = 0.5 * fma(head, head, rest)  # v'v / 2
        for j in range(k + 1, d):
            line, vj = a[j], v[j]
            for i in range(lanes):
                w[i] = fma(line[i], vj, w[i])
        inner = 0.0
        for i in range(k + 1, d):
            w[i] /= half
            inner = fma(w[i], v[i], inner)
        inner = 0.5 * inner / half
        for i in range(lanes):
            w[i] = fma(-inner, v[i], w[i])
        for j in range(k + 1, d):
            line, vj, wj = a[j], v[j], w[j]
            for i in range(lanes):
                line[i] = fma(-vj, w[i], fma(-wj, v[i], line[i]))
    if d > 1:
        diagonal[d - 2] = a[d - 2, d - 2]
        off[d - 2] = a[d - 1, d - 2] * a[d - 1, d - 2]
    diagonal[d - 1] = a[d - 1, d - 1]
    off[d - 1] = 0.0


@jit
def _diagonalise(diagonal, off, d):
    """Take a tridiagonal matrix to its eigenvalues, in `diagonal`; `off` holds the squares beside it."""
    for low in range(d):
        for _ in range(_MAX_STEPS):
            end = low
            while end < d - 1:
                if off[end] <= _EPSILON * _EPSILON * abs(diagonal[end] * diagonal[end + 1]) or off[end] < _NOTHING:
                    break
                end += 1
            if end < d - 1:
                off[end] = 0.0
            if end == low:
                break
            # Wilkinson's shift: the eigenvalue of the 2 x 2 corner that is nearer to its first element.
            beside = np.sqrt(off[low])
            sigma = (diagonal[low + 1] - diagonal[low]) / (2.0 * beside)
            root = np.sqrt(fma(sigma, sigma, 1.0))
            shift = diagonal[low] - beside / (sigma + root if sigma >= 0.0 else sigma - root)
            cosine, sine = 1.0, 0.0
            gamma = diagonal[end] - shift
            p = gamma * gamma
            for i in range(end - 1, low - 1, -1):
                square = off[i]
                r = p + square
                if i != end - 1:
                    off[i + 1] = sine * r
                before = cosine
                cosine = p / r
                sine = square / r
                old = gamma
                gamma = cosine * (diagonal[i] - shift) - sine * old
                diagonal[i + 1] = old + (diagonal[i] - gamma)
                p = gamma * gamma / cosine if cosine != 0.0 else before * square
            off[low] = sine * p
            diagonal[low] = shift + gamma


@jit
def eigenvalues(matrix, d, lanes, floor, work, off, v, w, out):
    """Write the eigenvalues of a positive matrix, which has zeros from column d on, to ``out[:d]``, the largest first.

    None lies below `floor`: one that rounding put there is taken for it. `work`, of shape (d, lanes), `off`, `v` and
    `w` are room.
    """
    top = 0.0
    for i in range(d):
        top = max(top, matrix[i, i])
    # No element of a positive matrix exceeds the largest on the diagonal: squares of the scaled ones stay numbers.
    scale = 1.0 / top
    for j in range(d):
        for i in range(lanes):
            work[j, i] = matrix[j, i] * scale
    _reduce(work, d, lanes, out, off, v, w)
    _diagonalise(out, off, d)
    for i in range(d):
        value = max(out[i] * top, floor)
        at = i
        while at > 0 and out[at - 1] < value:
            out[at] = out[at - 1]
            at -= 1
        out[at] = value
