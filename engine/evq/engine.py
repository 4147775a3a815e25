"""eVQ, eVQ-A, eVQ-AM and eVQ-AMS: ellipsoids that follow a stream, merge and split."""

from collections.abc import Sequence
from typing import Any, ClassVar, Self

import numpy as np
from numpy.typing import ArrayLike, NDArray
from resonance.engine.base import BoolArray, Cluster, Engine, Event, IntArray, Prediction, Step, check_batch
from resonance.engine.classes import MAX_CLASSES, record_labels
from resonance.engine.errors import ParameterError, StateError
from resonance.engine.events import cluster_of
from resonance.engine.evq.batch import DONE, NO_SLOT, learn_batch, predict_batch
from resonance.engine.evq.events import shape_of, take_events
from resonance.engine.evq.merge import consolidate
from resonance.engine.evq.model import HELD, ID, LAST, MADE, RADIUS, SMALLEST, SUPPORT, K, N, new_model, resized
from resonance.engine.evq.model_state import packed_model, unpacked_model
from resonance.engine.evq.parameters import PAPER, PARAMETERS, check_together, rules_from
from resonance.engine.evq.work import FEWEST_EVENTS, SHAPE_HEAD, work_for
from resonance.engine.facts import ModelFacts, Path
from resonance.engine.parameters import Parameter, check_parameters
from resonance.engine.state import pack, unpack


