"""ILDN as an engine: parameters, batches, answers, state."""

from collections.abc import Sequence
from typing import Any, ClassVar, Self

import numpy as np
from numba import types
from numba.typed import List
from numpy.typing import ArrayLike, NDArray
from resonance.engine.base import Cluster, Engine, IntArray, Prediction, Step, check_batch
from resonance.engine.classes import MAX_CLASSES, record_labels
from resonance.engine.errors import ParameterError, StateError
from resonance.engine.events import cluster_of, events_from
from resonance.engine.facts import ModelFacts, Path
from resonance.engine.ildn.batch import learn_batch, nearest_nodes, predict_batch
from resonance.engine.ildn.model import (
    CLUSTER,
    COUNT,
    EDGES,
    ID,
    LEARNED,
    NODES,
    RADIUS,
    SLOT,
    SMALLEST,
    Rules,
    new_model,
    with_classes,
    with_room,
)
from resonance.engine.ildn.radius import squared_radii
from resonance.engine.ildn.reading import CRITERIA, present_clusters, shapes_of
from resonance.engine.ildn.state import packed, unpacked
from resonance.engine.parameters import MAX, Parameter, check_parameters
from resonance.engine.state import pack, unpack

PARAMETERS = (
    Parameter("sigma", float, 1e-3, "variance of a new node in every feature, in prepared units", 1e-20, 1e20),
    Parameter("q", float, 0.9, "share of a cluster's records that an ellipsoid is to hold", 0.01, 1, open_high=True),
    Parameter(
        "radius", str, "sq", "what widens for young nodes: the squared radius, or its root", choices=("sq", "sqrt")
    ),
    Parameter("rho", float, 0.95, "share of the variance whose directions the merge test takes", 0, 1, open_low=True),
    Parameter("lambda", int, 1000, "records between two removals of thin nodes", 1, MAX),
    Parameter("k", float, 0.01, "a node is thin with fewer records than this share of the mean", 0, 1),
    Parameter("min_cluster_records", int, 25, "records that the nodes of a cluster must have won", 1, MAX),
    Parameter("max_nodes", int, 1000, "nodes of one model; beyond it the one that won longest ago goes", 4, 10_000),
    Parameter("expire_records", int, 20_000, "records after which a cluster without any vanishes; 0: never", 0, MAX),
)
PAPER = {"min_cluster_records": 1, "expire_records": 0}


