"""The engines with scikit-learn's conventions, records scaled as a worker scales them.

It needs the extra ``sklearn``; nothing else of the engines imports this module.
"""

from collections.abc import Mapping
from typing import Any, Self

import numpy as np
from numpy.typing import ArrayLike
from resonance.engine import ENGINES, LabelEngine, make_engine
from resonance.engine.base import Cluster, Engine, FloatArray, IntArray
from resonance.engine.errors import ParameterError
from resonance.engine.prepare import Preparation
from resonance.engine.prepare.rescaling import Settling
from sklearn.base import BaseEstimator, ClusterMixin
from sklearn.utils import Tags
from sklearn.utils.validation import check_is_fitted, validate_data


class StreamClusterer(ClusterMixin, BaseEstimator):  # type: ignore[misc]
    """An engine behind the preparation of records, as scikit-learn's users know it.

    `fit` begins anew and learns an array from its first row to its last. `partial_fit` goes on where the last call
    ended: the rows of many calls are one stream, and give the same clusters as in one call. The scale is learned from
    the first rows (`warmup_records`) and frozen; until they are there `partial_fit` only holds them.

    Parameters
    ----------
    engine : str
        A name of `ENGINES`; not one that learns from labels.
    parameters : mapping of str to object, optional
        Parameters of the engine, by the names that settings use.
    scale : {"warmup", "none"}
        ``none``: the rows are scaled already, to about [0, 1].
    warmup_records : int, optional
        Rows from which the scale is learned; by default 200, or 500 where rows are projected. `fit` does with fewer.
    missing : {"reject", "mean"} or float
        A NaN: an error; the mean of the feature in the first rows; or this number, in the units of the rows.

    Attributes
    ----------
    labels_ : ndarray of int64, shape (n,)
        Cluster of each row of the last call, as the model sees it after that call; -1 for none. Ids are stable from
        call to call.
    levels_ : ndarray of int64, shape (n, depth)
        The same on each level of a tree; `labels_` is its first column.
    cluster_ids_ : ndarray of int64, shape (k,)
        The present clusters of the first level.
    cluster_centers_ : ndarray of shape (k, d)
        Their centres, in the units of the rows.
    n_features_in_, feature_names_in_
        As everywhere in scikit-learn.

    Raises
    ------
    ParameterError
        When it is fitted: no such engine or parameter, or a value outside its range.
    ValueError
        Rows that are no finite numbers, or not of the features that were fitted.

    Examples
    --------
    >>> import numpy as np
    >>> from resonance.engine.estimator import StreamClusterer
    >>> rng = np.random.default_rng(0)
    >>> X = np.concatenate([rng.normal(place, 0.3, (500, 2)) for place in (0, 10)])
    >>> model = StreamClusterer().fit(rng.permutation(X))
    >>> len(set(model.predict([[0.0, 0.0], [0.1, 0.0], [10.0, 10.0]])))
    2
    """

    def __init__(
        self,
        engine: str = "modal",
        *,
        parameters: Mapping[str, Any] | None = None,
        scale: str = "warmup",
        warmup_records: int | None = None,
        missing: float | str = "reject",
    ) -> None:
        self.engine = engine
        self.parameters = parameters
        self.scale = scale
        self.warmup_records = warmup_records
        self.missing = missing

    def __sklearn_tags__(self) -> Tags:
        """Say of scikit-learn's tags what depends on the parameters."""
        tags = super().__sklearn_tags__()
        tags.input_tags.allow_nan = self._takes_nan
        return tags

    def fit(self, X: ArrayLike, y: object = None) -> Self:
        """Learn rows in order, forgetting everything before; `y` is ignored."""
        rows = self._rows(X, is_first=True)
        self._begin(rows.shape[1])
        return self._learn(rows, is_all=True)

    def partial_fit(self, X: ArrayLike, y: object = None) -> Self:
        """Learn the next rows of the stream; `y` is ignored."""
        is_first = not hasattr(self, "model_")
        rows = self._rows(X, is_first=is_first)
        if is_first:
            self._begin(rows.shape[1])
        return self._learn(rows, is_all=False)

    def predict(self, X: ArrayLike) -> IntArray:
        """Return the cluster of each row, without learning it; -1 for none."""
        return self.predict_levels(X)[:, 0]

    def predict_levels(self, X: ArrayLike) -> IntArray:
        """Return the cluster of each row on each level, without learning it; shape (n, depth), -1 for none."""
        check_is_fitted(self, "model_")
        return self._levels(self._rows(X, is_first=False))

    @property
    def cluster_ids_(self) -> IntArray:
        """The present clusters of the first level."""
        return np.array([cluster.id for cluster in self._clusters()], np.int64)

    @property
    def cluster_centers_(self) -> FloatArray:
        """Centres of the present clusters of the first level, in the units of the rows."""
        centres = [self.preparation_.describe(cluster).centre for cluster in self._clusters()]
        return np.array(centres, np.float64).reshape(-1, self.n_features_in_)

    def _clusters(self) -> list[Cluster]:
        check_is_fitted(self, "model_")
        return [cluster for cluster in self.model_.clusters() if not cluster.path]

    @property
    def _takes_nan(self) -> bool:
        return self.missing != "reject"

    def _rows(self, X: ArrayLike, *, is_first: bool) -> FloatArray:
        """Return rows as the preparation takes them; the first ones say which features there are."""
        rows: FloatArray = validate_data(self, X, dtype=np.float64, reset=is_first, ensure_all_finite="allow-nan")
        if not self._takes_nan and len(at := np.argwhere(np.isnan(rows))):
            row, column = at[0].tolist()
            raise ValueError(
                f"Input X contains NaN in {len(np.unique(at[:, 0])):,} of {len(rows):,} rows, first in row {row}, "
                f'column {column}: set missing to "mean" or to a number, or leave these rows out'
            )
        return rows

    def _begin(self, features: int) -> None:
        model = make_engine(self.engine, self.parameters or {})
        if isinstance(model, LabelEngine):
            names = ", ".join(name for name, one in ENGINES.items() if not issubclass(one, LabelEngine))
            raise ParameterError("engine", self.engine, f"one that learns without labels: {names}")
        decides = self.scale == "warmup"
        self.preparation_ = Preparation(
            [f"x{number}" for number in range(features)],
            scale=self.scale,
            warmup_records=self.warmup_records,
            missing=self.missing,
            clip=model.unit_interval,
            project="auto" if decides and model.projects else 0,
            robust=decides and model.robust,
            rescale=decides and model.rescales,
        )
        self.model_: Engine = model

    def _learn(self, rows: FloatArray, *, is_all: bool) -> Self:
        preparation, at = self.preparation_, 0
        if not preparation.ready:
            at = min(preparation.wanted, len(rows))
            preparation.hold(rows[:at])
            if is_all or not preparation.wanted:
                self.model_.learn(preparation.freeze())
        while at < len(rows):
            end = len(rows) if preparation.room is None else min(at + preparation.room, len(rows))
            self.model_.learn(preparation.apply(rows[at:end]))
            at = end
            if isinstance(change := preparation.rescale(), Settling):
                self.model_.move(change.before, change.after)
            elif change:
                self.model_.rescale(change.factor, change.shift)
        self.levels_ = self._levels(rows)
        self.labels_ = self.levels_[:, 0]
        return self

    def _levels(self, rows: FloatArray) -> IntArray:
        if not self.preparation_.ready:
            return np.full((len(rows), self.model_.depth), -1, np.int64)
        return self.model_.predict(self.preparation_.transform(rows)).cluster
