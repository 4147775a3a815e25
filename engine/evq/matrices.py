"""Symmetric positive definite d x d matrices: factors, inverses, determinants, eigenvectors.

Written here, and not left to LAPACK, so that the bits do not depend on the CPU. A matrix is factored after its rows
and columns are divided by the roots of its diagonal: features of any scales are then alike, and a pivot that rounding
has eaten up is known by its size. All inner loops run along rows.
"""

import numpy as np
from resonance.kernels.arithmetic import jit, log

_SMALLEST_PIVOT = 1e-15
"""Of a matrix whose diagonal is 1: what is smaller is rounding."""

_SWEEPS = 30
_ORTHOGONAL = 1e-15


@jit
def factor(matrix, d, scale, upper):
    """Write s and U with ``matrix = diag(s) U' U diag(s)`` to `scale` and `upper`; return ln det of the matrix.

    Below its diagonal U is not set.
    """
    for a in range(d):
        scale[a] = np.sqrt(matrix[a, a])
    for a in range(d):
        for b in range(a, d):
            upper[a, b] = matrix[a, b] / (scale[a] * scale[b])
    total = 0.0
    for j in range(d):
        pivot = upper[j, j]
        pivot = np.sqrt(pivot if pivot > _SMALLEST_PIVOT else _SMALLEST_PIVOT)
        upper[j, j] = pivot
        total += log(pivot * scale[j])
        for b in range(j + 1, d):
            upper[j, b] /= pivot
        for a in range(j + 1, d):
            share = upper[j, a]
            for b in range(a, d):
                upper[a, b] -= share * upper[j, b]
    return 2.0 * total


@jit
def squared_norm(scale, upper, d, v):
    """Return ``v' A^-1 v`` of the factored matrix A; `v` is overwritten."""
    total = 0.0
    for a in range(d):
        v[a] /= scale[a]
    for a in range(d):
        y = v[a] / upper[a, a]
        total += y * y
        for b in range(a + 1, d):
            v[b] -= upper[a, b] * y
    return total


@jit
def invert(matrix, d, scale, upper, work, inverse):
    """Write the inverse of a matrix, exactly symmetric; return ln det of it. `scale`, `upper` and `work` are room."""
    logdet = factor(matrix, d, scale, upper)
    # work = U^-1', by rows from the first: row i of U^-1' is column i of U^-1.
    for i in range(d):
        for b in range(d):
            work[i, b] = 0.0
        work[i, i] = 1.0
    for j in range(d):
        for b in range(j + 1):
            work[j, b] /= upper[j, j]
        for i in range(j + 1, d):
            share = upper[j, i]
            for b in range(j + 1):
                work[i, b] -= share * work[j, b]
    # U inverse = U^-1', from the last row.
    for i in range(d - 1, -1, -1):
        for b in range(d):
            inverse[i, b] = work[i, b]
        for j in range(i + 1, d):
            share = upper[i, j]
            for b in range(d):
                inverse[i, b] -= share * inverse[j, b]
        for b in range(d):
            inverse[i, b] /= upper[i, i]
    for a in range(d):
        for b in range(a, d):
            mean = (inverse[a, b] + inverse[b, a]) / 2.0 / (scale[a] * scale[b])
            inverse[a, b] = mean
            inverse[b, a] = mean
    return logdet


@jit
def eigenvectors(matrix, d, scale, upper, value, rows):
    """Write the eigenvectors of a matrix as `rows`, the largest eigenvalue first, and the eigenvalues.

    One-sided Jacobi rotations of the rows of G, where G'G is the matrix: they leave it what it is, and when the rows
    are orthogonal they are its eigenvectors, each as long as the root of its eigenvalue.
    """
    factor(matrix, d, scale, upper)
    for a in range(d):
        for b in range(d):
            rows[a, b] = upper[a, b] * scale[b] if b >= a else 0.0
    for _ in range(_SWEEPS):
        rotated = False
        for i in range(d - 1):
            for j in range(i + 1, d):
                first, second, product = 0.0, 0.0, 0.0
                for b in range(d):
                    first += rows[i, b] * rows[i, b]
                    second += rows[j, b] * rows[j, b]
                    product += rows[i, b] * rows[j, b]
                if not abs(product) > d * _ORTHOGONAL * np.sqrt(first) * np.sqrt(second):
                    continue
                rotated = True
                zeta = (second - first) / (2.0 * product)
                tangent = 1.0 / (abs(zeta) + np.sqrt(1.0 + zeta * zeta))
                if zeta < 0.0:
                    tangent = -tangent
                cosine = 1.0 / np.sqrt(1.0 + tangent * tangent)
                sine = cosine * tangent
                for b in range(d):
                    x, y = rows[i, b], rows[j, b]
                    rows[i, b] = cosine * x - sine * y
                    rows[j, b] = sine * x + cosine * y
        if not rotated:
            break
    for i in range(d):
        total = 0.0
        for b in range(d):
            total += rows[i, b] * rows[i, b]
        value[i] = total
        length = np.sqrt(total)
        for b in range(d):
            rows[i, b] /= length
    # By insertion: equal ones keep their order.
    for i in range(1, d):
        j = i
        while j > 0 and value[j] > value[j - 1]:
            value[j], value[j - 1] = value[j - 1], value[j]
            for b in range(d):
                rows[j, b], rows[j - 1, b] = rows[j - 1, b], rows[j, b]
            j -= 1
