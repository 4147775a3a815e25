"""Principal axes of a warm-up, frozen: records of many features become a few values.

Eigenvectors of a large symmetric matrix: block iteration with a Chebyshev filter [1]_: a few vectors more than are
wanted are multiplied with a polynomial of the matrix that is small on the unwanted eigenvalues, made orthonormal, and
turned into the best approximations that their span has (Rayleigh-Ritz). Start, number of steps and order of all sums
are fixed. A small matrix is diagonalised whole, by Jacobi rotations [2]_.

The axes are those along which the prepared columns of the warm-up vary most: eigenvectors of their covariance, or,
where columns outnumber records, of the inner products of the records, which has the same ones. What a record becomes
are its distances from the warm-up's mean along the axes, divided by one width for all, so that distances keep their
proportions.

References
----------
.. [1] Y. Zhou, Y. Saad, M. L. Tiago, J. R. Chelikowsky, "Self-consistent-field calculations using Chebyshev-filtered
   subspace iteration", Journal of Computational Physics 219, 2006, pp. 172-184, Algorithms 3.1 and 3.2.
.. [2] G. H. Golub, C. F. Van Loan, "Matrix Computations", 4th edition, section 8.5.
"""

from collections.abc import Mapping
from typing import Any, Final, Self

import numpy as np
from numpy.typing import NDArray
from resonance.engine.base import MAGNITUDE, FloatArray
from resonance.engine.prepare.scaling import percentile
from resonance.engine.prepare.transform import (
    LANES,
    column_means,
    rows_to_unit_length,
    scores,
    squared_lengths,
)
from resonance.kernels.arithmetic import fma, jit

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
def gram(rows, out):
    """Write the inner products of the columns of `rows` to `out`: for each, one sum from the first row to the last."""
    count, m = rows.shape
    for i in range(m):
        for j in range(m):
            out[i, j] = 0.0
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
        for k in range(b):
            own[k] = 0.0
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
    for i in range(m):
        for j in range(m):
            vectors[i, j] = 1.0 if i == j else 0.0
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
    """Return the eigenvectors of the largest eigenvalues of a matrix without negative ones.

    Parameters
    ----------
    matrix : ndarray of shape (m, m)
        Symmetric, positive semidefinite.
    wanted : int
        How many.

    Returns
    -------
    vectors : ndarray of shape (m, k), k = min(m, wanted)
        As columns, the largest eigenvalue first; 0 where there is none but 0.
    values : ndarray of shape (k,)
        The eigenvalues.
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


MAX_AXES: Final = 64

MIDDLE: Final = 0.5
"""What the warm-up's mean becomes on every axis: about the middle of [0, 1]."""

_MAX_RECORDS: Final = 1000
"""Records, evenly from the whole warm-up, that the axes are of: more change them little and cost with their square."""
_NEGLIGIBLE: Final = 1e-10
"""Variance along an axis, as a share of the first axis', that is nothing but rounding."""
_LOWEST, _HIGHEST = -0.5, 1.5
"""Scaled values beyond are moved here for the axes, which would otherwise point at the outliers."""
_SAME_LENGTH: Final = 1e-3
_OTHERS: Final = 100
"""One record in so many may have another length: a text that could not be embedded has none."""
_MIN_VARIANCE: Final = 1e-2
"""Mean squared distance from the mean, as a share of the squared length: less, and one large value makes the length."""