class EVQ(Engine):
    """Evolving vector quantisation with ellipsoids that merge and split (AutoClust).

    A cluster is a mean, a covariance and a support: an ellipsoid. A record goes to the nearest one in Mahalanobis
    distance if it lies within its radius, which shrinks as the support grows, and moves mean and covariance; else it
    founds a cluster. Every `check_every` records the winner may merge with the cluster that it overlaps most, if the
    two are compact together, and may be split in two when a normal mixture shows two separate bumps along a feature
    or a principal axis of a sample of its records.

    Parameters
    ----------
    **given : object
        By the names in `EVQ.parameters`, where ranges and defaults stand. With `low` and `high`, which hold for every
        feature, the ranges are known; without them they are taken from the stream, the first `warmup` records are
        held back, and a founder is as wide as the present clusters.

    Notes
    -----
    ``evq-a`` and ``evq-am`` are for records that come cluster by cluster: on a shuffled stream the first founder takes
    everything and never lets go. ``evq-ams`` splits it.

    The score is ``1 / (1 + (D / r)^2)``: D the Mahalanobis distance to the nearest cluster, r its radius; a record
    below 1/2 is outside and founds a cluster.

    References
    ----------
    E. Lughofer, M. Sayed-Mouchaweh, "Autonomous data stream clustering implementing split-and-merge concepts -
    Towards a plug-and-play approach", Information Sciences, 2015. Equations (1)-(36), some of them corrected: see
    docs/engines/evq.md.

    Examples
    --------
    >>> import numpy as np
    >>> from resonance.engine import EVQ
    >>> rng = np.random.default_rng(0)
    >>> X = rng.normal(size=(2000, 2)) * 0.05 + rng.integers(0, 3, size=(2000, 1))
    >>> model = EVQ()
    >>> step = model.learn(X)
    >>> len(model.clusters())
    3
    """

    name: ClassVar[str] = "evq"
    revision: ClassVar[int] = 2
    parameters: ClassVar[tuple[Parameter, ...]] = PARAMETERS
    presets: ClassVar[dict[str, dict[str, Any]]] = {"paper": PAPER}
    most_features: ClassVar[int] = 256
    """Every cluster has two matrices of d x d: with 256 features a megabyte."""

    def __init__(self, **given: Any) -> None:
        self._given = check_parameters(self.parameters, given)
        check_together(self._given)
        self.depth = 1
        self.dimension = 0

    def _begin(self, dimension: int, slots: int, classes: int) -> None:
        """Take the dimension of the first batch."""
        self.dimension = dimension
        self._rules = rules_from(self._given, dimension)
        low, high = self._given["low"] or 0.0, self._given["high"] or 0.0
        self._model = new_model(self._rules, low, high, slots, classes)

    def learn(self, X: ArrayLike, labels: Sequence[int] | NDArray[np.int64] | None = None) -> Step:  # noqa: D102
        return self.trace(X, labels)[0]

    def trace(
        self, X: ArrayLike, labels: Sequence[int] | NDArray[np.int64] | None = None, told: bool = False
    ) -> tuple[Step, IntArray]:
        """Learn like `learn`, and with `told` also return the number of clusters after each record.

        Returns
        -------
        Step
            As `learn`.
        ndarray of int64, shape (n,)
            Clusters afterwards; empty without `told`.
        """
        batch = check_batch(X, self.dimension, self.most_features)
        marks = record_labels(labels, len(batch))
        count = len(batch)
        cluster, node = np.full((count, 1), -1, dtype=np.int64), np.full((count, 1), -1, dtype=np.int64)
        score, novel = np.empty(count), np.empty(count, dtype=np.bool_)
        counted = np.empty(count if told else 0, dtype=np.int64)
        if count == 0:
            return Step(cluster, score, novel, node), counted
        classes = int(marks.max()) + 1
        if not self.dimension:
            self._begin(batch.shape[1], min(SMALLEST, self._given["max_clusters"]), classes)
        slots = len(self._model.slot)
        if classes > self._model.votes.shape[1]:
            self._model = resized(self._model, self._rules, slots, classes)
        rows = FEWEST_EVENTS
        work = work_for(self._rules, rows)
        events: list[Event] = []
        done, reason = 0, NO_SLOT
        while True:
            done, reason = learn_batch(
                self._model, self._rules, batch, marks, done, work, cluster, score, novel, node, counted
            )
            new = take_events(work, self.dimension)
            events += new
            if reason == DONE:
                break
            if reason == NO_SLOT:
                slots = min(max(2 * slots, slots + self._given["warmup"]), self._given["max_clusters"])
                self._model = resized(self._model, self._rules, slots, self._model.votes.shape[1])
            elif not new:
                rows *= 2
                work = work_for(self._rules, rows)
        return Step(cluster, score, novel, node, events), counted

    def predict(self, X: ArrayLike) -> Prediction:  # noqa: D102
        answer, outside = self.judge(X)
        answer.cluster[outside] = -1
        return answer

    def judge(self, X: ArrayLike) -> tuple[Prediction, BoolArray]:
        """Answer like `predict`, but with the nearest cluster however far it is; and say whether it is too far.

        Returns
        -------
        Prediction
            The nearest cluster of each record.
        ndarray of bool, shape (n,)
            The record lies outside of the cluster's radius.
        """
        batch = check_batch(X, self.dimension)
        count = len(batch)
        cluster, label = np.full((count, 1), -1, dtype=np.int64), np.full(count, -1, dtype=np.int64)
        score, outside = np.full(count, np.nan), np.ones(count, dtype=np.bool_)
        if self.dimension and count:
            predict_batch(self._model, self._rules, batch, cluster, score, outside, label)
        return Prediction(cluster, score, label), outside

    def clusters(self, consolidated: bool = False) -> list[Cluster]:
        """Present clusters, by id; `consolidated` as they would be after `consolidate`, which changes nothing."""
        if consolidated:
            copy = type(self).from_state(self.state())
            copy.consolidate()
            return copy.clusters()
        if not self.dimension:
            return []
        used = self._model.slot[: self._model.head[K]]
        rows = np.empty((len(used), SHAPE_HEAD + 2 * self.dimension))
        for row, i in zip(rows, used, strict=True):
            shape_of(self._model, self._rules, i, row)
        return [cluster_of(row, (), self.dimension) for row in rows]

    def consolidate(self) -> list[Event]:
        """Merge, pair by pair, the clusters that overlap most and are compact together, until there are none.

        It removes thin leftovers that win too seldom to be checked, and never splits. It changes the state: a run
        that is to be repeated calls it at the same records, or has `consolidate_every` do so.

        Returns
        -------
        list of Event
            One for each merge; their index is -1, for no record caused them.
        """
        if not self.dimension:
            return []
        work = work_for(self._rules, max(1, int(self._model.head[K])))
        consolidate(self._model, self._rules, -1, work)
        return take_events(work, self.dimension)

    def models(self) -> dict[Path, ModelFacts]:  # noqa: D102
        if not self.dimension:
            return {}
        found = self.ellipsoids
        ids = found["id"].tolist()
        since = dict(zip(ids, found["made"].tolist(), strict=True))
        # A cluster is its own node.
        return {(): ModelFacts((), int(self._model.head[N]), since, {each: each for each in ids})}

    def state(self) -> bytes:  # noqa: D102
        header: dict[str, Any] = {"parameters": self._given, "dimension": self.dimension}
        return pack(self.name, self.revision, header, packed_model(self._model) if self.dimension else {})

    @classmethod
    def from_state(cls, data: bytes) -> Self:  # noqa: D102
        header, arrays = unpack(data, cls.name, cls.revision)
        try:
            model = cls.make(header["parameters"])
            dimension = header["dimension"]
            if arrays or dimension:
                clusters, classes = arrays["votes"].shape
                if type(dimension) is not int or not 0 < dimension <= cls.most_features or classes > MAX_CLASSES:
                    raise ValueError(f"{dimension!r} features, {classes} classes")
                if clusters != len(arrays["number"]):
                    raise ValueError("votes")
                slots = min(max(SMALLEST, 2 * clusters), model._given["max_clusters"])
                model._begin(dimension, slots, classes)
                unpacked_model(model._model, model._rules, arrays)
        except (KeyError, TypeError, ValueError, AttributeError, ParameterError) as error:
            raise StateError(f"the state of {cls.name} does not hold what it says it holds: {error}") from error
        return model

    @classmethod
    def compile(cls) -> None:
        """Compile every kernel, or load it from the cache, before the first record comes."""
        model = cls(warmup=2, consolidate_every=8)
        model.learn(np.arange(24.0).reshape(12, 2), labels=[0] * 12)
        model.predict(np.zeros((1, 2)))
        model.consolidate()
        cls.from_state(model.state()).clusters()

    @property
    def ellipsoids(self) -> dict[str, NDArray[Any]]:
        """The present clusters with all that they consist of, by id.

        Returns
        -------
        dict
            ``id``, ``k`` (support), ``last`` (number of the record won last), ``held`` (records in the buffer),
            ``made`` (records accepted when it was founded), ``radius``, of shape (K,); ``centre`` (K, d); ``cov`` and
            ``inv`` (K, d, d): C, and P (zeros for `evq`).
        """
        if not self.dimension:
            raise StateError("there are no clusters before the first record")
        used = self._model.slot[: self._model.head[K]]
        columns = {"id": ID, "k": SUPPORT, "last": LAST, "held": HELD, "made": MADE}
        return {
            **{name: self._model.number[used, column] for name, column in columns.items()},
            "radius": self._model.shape[used, RADIUS],
            **{name: getattr(self._model, name)[used] for name in ("centre", "cov", "inv")},
        }
