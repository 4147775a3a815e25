"""Principal axes of a warm-up, frozen: records of many features become a few values.

The axes are those along which the prepared columns of the warm-up vary most: eigenvectors of their covariance, or,
where columns outnumber records, of the inner products of the records, which has the same ones. What a record becomes
are its distances from the warm-up's mean along the axes, divided by one width for all, so that distances keep their
proportions.
"""

from collections.abc import Mapping
from typing import Any, Final, Self

import numpy as np
from numpy.typing import NDArray
from resonance.engine.base import MAGNITUDE, FloatArray
from resonance.engine.matrices import gram, leading_eigenvectors, multiply, orthonormalise
from resonance.engine.prepare.scaling import percentile
from resonance.engine.prepare.transform import (
    LANES,
    column_means,
    rows_to_unit_length,
    scores,
    squared_lengths,
)
from resonance.kernels.table import require

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
        what = f"axes of shape {axes.shape}, a centre of {centre.shape} and a rest of {rest.shape}"
        require(centre.shape == rest.shape == (d,) and axes.shape == (len(axes), d) and len(axes), what)
        what = f"principal axes of width {width} and length {length} that no warm-up has"
        require((np.abs(centre) <= MAGNITUDE).all() and (np.abs(axes) <= 1.0 + 1e-6).all(), what)
        require(((rest >= 0.0) & (rest < np.inf)).all() and 0.0 < width < np.inf and 0.0 <= length < np.inf, what)
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
        usable = axes.ndim == 2 and 1 <= len(axes) <= most and axes.shape[1] == columns
        require(usable, f"axes of shape {axes.shape} for {columns} columns")
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