class PrincipalAxes:
    """Orthonormal axes through the mean of a warm-up.

    Parameters
    ----------
    centre : ndarray of shape (d,)
        Mean of the prepared columns.
    axes : ndarray of shape (k, d)
        Orthonormal rows, the one with the largest variance first; of each the component of largest modulus is positive.
    rest : ndarray of shape (d,)
        Variance of each column that the axes leave out.
    width : float
        What the distances along all axes are divided by: the 1st to the 99th percentile along the first one.
    length : float
        Length that the warm-up's records have in common: each is divided by its own then. 0 for none.

    Raises
    ------
    ValueError
        Arrays that do not belong together, or numbers that no warm-up gives.
    """

    def __init__(self, centre: FloatArray, axes: FloatArray, rest: FloatArray, width: float, length: float) -> None:
        d = len(centre)
        if centre.shape != (d,) or rest.shape != (d,) or axes.shape != (len(axes), d) or not len(axes):
            raise ValueError(f"axes of shape {axes.shape}, a centre of {centre.shape} and a rest of {rest.shape}")
        usable = (
            (np.abs(centre) <= MAGNITUDE).all()
            and (np.abs(axes) <= 1.0 + 1e-6).all()
            and ((rest >= 0.0) & (rest < np.inf)).all()
        )
        if not usable or not 0.0 < width < np.inf or not 0.0 <= length < np.inf:
            raise ValueError(f"principal axes of width {width} and length {length} that no warm-up has")
        self.centre = centre
        self.axes = axes
        self.rest = rest
        self.width = width
        self.length = length
        self.lanes = np.zeros((d, -(-len(axes) // LANES) * LANES))
        """Axes over `width`, one a column, with columns of 0 behind."""
        self.lanes[:, : len(axes)] = axes.T / width

    @classmethod
    def of(cls, rows: FloatArray, most: int, *, scaled: bool, length: float = 0.0) -> Self:
        """Learn the axes of a warm-up.

        Parameters
        ----------
        rows : ndarray of shape (n, d), n >= 1
            Its prepared columns.
        most : int
            Axes, at most; fewer where the rows vary along fewer.
        scaled : bool
            The columns lie about [0, 1]: what is far outside counts less.
        length : float
            As `common_length` returns it.
        """
        if length:
            rows = rows.copy()
            rows_to_unit_length(rows)
        taken = min(len(rows), _MAX_RECORDS)
        some = rows[np.arange(taken) * len(rows) // taken]
        if scaled and not length:
            some = np.clip(some, _LOWEST, _HIGHEST)
        centre: FloatArray = column_means(some)
        around = some - centre
        # Any magnitude can then be squared.
        largest = float(np.abs(around).max())
        around /= largest or 1.0
        axes, values = _axes(around, most)
        if not len(axes):
            # No record differs from another: the mean of the columns is as good as any direction.
            axes, values = np.full((1, len(centre)), 1.0 / np.sqrt(float(len(centre)))), np.zeros(1)
        found = cls(centre, axes, _rest(around, axes, values) * largest * largest, 1.0, length)
        along = np.empty((len(rows), len(axes)))
        scores(rows, found.centre, found.lanes, along)
        return cls(centre, axes, found.rest, _width(along), length)

    @classmethod
    def unknown(cls, axes: int, columns: int) -> Self:
        """Return what stands in the place of axes that are still to be learned."""
        return cls(np.zeros(columns), np.zeros((axes, columns)), np.zeros(columns), 1.0, 0.0)

    def __len__(self) -> int:
        return len(self.axes)

    def to_columns(self, centre: FloatArray, spread: FloatArray) -> tuple[FloatArray, FloatArray]:
        """Return mean and standard deviation of the prepared columns of records that have these along the axes.

        The variance that the warm-up had beside the axes is added to theirs.
        """
        d = len(self.centre)
        middle, square = np.empty((1, d)), np.empty((1, d))
        multiply(((centre - MIDDLE) * self.width)[None], self.axes, middle)
        wide = spread * self.width
        multiply((wide * wide)[None], self.axes * self.axes, square)
        factor = self.length or 1.0
        return (middle[0] + self.centre) * factor, np.sqrt(square[0] + self.rest) * factor

    def arrays(self) -> dict[str, NDArray[Any]]:
        """Return everything as a state holds it."""
        scale = np.array([self.width, self.length])
        return {"axes": self.axes, "axes_centre": self.centre, "axes_rest": self.rest, "axes_scale": scale}

    @classmethod
    def from_arrays(cls, arrays: Mapping[str, NDArray[Any]], most: int, columns: int) -> Self:
        """Continue from `arrays`; ValueError or KeyError where they are not those of so many axes and columns."""
        axes, (width, length) = arrays["axes"], arrays["axes_scale"].tolist()
        if axes.ndim != 2 or not 1 <= len(axes) <= most or axes.shape[1] != columns:
            raise ValueError(f"axes of shape {axes.shape} for {columns} columns")
        return cls(arrays["axes_centre"], axes, arrays["axes_rest"], width, length)


def common_length(rows: FloatArray) -> float:
    """Return the Euclidean length that the records of a warm-up have in common, as embeddings do; 0 for none."""
    length = np.sqrt(squared_lengths(rows, np.zeros(rows.shape[1])))
    middle = float(np.sort(length)[len(length) // 2])
    others = np.count_nonzero(~(np.abs(length - middle) <= _SAME_LENGTH * middle))
    if not middle > 0.0 or others * _OTHERS > len(length):
        return 0.0
    variance = float(column_means(squared_lengths(rows, column_means(rows))[:, None])[0])
    return middle if variance > _MIN_VARIANCE * middle * middle else 0.0


def _axes(around: FloatArray, most: int) -> tuple[FloatArray, FloatArray]:
    """Return the axes of rows around their mean, those along which they vary, and the sums of squares along them."""
    n, d = around.shape
    turned = np.ascontiguousarray(around.T)
    products = np.empty((min(n, d), min(n, d)))
    gram(turned if n < d else around, products)
    vectors, values = leading_eigenvectors(products, most)
    rank = int(np.count_nonzero(values > max(_NEGLIGIBLE * float(values[0]), 0.0)))
    found = np.ascontiguousarray(vectors[:, :rank])
    if n < d:
        found = np.empty((d, rank))
        multiply(turned, np.ascontiguousarray(vectors[:, :rank]), found)
    orthonormalise(found)
    axes = np.ascontiguousarray(found.T)
    for k, largest in enumerate(np.argmax(np.abs(axes), axis=1).tolist()):
        if axes[k, largest] < 0.0:
            axes[k] *= -1.0
    return axes, values[:rank]


def _rest(around: FloatArray, axes: FloatArray, values: FloatArray) -> FloatArray:
    """Return the variance of each column beside the axes."""
    explained = np.empty((1, around.shape[1]))
    multiply((values / len(around))[None], axes * axes, explained)
    rest: FloatArray = np.maximum(column_means(around * around) - explained[0], 0.0)
    return rest


def _width(along: FloatArray) -> float:
    """Return the width of the first axis, with which no record of the warm-up goes beyond the engines' numbers."""
    ordered = np.sort(along[:, 0] + 0.0)
    farthest = float(np.abs(along).max())
    width = percentile(ordered, 99) - percentile(ordered, 1)
    return max(width if width > 0.0 else farthest or 1.0, farthest / (MAGNITUDE / 2.0))
