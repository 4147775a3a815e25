"""What Fuzzy ART and SA-ART share: batches in, answers, events and clusters out, and the state."""

from collections.abc import Mapping, Sequence
from typing import Any, ClassVar, Self

import numpy as np
from numba import types
from numba.typed import List
from numpy.typing import ArrayLike, NDArray
from resonance.engine.base import (
    Cluster,
    Event,
    FloatArray,
    IntArray,
    Prediction,
    Reason,
    Salience,
    Step,
    check_batch,
)
from resonance.engine.classes import MAX_CLASSES, majority_label, record_labels
from resonance.engine.errors import ParameterError, RecordError, StateError
from resonance.engine.facts import ModelFacts, Path
from resonance.engine.parameters import Parameter
from resonance.engine.sa_art import batch as kernels
from resonance.engine.sa_art import layout
from resonance.engine.sa_art.batch import compressed, described, learn_batch, predict_batch
from resonance.engine.sa_art.category_state import packed, unpacked
from resonance.engine.sa_art.layout import Rules, more_slots, new_categories, new_lists, resized
from resonance.engine.shell import filled_by_kernels, no_answers, no_prediction
from resonance.engine.sparse import SLACK, SparseBatch, SparseEngine, check_sparse, outside
from resonance.engine.state import pack, unpack

MAX_SALIENT = 10
"""Features that the description of a cluster names as its most salient."""

SHARED = (
    Parameter("alpha", float, 0.01, "choice parameter: how far small categories go first", 0, 1, open_low=True),
    Parameter(
        "max_clusters", int, 500, "clusters of one model; beyond it the one that won longest ago goes", 1, 65_536
    ),
    Parameter("max_features", int, 10_000, "features that records may have", 1, 1_000_000),
)


