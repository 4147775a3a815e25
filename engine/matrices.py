"""Symmetric positive matrices: factors, inverses, determinants, eigenvalues, eigenvectors.

Written here, and not left to LAPACK, so that the bits do not depend on the CPU: start, number of steps and order of all
sums are fixed. Rows may be longer than the matrix, so that a loop along them fills the vector lanes.

All eigenvectors of a small matrix come by Jacobi rotations [1]_. Those of the largest eigenvalues of a large one come
by block iteration with a Chebyshev filter [2]_: a few vectors more than are wanted are multiplied with a polynomial of
the matrix that is small on the unwanted eigenvalues, made orthonormal, and turned into the best approximations that
their span has (Rayleigh-Ritz). Eigenvalues alone come by Householder's reduction to a tridiagonal matrix and implicit
QL steps in the form of Pal, Walker and Kahan, which needs the squares of the off-diagonal only [3]_.

References
----------
.. [1] G. H. Golub, C. F. Van Loan, "Matrix Computations", 4th edition, section 8.5.
.. [2] Y. Zhou, Y. Saad, M. L. Tiago, J. R. Chelikowsky, "Self-consistent-field calculations using Chebyshev-filtered
   subspace iteration", Journal of Computational Physics 219, 2006, pp. 172-184, Algorithms 3.1 and 3.2.
.. [3] B. N. Parlett, "The Symmetric Eigenvalue Problem", SIAM 1998, sections 7.4 (reduction) and 8.15 (QL without
   roots).
"""

import numpy as np
from resonance.kernels.arithmetic import fma, jit, log
from resonance.kernels.borrowed import borrow

_SMALLEST_PIVOT = 1e-15
"""Of a matrix whose diagonal is 1: what is smaller is rounding."""
_EPSILON = 2.0**-52
_TINY = 1e-280
"""What a square of an element is taken for 0 below: beside a largest element of 1 it is, and divisions stay sound."""
_MAX_STEPS = 50
"""QL steps for one eigenvalue; two or three are usual. Beyond it what is left of the off-diagonal is rounding."""
_SPARE = 8
"""Vectors that are iterated beyond those wanted: the wanted ones stand apart from what is left out."""
_ROUNDS = 10
_DEGREE = 8
_LARGEST_GROWTH = 1e8
"""How much more the filter may raise the first eigenvector than the last: rounding errors of the last grow with it."""
_SWEEPS = 40
_EQUAL = 1e-15
_NOTHING = 1e-13
"""What is left of a vector, as a share of it, when the vectors before it span it."""
_TILE = 64


@jit
def _factor_rows(rows, d, lanes, floor):
    """Make the rows of a matrix those of U, where U'U is the matrix; no squared pivot is below `floor`."""
    for j in range(d):
        line = rows[j]
        pivot = 1.0 / np.sqrt(max(line[j], floor))
        for i in range(lanes):
            line[i] = line[i] * pivot if i >= j else 0.0
        for k in range(j + 1, d):
            below, share = rows[k], line[k]
            for i in range(lanes):
                below[i] = fma(-share, line[i], below[i])
        line[j] = 1.0 / pivot


@jit
def _invert_factor(upper, d, lanes, out):
    """Write the inverse of U, which is W' where W'W inverts U'U, to `out`."""
    for j in range(d):
        y = out[j]
        for i in range(lanes):
            y[i] = 0.0
        y[j] = 1.0
        for k in range(j, d):
            line = upper[k]
            y[k] = y[k] / line[k]
            value = y[k]
            for i in range(k + 1, d):
                y[i] = fma(-value, line[i], y[i])


@jit
def set_whitening(covariance, d, lanes, floor, work, out):
    """Write the whitening matrix W of a covariance, column by column, to the rows of `out`: W'W is its inverse.

    No eigenvalue of the covariance lies below `floor`; so no pivot does, but by rounding. `work` is room for as much.
    """
    for j in range(d):
        for i in range(lanes):
            work[j, i] = covariance[j, i]
    _factor_rows(work, d, lanes, floor)
    _invert_factor(work, d, lanes, out)


