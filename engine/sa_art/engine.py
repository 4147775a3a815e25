"""Fuzzy ART, and SA-ART, which weighs features by their salience, for sparse data."""

from collections.abc import Iterator, Mapping
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray
from resonance.engine.base import (
    Cluster,
    FloatArray,
    IntArray,
    ModelFacts,
    Path,
    Prediction,
    Salience,
    Step,
    check_batch,
)
from resonance.engine.errors import ParameterError, RecordError
from resonance.engine.labels import MAX_CLASSES, majority_labels, room_for_classes
from resonance.engine.parameters import Parameter, filled
from resonance.engine.sa_art import layout
from resonance.engine.sa_art.layout import Categories, Lists, Rules, new_lists, rows_for, spread_out, weigh
from resonance.engine.sa_art.learn import CRITERIA, DESCRIBED, compressed, described, learn_batch, predict_batch
from resonance.engine.shell import SingleModelEngine, arrays_of
from resonance.engine.sparse import SLACK, SparseBatch, SparseEngine, check_sparse, outside
from resonance.kernels import table
from resonance.kernels.lists import append, entry
from resonance.kernels.table import ROUNDING, checked, more_slots, packed, require, resized, room_for

MAX_SALIENT = 10
"""Features that the description of a cluster names as its most salient."""

SHARED = (
    Parameter("alpha", float, 0.01, "choice parameter: how far small categories go first", 0, 1, open_low=True),
    Parameter("max_clusters", int, 500, "most clusters; beyond it the longest idle one goes", 1, 65_536),
    Parameter("max_features", int, 10_000, "most features", 1, 1_000_000),
)


MOST_CELLS = 2**29
"""Features times clusters to which a model grows: each of its two to four matrices takes 4 GiB then."""