class ILDN(Engine):
    """Incremental local distribution network: ellipsoids that follow the data, joined where they overlap.

    A node is the mean and the covariance of the records that it has won. A record within the radius of no node founds
    one; otherwise the nearest node (by Mahalanobis distance) takes it, all nodes that hold it are joined by edges, and
    the winner is merged with a neighbour when the ellipsoid of both has less volume than the two together. Every
    `lambda_` records the thin nodes go. Clusters are the connected components that have enough records; they are
    read at every change, so an event names the record that caused it.

    The score of a record is ``1 / (1 + (D / R)^2)``, D its distance from the nearest clustered node and R that node's
    radius: at least one half exactly where a node of a cluster holds it. Below one tenth, three radii away, it has no
    cluster. The spread of a `Cluster` is that of its records. Reasons: ``distance`` (two clusters became one; D / R of
    the record from the farther of the nodes that hold it, below 1), ``denoising`` (a thin node held a cluster together,
    or was all of it; its records, and the fewest that stay), ``max_nodes``, ``expire_records``,
    ``min_cluster_records``.

    Parameters
    ----------
    sigma : float, default 1e-3
        Variance of a new node in every feature, in squared prepared units: how near records must lie to be one
        node's. Small, and every record is a node; large, and all are one.
    q : float in [0.01, 1), default 0.9
        Share of a normal distribution that an ellipsoid holds.
    radius : {"sq", "sqrt"}, default "sq"
        Whether the squared radius is ``eps X`` or ``eps^2 X``, with ``eps = 1 + 2 * 1.05^(1 - n)`` for a node of n
        records and X the quantile of chi-square: the paper can be read both ways, its results are those of ``sq``.
    rho : float in (0, 1], default 0.95
        The merge test compares volumes in as many directions as make up this share of the variance.
    lambda_ : int, default 1000
        Records between two removals of thin nodes (``lambda`` in settings).
    k : float in [0, 1], default 0.01
        A node is thin when it has fewer records than this share of the mean of all nodes.
    min_cluster_records : int, default 25
        Records that the nodes of a cluster have won at least; 1 is the paper's rule.
    max_nodes : int, default 1000
        Bound of the memory: beyond it the node that won longest ago is removed.
    expire_records : int, default 20,000
        Records after which a cluster that won none of them vanishes, and a node of no cluster goes; 0 for never (the
        paper). That is looked at with the thin nodes.

    References
    ----------
    Xing, Cao, Zhou, Shen, Zhao, "An incremental local distribution network for unsupervised learning", PAKDD 2015.
    Algorithms 1 and 2, equations (1)-(14).

    Examples
    --------
    >>> import numpy as np
    >>> from resonance.engine import ILDN
    >>> rng = np.random.default_rng(0)
    >>> X = rng.normal(size=(1000, 2)) * 0.05 + rng.integers(0, 3, size=(1000, 1))
    >>> model = ILDN()
    >>> step = model.learn(X)
    >>> len(model.clusters())
    3
    """

    name: ClassVar[str] = "ildn"
    revision: ClassVar[int] = 2
    parameters: ClassVar[tuple[Parameter, ...]] = PARAMETERS
    presets: ClassVar[dict[str, dict[str, Any]]] = {"paper": PAPER}
    most_features: ClassVar[int] = 256
    """Every node of two records and more has two matrices of d x d: with 256 features a megabyte."""

    def __init__(
        self,
        sigma: float = 1e-3,
        q: float = 0.9,
        radius: str = "sq",
        rho: float = 0.95,
        lambda_: int = 1000,
        k: float = 0.01,
        min_cluster_records: int = 25,
        max_nodes: int = 1000,
        expire_records: int = 20_000,
    ) -> None:
        self._given = check_parameters(
            self.parameters,
            {
                "sigma": sigma,
                "q": q,
                "radius": radius,
                "rho": rho,
                "lambda": lambda_,
                "k": k,
                "min_cluster_records": min_cluster_records,
                "max_nodes": max_nodes,
                "expire_records": expire_records,
            },
        )
        self.depth = 1
        self.dimension = 0

    def _begin(self, dimension: int) -> None:
        """Take the dimension of the first batch."""
        given = self._given
        self.dimension = dimension
        self._rules = Rules(
            d=dimension,
            lanes=-(-dimension // 8) * 8,
            sigma=given["sigma"],
            k=given["k"],
            interval=given["lambda"],
            rho=given["rho"],
            min_cluster_records=given["min_cluster_records"],
            max_nodes=given["max_nodes"],
            expire=given["expire_records"],
            radii=squared_radii(given["q"], dimension, given["radius"]),
        )
        self._model = new_model(dimension, SMALLEST, 8, 16, 0)
        self._log = List.empty_list(types.float64[::1])
        self._story = List.empty_list(types.int64[::1])

    def learn(self, X: ArrayLike, labels: Sequence[int] | NDArray[np.int64] | None = None) -> Step:  # noqa: D102
        return self.trace(X, labels)[0]

    def trace(
        self, X: ArrayLike, labels: Sequence[int] | NDArray[np.int64] | None = None, told: bool = False
    ) -> tuple[Step, IntArray]:
        """Learn like `learn`, and with `told` also return what became of the nodes, for tests and for the curious.

        Returns
        -------
        Step
            As `learn`.
        ndarray of shape (events, 5)
            Record, code (0 created, 1 merged, 2 removed, 3 edge) and node ids: the node; winner, neighbour and the
            new node; the two ends; -1 where there is none. No rows without `told`.
        """
        batch = check_batch(X, self.dimension, self.most_features)
        marks = record_labels(labels, len(batch))
        count = len(batch)
        cluster, node = np.full((count, 1), -1, dtype=np.int64), np.full((count, 1), -1, dtype=np.int64)
        score, novel = np.empty(count), np.empty(count, dtype=np.bool_)
        nothing = np.empty((0, 5), dtype=np.int64)
        if count == 0:
            return Step(cluster, score, novel, node), nothing
        if not self.dimension:
            self._begin(batch.shape[1])
        if marks.max() >= self._model.labels.shape[1]:
            self._model = with_classes(self._model, int(marks.max()) + 1)
        learned = 0
        while learned < count:
            learned, edges = learn_batch(
                self._model,
                self._rules,
                batch,
                marks,
                learned,
                self._log,
                told,
                self._story,
                cluster,
                score,
                novel,
                node,
            )
            if learned < count:
                self._model = with_room(self._model, edges)
        story = np.array(self._story) if len(self._story) else nothing
        self._story.clear()
        return Step(cluster, score, novel, node, events_from(self._log, self.dimension, CRITERIA)), story

    def predict(self, X: ArrayLike) -> Prediction:  # noqa: D102
        batch = check_batch(X, self.dimension)
        count = len(batch)
        cluster, label = np.full((count, 1), -1, dtype=np.int64), np.full(count, -1, dtype=np.int64)
        score = np.full(count, np.nan)
        if self.dimension and count:
            predict_batch(self._model, self._rules, batch, cluster, score, label)
        return Prediction(cluster, score, label)

    def nearest(self, X: ArrayLike, relative: bool = True) -> IntArray:
        """Return the id of the node nearest to each record, whether a cluster has it or not; changes nothing.

        Parameters
        ----------
        X : array_like of shape (n, d)
            Prepared records.
        relative : bool, default True
            By distance in radii, as `predict` answers; False: by Mahalanobis distance alone (5).
        """
        batch = check_batch(X, self.dimension)
        node = np.full(len(batch), -1, dtype=np.int64)
        if self.dimension and len(batch):
            nearest_nodes(self._model, self._rules, batch, relative, node)
        return node

    def clusters(self) -> list[Cluster]:  # noqa: D102
        if not self.dimension:
            return []
        shapes = shapes_of(self._model, self._rules, present_clusters(self._model))
        return [cluster_of(row, (), self.dimension) for row in shapes]

    def models(self) -> dict[Path, ModelFacts]:
        """Return what is known of the model; since when a cluster is there is not kept."""
        if not self.dimension:
            return {}
        rows = int(self._model.head[NODES])
        ids, clusters = self._model.fields[ID, :rows].tolist(), self._model.fields[CLUSTER, :rows].tolist()
        own = {node: cluster for node, cluster in zip(ids, clusters, strict=True) if cluster >= 0}
        return {(): ModelFacts((), int(self._model.head[LEARNED]), {}, own)}

    def state(self) -> bytes:  # noqa: D102
        header: dict[str, Any] = {"parameters": self._given, "dimension": self.dimension}
        if not self.dimension:
            return pack(self.name, self.revision, header, {})
        header["classes"] = self._model.labels.shape[1]
        return pack(self.name, self.revision, header, packed(self._model))

    @classmethod
    def from_state(cls, data: bytes) -> Self:  # noqa: D102
        header, arrays = unpack(data, cls.name, cls.revision)
        try:
            model = cls.make(header["parameters"])
            dimension, classes = header["dimension"], header.get("classes", 0)
        except (KeyError, TypeError, ValueError, AttributeError, ParameterError) as error:
            raise StateError(f"the state of {cls.name} has no parameters that it can have: {error}") from error
        for name, value, most in (("dimension", dimension, cls.most_features), ("classes", classes, MAX_CLASSES)):
            if type(value) is not int or not 0 <= value <= most:
                raise StateError(f"the state of {cls.name} has {name} = {value!r}")
        if dimension:
            model._begin(dimension)
            model._model = unpacked(arrays, model._rules, classes)
        elif arrays:
            raise StateError(f"the state of {cls.name} has arrays but no dimension")
        return model

    @classmethod
    def compile(cls) -> None:
        """Compile every kernel, or load it from the cache, before the first record comes."""
        rng = np.random.default_rng(0)
        model = cls(sigma=1e-2, lambda_=20, k=0.5, min_cluster_records=2)
        model.learn(rng.random((100, 2)), labels=[0] * 100)
        model.predict(np.zeros((1, 2)))
        model.nearest(np.zeros((1, 2)))
        cls.from_state(model.state()).clusters()

    @property
    def nodes(self) -> dict[str, NDArray[Any]]:
        """The present nodes, in the order of their ids.

        Returns
        -------
        dict
            ``id``, ``count``, ``cluster`` (-1 for none), ``radius`` of shape (K,); ``centre`` (K, d), ``covariance``
            (K, d, d), ``labels`` (K, classes); ``edges`` (E, 2), pairs of ids.
        """
        if not self.dimension:
            raise StateError("there are no nodes before the first record")
        model, d, rows = self._model, self.dimension, int(self._model.head[NODES])
        ids, slots = model.fields[ID, :rows].copy(), model.fields[SLOT, :rows]
        covariance = np.tile(self._rules.sigma * np.eye(d), (rows, 1, 1))
        covariance[slots >= 0] = model.covariance[slots[slots >= 0]][:, :, :d]
        entries = model.edges[: model.head[EDGES]]
        ends = np.stack([ids[entries >> 32], ids[entries & 0xFFFFFFFF]], axis=1)
        return {
            "id": ids,
            "count": model.fields[COUNT, :rows].copy(),
            "cluster": model.fields[CLUSTER, :rows].copy(),
            "radius": np.sqrt(model.values[RADIUS, :rows]),
            "centre": model.centre[:, :rows].T.copy(),
            "covariance": covariance,
            "labels": model.labels[:rows].copy(),
            "edges": ends[ends[:, 0] < ends[:, 1]],
        }