@jit
def factor(matrix, d, scale, upper):
    """Write s and U with ``matrix = diag(s) U' U diag(s)`` to `scale` and `upper`; return ln det of the matrix.

    Features of any scales are then alike, and a pivot that rounding has eaten up is known by its size.
    """
    for a in range(d):
        scale[a] = np.sqrt(matrix[a, a])
    for a in range(d):
        for b in range(d):
            upper[a, b] = matrix[a, b] / (scale[a] * scale[b])
    _factor_rows(upper, d, d, _SMALLEST_PIVOT)
    total = 0.0
    for a in range(d):
        total += log(upper[a, a] * scale[a])
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
    _invert_factor(upper, d, d, work)
    for a in range(d):
        for b in range(a, d):
            total = 0.0
            for k in range(b, d):
                total = fma(work[a, k], work[b, k], total)
            inverse[a, b] = inverse[b, a] = total / (scale[a] * scale[b])
    return logdet


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
        if rest < _TINY:
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
def _solve_tridiagonal(diagonal, off, d):
    """Take a tridiagonal matrix to its eigenvalues, in `diagonal`; `off` holds the squares beside it."""
    for low in range(d):
        for _ in range(_MAX_STEPS):
            end = low
            while end < d - 1:
                if off[end] <= _EPSILON * _EPSILON * abs(diagonal[end] * diagonal[end + 1]) or off[end] < _TINY:
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
    _solve_tridiagonal(out, off, d)
    for i in range(d):
        value = max(out[i] * top, floor)
        at = i
        while at > 0 and out[at - 1] < value:
            out[at] = out[at - 1]
            at -= 1
        out[at] = value


@jit
def gram(rows, out):
    """Write the inner products of the columns of `rows` to `out`: for each, one sum from the first row to the last."""
    count, m = rows.shape
    out[:] = 0.0
    for start in range(0, count, _TILE):
        stop = min(start + _TILE, count)
        whole = start + (stop - start) // 4 * 4
        for i in range(m):
            own = out[i]
            for c in range(start, whole, 4):
                a0, a1, a2, a3 = rows[c, i], rows[c + 1, i], rows[c + 2, i], rows[c + 3, i]
                r0, r1, r2, r3 = rows[c], rows[c + 1], rows[c + 2], rows[c + 3]
                for j in range(i, m):
                    own[j] = fma(a3, r3[j], fma(a2, r2[j], fma(a1, r1[j], fma(a0, r0[j], own[j]))))
            for c in range(whole, stop):
                a0, r0 = rows[c, i], rows[c]
                for j in range(i, m):
                    own[j] = fma(a0, r0[j], own[j])
    for i in range(m):
        for j in range(i):
            out[i, j] = out[j, i]


@jit
def multiply(matrix, vectors, out):
    """Write ``matrix @ vectors`` to `out`."""
    m, inner = matrix.shape
    b = vectors.shape[1]
    whole = inner // 4 * 4
    for i in range(m):
        own = out[i]
        own[:] = 0.0
        for j in range(0, whole, 4):
            a0, a1, a2, a3 = matrix[i, j], matrix[i, j + 1], matrix[i, j + 2], matrix[i, j + 3]
            v0, v1, v2, v3 = vectors[j], vectors[j + 1], vectors[j + 2], vectors[j + 3]
            for k in range(b):
                own[k] = fma(a3, v3[k], fma(a2, v2[k], fma(a1, v1[k], fma(a0, v0[k], own[k]))))
        for j in range(whole, inner):
            a0, v0 = matrix[i, j], vectors[j]
            for k in range(b):
                own[k] = fma(a0, v0[k], own[k])


@jit
def orthonormalise(vectors):
    """Make the columns orthonormal, each against those before it; one that they span becomes 0."""
    m, b = vectors.shape
    for k in range(b):
        for _ in range(2):
            before = 0.0
            for j in range(m):
                before = fma(vectors[j, k], vectors[j, k], before)
            for p in range(k):
                share = 0.0
                for j in range(m):
                    share = fma(vectors[j, p], vectors[j, k], share)
                for j in range(m):
                    vectors[j, k] = fma(-share, vectors[j, p], vectors[j, k])
            after = 0.0
            for j in range(m):
                after = fma(vectors[j, k], vectors[j, k], after)
            usable = after > before * (_NOTHING * _NOTHING)
            scale = 1.0 / np.sqrt(after) if usable else 0.0
            for j in range(m):
                vectors[j, k] *= scale