class AdaptiveResonance(SingleModelEngine, SparseEngine):
    """Categories of records in [0, 1], each founded by a record that none of the others matched."""

    unit_interval: ClassVar[bool] = True
    projects: ClassVar[bool] = False
    criteria = CRITERIA
    untouched: ClassVar[Mapping[str, Any]] = {"fixed": None}

    def __init__(self, **given: Any) -> None:
        super().__init__(**given)
        self.fixed = None
        self._dimension = 0

    def _rules(self) -> Rules:
        """Return the parameters as the kernels see them."""
        raise NotImplementedError

    @property
    def dimension(self) -> int:  # type: ignore[override]
        """Features of a record; of open records, those that have come so far."""
        return self._dimension if self.fixed is not False else self._categories.features

    @property
    def _begun(self) -> bool:
        return self.fixed is not None

    def _begin_with(self, batch: SparseBatch) -> None:
        self.fixed = batch.dimension is not None
        self._begin(batch.dimension or 0)

    def _begin(
        self, dimension: int, slots: int = layout.FEWEST_SLOTS, rows: int = layout.FEWEST_ROWS, classes: int = 0
    ) -> None:
        self._dimension = dimension
        self._kernel_rules = self._rules()._replace(fixed=self.fixed is True)
        self._categories = table.new(Categories, slots=slots, classes=classes, **rows_for(self._kernel_rules, rows))
        self._categories.features = dimension
        self._classes = classes
        self._features, self._fields = new_lists()

    def _checked(self, X: Any, most: int | None = None) -> SparseBatch:
        """Return a batch as the kernels take it, or raise `RecordError`."""
        length = self._dimension if self.fixed else 0
        most = self._given["max_features"]
        if isinstance(X, SparseBatch):
            return check_sparse(X, length, most)
        dense = check_batch(X, length)
        if dense.shape[1] > most:
            raise RecordError(0, f"{dense.shape[1]:,} features, more than max_features = {most:,}")
        if dense.size and (dense.min() < -SLACK or dense.max() > 1.0 + SLACK):
            record, feature = np.argwhere((dense < -SLACK) | (dense > 1.0 + SLACK))[0]
            raise RecordError(int(record), outside(int(feature), float(dense[record, feature])))
        indices, indptr, data = compressed(dense)
        return SparseBatch(indices, indptr, data, dense.shape[1])

    def _learn(self, batch: SparseBatch, labels: IntArray, step: Step) -> None:
        room = room_for_classes(self._categories.labels.shape[1], self._classes)
        self._categories = resized(self._categories, classes=room)
        start, rest = 0, (batch.indices, batch.indptr, batch.data, labels)
        while True:
            lists = self._features, self._fields, self._kernel_rules
            start = learn_batch(self._categories, *lists, *rest, start, self._log, *arrays_of(step))
            if start == len(batch):
                return
            # The kernel has stopped before a record for which there is no room.
            end = int(batch.indptr[start + 1])
            self._resize(int(batch.indices[end - 1]) + 1 if end > batch.indptr[start] else 0)

    def _resize(self, rows: int) -> None:
        """Make room for another category, and for so many features."""
        now, slots = self._categories.w.shape
        count, most = self._categories.count, self._given["max_clusters"]
        full = count == slots
        features = max(rows, self.dimension)
        if features * min(count + 1, most) > MOST_CELLS:
            allowed = f"at most {MOST_CELLS // features:,} with {features:,} features, or max_features smaller"
            raise ParameterError("max_clusters", most, f"{allowed}: each pair of both takes memory")
        sizes = rows_for(self._kernel_rules, room_for(rows, now))
        self._categories = resized(self._categories, slots=more_slots(slots) if full else slots, **sizes)

    def _predict(self, batch: SparseBatch, answer: Prediction) -> None:
        majority = majority_labels(self._categories.labels, self._categories.count)
        parts = batch.indices, batch.indptr, batch.data, answer.cluster, answer.score, answer.novel, answer.label
        predict_batch(self._categories, self._kernel_rules, majority, *parts)

    def _shapes(self) -> Iterator[FloatArray]:
        for slot in np.argsort(self._categories.id[: self._categories.count]):
            lists = entry(self._features, slot), entry(self._fields, slot)
            yield described(self._categories, self._kernel_rules, slot, *lists)[0]

    def _cluster(self, row: FloatArray, path: Path = ()) -> Cluster:
        rows = row[2:].reshape(DESCRIBED, -1)
        features = rows[0].astype(np.int64)
        salient: tuple[Salience, ...] = ()
        if self._kernel_rules.salient:
            first = np.lexsort((features, -rows[3] * rows[4]))[:MAX_SALIENT]
            salient = tuple(Salience(int(features[k]), float(rows[4, k]), float(rows[3, k])) for k in first)
        if not self.fixed:
            return Cluster(int(row[0]), path, int(row[1]), 1, rows[1].copy(), rows[2].copy(), features, salient)
        centre, spread = np.zeros(self._dimension), np.zeros(self._dimension)
        centre[features], spread[features] = rows[1], rows[2]
        return Cluster(int(row[0]), path, int(row[1]), 1, centre, spread, None, salient)

    def _facts(self) -> ModelFacts:
        """Return how many records were learned; since when a cluster is there is not kept."""
        ids = self._categories.id[: self._categories.count].tolist()
        return ModelFacts((), self._categories.learned, {}, {each: each for each in ids})

    def _header(self) -> dict[str, Any]:
        return {"fixed": self.fixed, "classes": self._classes}

    def _kept(self) -> list[int]:
        """Return the fields of a list that do not follow from others."""
        rules = self._kernel_rules
        statistics = [layout.MEAN, layout.SQUARES, layout.COUNT] if rules.salient else []
        complement = [layout.CW, layout.ONES][: 2 if rules.salient else 1] if rules.complement else []
        return [layout.W, *statistics, *complement]

    def _packed(self) -> dict[str, NDArray[Any]]:
        kept, categories = self._kept(), self._categories
        order = np.argsort(categories.id[: categories.count])
        lists = [(entry(self._features, at)[: categories.used[at]], entry(self._fields, at)) for at in order]
        names = [np.empty(0, np.int64), *(features for features, _ in lists)]
        entries = [np.empty((len(kept), 0)), *(fields[kept, : len(features)] for features, fields in lists)]
        arrays = packed(categories, slots=order) | {
            "features": np.concatenate(names),
            "fields": np.concatenate(entries, axis=1),
        }
        if not self._kernel_rules.salient:
            del arrays["rho"]
        return arrays

    def _restore(self, dimension: int, header: Mapping[str, Any], arrays: Mapping[str, NDArray[Any]]) -> None:
        self.fixed, classes, most = header["fixed"], header["classes"], self._given
        require(type(self.fixed) is bool and dimension >= self.fixed, f"{dimension} features, fixed = {self.fixed!r}")
        require(type(classes) is int and 0 <= classes <= MAX_CLASSES and dimension <= most["max_features"], "sizes")
        rules = self._kernel_rules = self._rules()
        if not rules.salient:
            arrays = {**arrays, "rho": np.full(len(arrays["id"]), rules.rho)}
        lists = checked(Lists, arrays, dimension=dimension, kept=len(self._kept()))
        found = checked(Categories, arrays, classes=classes, entries=lists["entries"])
        names, entries, used, count = lists["features"], lists["fields"], found["used"], found["slots"]
        require(count <= most["max_clusters"] and used.sum() == len(names), "lengths of lists")
        owner = np.repeat(np.arange(count), used)
        require(len(np.unique(owner * max(dimension, 1) + names)) == len(names), "a feature that comes twice")
        sizes = found["size"][owner]
        for row, field in zip(entries, self._kept(), strict=True):
            counts = field in (layout.COUNT, layout.ONES)
            high = sizes if counts or field == layout.SQUARES else 1.0
            require((row <= high * (1.0 + ROUNDING)).all() and (field != layout.COUNT or (row >= 1.0).all()), "fields")
            require(not counts or (row == np.floor(row)).all(), "counts of features")
        rows = int(names.max(initial=-1)) + 1
        self._begin(
            dimension, room_for(count, layout.FEWEST_SLOTS, more_slots), room_for(rows, layout.FEWEST_ROWS), classes
        )
        table.put(self._categories, found)
        self._categories.count = count
        for slot, end in enumerate(np.cumsum(used).tolist()):
            part = slice(end - int(used[slot]), end)
            own = np.zeros((layout.ALL_FIELDS if rules.salient else layout.FUZZY_FIELDS, int(used[slot])))
            own[layout.CW] = 1.0
            own[self._kept()] = entries[:, part]
            append(self._features, names[part].copy())
            append(self._fields, own)
            if rules.salient:
                weigh(own, int(used[slot]), int(found["size"][slot]), rules.lambda_, rules.complement)
            spread_out(self._categories, self._kernel_rules, slot, entry(self._features, slot), own)

    @classmethod
    def learns_zeros(cls, parameters: Mapping[str, Any]) -> bool:  # noqa: D102
        return bool(parameters["complement"])