class AdaptiveResonance(SparseEngine):
    """Categories of records in [0, 1], each founded by a record that none of the others matched."""

    unit_interval: ClassVar[bool] = True
    projects: ClassVar[bool] = False

    def __init__(self, **given: Any) -> None:
        super().__init__(**given)
        self._fixed: bool | None = None
        self._dimension = 0

    def _rules(self) -> Rules:
        """Return the parameters as the kernels see them."""
        raise NotImplementedError

    @property
    def dimension(self) -> int:  # type: ignore[override]
        """Features of a record; of open records, those that have come so far."""
        return self._dimension if self._fixed is not False else int(self._categories.head[layout.D])

    def _begin(self, fixed: bool, dimension: int) -> None:
        """Take the kind of the first batch: records of `dimension` features, or open ones."""
        self._fixed, self._dimension = fixed, dimension
        self._kernel_rules = self._rules()._replace(fixed=fixed)
        self._categories = new_categories(self._kernel_rules, layout.FEWEST_SLOTS, layout.FEWEST_ROWS, 0)
        self._categories.head[layout.D] = dimension
        self._features, self._fields = new_lists()
        self._log = List.empty_list(types.float64[::1])

    def _canonical(self, X: ArrayLike | SparseBatch) -> tuple[SparseBatch, bool, int]:
        """Return a batch as the kernels take it, whether its records are of fixed length, and that length."""
        length = self._dimension if self._fixed else 0
        most: int = self._given["max_features"]
        if isinstance(X, SparseBatch):
            batch = check_sparse(X, length, most, unit_interval=True)
            return batch, batch.dimension is not None, batch.dimension or 0
        dense = check_batch(X, length)
        if dense.shape[1] > most:
            raise RecordError(0, f"{dense.shape[1]:,} features, more than max_features = {most:,}")
        if dense.size and (dense.min() < -SLACK or dense.max() > 1.0 + SLACK):
            record, feature = np.argwhere((dense < -SLACK) | (dense > 1.0 + SLACK))[0]
            raise RecordError(int(record), outside(int(feature), float(dense[record, feature])))
        return SparseBatch(*compressed(dense)), True, dense.shape[1]

    def learn(  # noqa: D102
        self, X: ArrayLike | SparseBatch, labels: Sequence[int] | NDArray[np.int64] | None = None
    ) -> Step:
        batch, fixed, dimension = self._canonical(X)
        count = len(batch)
        marks = record_labels(labels, count)
        step = no_answers(count)
        if count == 0:
            return step
        if self._fixed is None:
            self._begin(fixed, dimension)
        classes = int(marks.max()) + 1
        if classes > self._categories.labels.shape[1]:
            self._resize(classes=classes)
        start = 0
        while True:
            start = learn_batch(
                self._categories, self._features, self._fields, self._kernel_rules, batch.indices, batch.indptr,
                batch.data, marks, start, self._log, *filled_by_kernels(step),
            )  # fmt: skip
            if start == count:
                break
            # The kernel has stopped before a record for which there is no room.
            end = int(batch.indptr[start + 1])
            self._resize(rows=int(batch.indices[end - 1]) + 1 if end > batch.indptr[start] else 0)
        step.events.extend(self._event(row) for row in self._log)
        self._log.clear()
        return step

    def _resize(self, rows: int = 0, classes: int = 0) -> None:
        """Make room for another category, and for so many features and classes."""
        old_rows, slots = self._categories.w.shape
        if self._categories.head[layout.K] == slots:
            slots = more_slots(slots)
        new_rows = old_rows
        while new_rows < rows:
            new_rows *= 2
        classes = max(classes, self._categories.labels.shape[1])
        self._categories = resized(self._categories, self._kernel_rules, slots, new_rows, classes)

    def predict(self, X: ArrayLike | SparseBatch) -> Prediction:  # noqa: D102
        batch, _, _ = self._canonical(X)
        answer = no_prediction(len(batch))
        if self._fixed is not None and len(batch):
            known = self._categories.labels[: self._categories.head[layout.K]]
            majority = np.array([majority_label(counts) for counts in known], dtype=np.int64)
            predict_batch(
                self._categories, self._kernel_rules, majority, batch.indices, batch.indptr, batch.data,
                answer.cluster, answer.score, answer.label,
            )  # fmt: skip
        return answer

    def clusters(self) -> list[Cluster]:  # noqa: D102
        if self._fixed is None:
            return []
        categories = self._categories
        found = [
            self._cluster(
                int(categories.id[slot]),
                int(categories.size[slot]),
                described(categories, self._kernel_rules, slot, self._features[slot], self._fields[slot]),
            )
            for slot in range(categories.head[layout.K])
        ]
        return sorted(found, key=lambda cluster: cluster.id)

    def models(self) -> dict[Path, ModelFacts]:
        """Return how many records were learned; since when a cluster is there is not kept."""
        if self._fixed is None:
            return {}
        ids = self._categories.id[: self._categories.head[layout.K]].tolist()
        return {(): ModelFacts((), int(self._categories.head[layout.N]), {}, {each: each for each in ids})}

    def _cluster(self, number: int, size: int, rows: FloatArray) -> Cluster:
        """Return the cluster that rows of features, centres, spreads, weights and saliences describe."""
        features = rows[0].astype(np.int64)
        salient: tuple[Salience, ...] = ()
        if self._kernel_rules.salient:
            first = np.lexsort((features, -rows[3] * rows[4]))[:MAX_SALIENT]
            salient = tuple(Salience(int(features[k]), float(rows[4, k]), float(rows[3, k])) for k in first)
        if not self._fixed:
            return Cluster(number, (), size, 1, rows[1].copy(), rows[2].copy(), features, salient)
        centre, spread = np.zeros(self._dimension), np.zeros(self._dimension)
        centre[features], spread[features] = rows[1], rows[2]
        return Cluster(number, (), size, 1, centre, spread, None, salient)

    def _event(self, row: FloatArray) -> Event:
        """Return the event that a row describes."""
        rows = row[kernels.E_HEAD :].reshape(kernels.DESCRIBED, int(row[kernels.E_FEATURES]))
        cluster = self._cluster(int(row[kernels.E_CLUSTER]), int(row[kernels.E_SIZE]), rows)
        emerged = row[kernels.E_KIND] == kernels.EMERGED
        return Event(
            index=int(row[kernels.E_RECORD]),
            kind="emerged" if emerged else "vanished",
            path=(),
            number=int(row[kernels.E_NUMBER]),
            cluster=cluster.id,
            other=None,
            before=() if emerged else (cluster,),
            after=(cluster,) if emerged else (),
            reason=Reason("match", float(row[kernels.E_VALUE]), float(row[kernels.E_THRESHOLD]))
            if row[kernels.E_REASON]
            else None,
        )

    def state(self) -> bytes:  # noqa: D102
        header: dict[str, Any] = {"parameters": self._given, "fixed": self._fixed, "dimension": self.dimension}
        if self._fixed is None:
            return pack(self.name, self.revision, header, {})
        header["classes"] = self._categories.labels.shape[1]
        arrays = packed(self._categories, self._features, self._fields, self._kernel_rules)
        return pack(self.name, self.revision, header, arrays)

    @classmethod
    def from_state(cls, data: bytes) -> Self:  # noqa: D102
        header, arrays = unpack(data, cls.name, cls.revision)
        try:
            model = cls.make(dict(header["parameters"]))
        except (KeyError, TypeError, ValueError, ParameterError) as error:
            raise StateError(f"the state of {cls.name} cannot be read: {error}") from error
        fixed = header.get("fixed")
        if fixed is None:
            return model
        dimension = _whole(header, "dimension", model._given["max_features"], cls.name)
        classes = _whole(header, "classes", MAX_CLASSES, cls.name)
        if type(fixed) is not bool or (fixed and dimension == 0):
            raise StateError(f"the state of {cls.name} cannot be read: {dimension} features, fixed = {fixed!r}")
        model._begin(fixed, dimension)
        model._categories, model._features, model._fields = unpacked(
            arrays, model._kernel_rules, dimension, classes, cls.name
        )
        return model

    @classmethod
    def learns_zeros(cls, parameters: Mapping[str, Any]) -> bool:  # noqa: D102
        return bool(parameters["complement"])

    @classmethod
    def compile(cls) -> None:
        """Compile every kernel, or load it from the cache, before the first record comes."""
        model = cls.make({})
        model.learn(np.array([[0.0, 1.0], [1.0, 0.0], [1.0, 0.5]]), labels=[0, 1, 0])
        model.predict(np.zeros((1, 2)))
        model.clusters()
        cls.from_state(model.state())

    @property
    def categories(self) -> dict[str, NDArray[Any]]:
        """The present categories, by id.

        Returns
        -------
        dict
            ``id``, ``size``, ``rho``, ``labels`` (K, classes), and ``weight`` (K, d), with complement coding
            (K, 2d) with those of 1 - x in the second half.
        """
        if self._fixed is None:
            raise StateError("there are no categories before the first record")
        order = np.argsort(self._categories.id[: self._categories.head[layout.K]])
        columns = {"id": self._categories.id, "size": self._categories.size, "rho": self._categories.rho}
        found: dict[str, NDArray[Any]] = {name: column[order] for name, column in columns.items()}
        found["labels"] = self._categories.labels[order]
        found["weight"] = self._by_feature(order, layout.W, 0.0)
        if self._kernel_rules.complement:
            found["weight"] = np.concatenate([found["weight"], self._by_feature(order, layout.CW, 1.0)], axis=1)
        return found

    def _by_feature(self, order: IntArray, field: int, absent: float) -> FloatArray:
        """Return a field of the categories in some order of slots as a matrix (K, d)."""
        matrix = np.full((len(order), self.dimension), absent)
        for row, slot in zip(matrix, order.tolist(), strict=True):
            count = self._categories.used[slot]
            row[self._features[slot][:count]] = self._fields[slot][field, :count]
        return matrix


def _whole(header: Mapping[str, Any], key: str, most: int, name: str) -> int:
    """Return a member of a state's header that is an integer from 0 to `most`."""
    value = header.get(key)
    if type(value) is not int or not 0 <= value <= most:
        raise StateError(f"the state of {name} cannot be read: {key} = {value!r}")
    return value