@jit
def diagonalise(matrix, vectors, value):
    """Write all eigenvectors as columns, the largest eigenvalue first, and the eigenvalues; `matrix` is overwritten."""
    m = matrix.shape[0]
    # Number by number: numba compiles the message about arrays of other shapes for seconds.
    vectors[:] = 0.0
    for i in range(m):
        vectors[i, i] = 1.0
    for _ in range(_SWEEPS):
        largest = 0.0
        for i in range(m):
            largest = max(largest, abs(matrix[i, i]))
        rotated = False
        for p in range(m - 1):
            for q in range(p + 1, m):
                product = matrix[p, q]
                if not abs(product) > _EQUAL * largest:
                    continue
                rotated = True
                zeta = (matrix[q, q] - matrix[p, p]) / (2.0 * product)
                tangent = 1.0 / (abs(zeta) + np.sqrt(fma(zeta, zeta, 1.0)))
                if zeta < 0.0:
                    tangent = -tangent
                cosine = 1.0 / np.sqrt(fma(tangent, tangent, 1.0))
                sine = cosine * tangent
                matrix[p, p] = fma(-tangent, product, matrix[p, p])
                matrix[q, q] = fma(tangent, product, matrix[q, q])
                matrix[p, q] = matrix[q, p] = 0.0
                for j in range(m):
                    if j not in (p, q):
                        x, y = matrix[p, j], matrix[q, j]
                        matrix[p, j] = fma(cosine, x, -(sine * y))
                        matrix[q, j] = fma(sine, x, cosine * y)
                        matrix[j, p] = matrix[p, j]
                        matrix[j, q] = matrix[q, j]
                for j in range(m):
                    x, y = vectors[j, p], vectors[j, q]
                    vectors[j, p] = fma(cosine, x, -(sine * y))
                    vectors[j, q] = fma(sine, x, cosine * y)
        if not rotated:
            break
    for i in range(m):
        value[i] = matrix[i, i]
    # By insertion: equal ones keep their order.
    for i in range(1, m):
        k = i
        while k > 0 and value[k] > value[k - 1]:
            value[k], value[k - 1] = value[k - 1], value[k]
            for j in range(m):
                vectors[j, k], vectors[j, k - 1] = vectors[j, k - 1], vectors[j, k]
            k -= 1


@jit
def _degree(first, last):
    """Return the degree of the filter that damps the eigenvalues from 0 to `last`."""
    x = 2.0 * first / last - 1.0
    before, now = 1.0, x
    degree = 1
    while degree < _DEGREE:
        before, now = now, 2.0 * x * now - before
        if not now < _LARGEST_GROWTH:
            break
        degree += 1
    return degree


@jit
def _start(matrix, vectors):
    """Write numbers without a pattern to `vectors`, always the same, and what the matrix makes of them."""
    m, b = vectors.shape
    seed = np.uint64(1)
    for j in range(m):
        for k in range(b):
            seed = seed * np.uint64(6364136223846793005) + np.uint64(1442695040888963407)
            vectors[j, k] = float(seed >> np.uint64(40)) / 8388608.0 - 1.0
    raised = np.empty((m, b))
    multiply(matrix, vectors, raised)
    return raised


@jit
def leading_eigenvectors(matrix, wanted):
    """Return the eigenvectors of the `wanted` largest eigenvalues of a matrix without negative ones, and these.

    The vectors are columns, that of the largest eigenvalue first; 0 where there is none but 0. A matrix of fewer rows
    has as many as it has rows.
    """
    m = matrix.shape[0]
    kept = min(m, wanted)
    block = min(m, wanted + _SPARE)
    if m <= 2 * block:
        vectors, value = np.empty((m, m)), np.empty(m)
        diagonalise(matrix.copy(), vectors, value)
        return vectors[:, :kept].copy(), value[:kept].copy()
    vectors, raised = np.empty((m, block)), np.empty((m, block))
    next_, small = np.empty((m, block)), np.empty((block, block))
    turn, value = np.empty((block, block)), np.empty(block)
    vectors = _start(matrix, vectors)
    for round_ in range(_ROUNDS):
        orthonormalise(vectors)
        multiply(matrix, vectors, next_)
        multiply(np.ascontiguousarray(vectors.T), next_, small)
        for i in range(block):
            for k in range(i):
                mean = (small[i, k] + small[k, i]) / 2.0
                small[i, k] = small[k, i] = mean
        diagonalise(small, turn, value)
        multiply(vectors, turn, raised)
        vectors, raised = raised, vectors
        # The span holds everything but rounding errors, or this was the last round.
        if round_ == _ROUNDS - 1 or not value[block - 1] > _NOTHING * value[0]:
            break
        multiply(next_, turn, raised)
        # Chebyshev polynomials of (2 / last) matrix - 1, which maps [0, last] to [-1, 1].
        twice = 2.0 / value[block - 1]
        for j in range(m):
            for k in range(block):
                raised[j, k] = fma(twice, raised[j, k], -vectors[j, k])
        for _ in range(1, _degree(value[0], value[block - 1])):
            multiply(matrix, raised, next_)
            for j in range(m):
                for k in range(block):
                    next_[j, k] = fma(2.0, fma(twice, next_[j, k], -raised[j, k]), -vectors[j, k])
            vectors, raised, next_ = raised, next_, vectors
        vectors, raised = raised, vectors
    return vectors[:, :kept].copy(), value[:kept].copy()