class FuzzyART(AdaptiveResonance):
    """Adaptive resonance by fuzzy intersection.

    A record takes the category whose template it shares most with, in the order of the choice
    ``|min(I, w)| / (alpha + |w|)``, provided that the shared part is at least `rho` of the record; else it founds a
    category of its own. The template moves towards the shared part and so only ever becomes smaller.

    Notes
    -----
    Defined on [0, 1]: a value outside it is refused. A record of zeros has, without complement coding, nothing in
    common with anything: it is answered with no cluster and not learned.

    References
    ----------
    G. A. Carpenter, S. Grossberg, D. B. Rosen, "Fuzzy ART: Fast stable learning and categorization of analog
    patterns by an adaptive resonance system", Neural Networks 4, 1991.

    Examples
    --------
    >>> import numpy as np
    >>> from resonance.engine import FuzzyART
    >>> rng = np.random.default_rng(0)
    >>> X = np.clip(rng.normal(size=(1000, 2)) * 0.02 + rng.integers(1, 4, size=(1000, 1)) / 4, 0, 1)
    >>> model = FuzzyART(rho=0.8)
    >>> step = model.learn(X)
    >>> len(model.clusters())
    3
    """

    name: ClassVar[str] = "fuzzy_art"
    revision: ClassVar[int] = 1
    parameters: ClassVar[tuple[Parameter, ...]] = (
        Parameter("rho", float, 0.7, "vigilance: share of a record that its cluster must have", 0, 1, open_low=True),
        Parameter("beta", float, 0.1, "learning rate; 1 is fast learning", 0, 1, open_low=True),
        Parameter("complement", bool, True, "codes records as [x, 1 - x]: absence counts, too"),
        *SHARED,
    )
    presets: ClassVar[dict[str, dict[str, Any]]] = {"paper": {"rho": 0.6, "beta": 0.6}}

    def _rules(self) -> Rules:
        return filled(Rules, self._given, salient=False, delta=0.0, lambda_=0.0, floor=0.0, fixed=True)


