"""The records as an engine sees them, from which silhouette and k-means are computed."""

from typing import Final

import numpy as np
from numpy.typing import NDArray
from resonance.engine.prepare import Preparation
from resonance.engine.prepare.sparse import SparsePreparation, SparseRows
from resonance.pipeline.config.settings import Settings
from resonance.pipeline.evaluate.dataset import Dataset
from scipy.sparse import block_diag, csr_array
from sklearn.decomposition import TruncatedSVD
from sklearn.preprocessing import normalize

AXES: Final = 50
"""Axes on which sparse records of more features are seen."""

FITTED: Final = 20_000
"""Most records from which these axes are found."""

_NO_LIMIT: Final = 2**63 - 1


def prepared(data: Dataset, settings: Settings) -> NDArray[np.float64] | None:
    """Return the prepared features of each record, NaN where it is not usable; None where no record is.

    Dense records have the scale of an engine that learned it from the first ones. Sparse records have length 1, and
    places on a few axes.
    """
    if data.sparse is not None:
        return _of_sparse(data.sparse, settings)
    if not data.features:
        return None
    preparation: Preparation = settings.preparation(data.features)
    bad = preparation.check(data.rows)
    usable = np.array([place for place in range(len(data)) if place not in bad], dtype=np.int64)
    if not len(usable):
        return None
    if not preparation.ready:
        preparation.hold(data.rows[usable[: preparation.wanted]])
        preparation.freeze()
        if preparation.settling:
            preparation.apply(data.rows[usable[preparation.held : preparation.warmup_records]])
            preparation.rescale()
    return _placed(len(data), usable, preparation.transform(data.rows[usable]))


def _of_sparse(rows: SparseRows, settings: Settings) -> NDArray[np.float64] | None:
    places, parts = [], []
    for by_index in (False, True):
        chosen = np.flatnonzero((rows.by_index == by_index) & (np.diff(rows.indptr) > 0))
        preparation = SparsePreparation(settings.sparse_scale(), _NO_LIMIT)
        bad = list(preparation.check(rows[chosen]))
        chosen = np.delete(chosen, bad)
        if len(chosen):
            batch = preparation.apply(rows[chosen])
            # Indices may be far apart.
            used, columns = np.unique(batch.indices, return_inverse=True)
            places.append(chosen)
            parts.append(csr_array((batch.data, columns, batch.indptr), shape=(len(chosen), len(used))))
    if not parts:
        return None
    # Features of the two forms have nothing in common.
    matrix = normalize(block_diag(parts, format="csr"))
    if matrix.shape[1] <= AXES:
        return _placed(len(rows), np.concatenate(places), matrix.toarray())
    axes = TruncatedSVD(min(AXES, matrix.shape[0]), random_state=0)
    axes.fit(matrix[:: -(-matrix.shape[0] // FITTED)])
    return _placed(len(rows), np.concatenate(places), axes.transform(matrix))


def _placed(size: int, places: NDArray[np.int64], found: NDArray[np.float64]) -> NDArray[np.float64]:
    """Return a row for each record: those found at their places, and NaN elsewhere."""
    rows = np.full((size, found.shape[1]), np.nan)
    rows[places] = found
    return rows