FLOOR = 1e-12
"""Weights decay without ever reaching 0: a smaller overlap is none."""


class SAART(AdaptiveResonance):
    """Salience-aware adaptive resonance.

    Every cluster weighs the features by how often its records have them and how steady their values are. Choice and
    match count salient features more; the template follows, feature by feature, values that are near the cluster's
    mean and lets others fade; and each cluster has a vigilance of its own, which rises when it resonates and falls
    when it is tried and rejected. Only the non-zero entries of a record, and the features of the cluster that learns
    it, cost time.

    Notes
    -----
    Defined on [0, 1]: a value outside it is refused. A record of zeros has, without complement coding, nothing in
    common with anything: it is answered with no cluster and not learned. A category with which a record has nothing
    in common is not tried, so its vigilance stays; a rejected one cannot be accepted after its vigilance has fallen;
    no vigilance exceeds 1; equation (5) has its limit where it is 0/0.

    References
    ----------
    L. Meng, A.-H. Tan, C. Miao, "Salience-aware adaptive resonance theory for large-scale sparse data clustering",
    Neural Networks 120, 2019. Algorithm 1, equations (4)-(14).

    Examples
    --------
    >>> import numpy as np
    >>> from resonance.engine import SAART
    >>> rng = np.random.default_rng(0)
    >>> X = (rng.random((600, 30)) < 0.7) * np.repeat(np.eye(3), 10, axis=1)[np.arange(600) % 3]
    >>> model = SAART()
    >>> step = model.learn(X)
    >>> sorted({feature.feature // 10 for feature in model.clusters()[0].salient})
    [0]
    """

    name: ClassVar[str] = "sa_art"
    revision: ClassVar[int] = 1
    parameters: ClassVar[tuple[Parameter, ...]] = (
        Parameter("rho0", float, 0.7, "vigilance of a new cluster", 0, 1, open_low=True),
        Parameter("lambda", float, 0.5, "weight of the frequency in a feature's salience", 0, 1),
        Parameter("delta", float, 0.01, "step of a cluster's vigilance; 0 leaves it at rho0", 0, 1, open_high=True),
        Parameter("complement", bool, False, "codes records as [x, 1 - x]: absence counts, too"),
        *SHARED,
    )
    presets: ClassVar[dict[str, dict[str, Any]]] = {"paper": {"lambda": 0.9, "delta": 0.1, "complement": True}}

    def _rules(self) -> Rules:
        given = self._given
        return filled(
            Rules,
            given,
            salient=True,
            rho=given["rho0"],
            lambda_=given["lambda"],
            beta=0.0,
            floor=FLOOR,
            fixed=True,
        )
