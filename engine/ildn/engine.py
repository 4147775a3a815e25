"""ILDN as an engine: parameters, batches, answers, state.

The arrays of a state are a function of the model alone, not of the room it happens to have: equal models, equal bytes.
What can be computed from the rest, such as radii and spectra, is not among them.
"""

from collections.abc import Mapping
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray
from resonance.engine.base import FloatArray, IntArray, ModelFacts, Prediction, Step
from resonance.engine.ildn import layout
from resonance.engine.ildn.ellipsoid import squared_radii
from resonance.engine.ildn.layout import (
    Kept,
    Model,
    Rules,
    new_model,
    pairs_of,
    put_pairs,
    set_reach,
    spread_from,
    with_room,
)
from resonance.engine.ildn.learn import learn_batch, predict_batch
from resonance.engine.ildn.reading import CRITERIA, present_clusters, shapes_of
from resonance.engine.labels import MAX_CLASSES, room_for_classes
from resonance.engine.parameters import MAX, Parameter, filled
from resonance.engine.shell import SingleModelEngine, arrays_of
from resonance.kernels.table import (
    ABOVE_ZERO,
    Arrays,
    checked,
    packed,
    put,
    require,
    require_covariances,
    resized,
    room_for,
)


def packed_model(model: Model) -> dict[str, NDArray[Any]]:
    """Return the contents of a model: matrices only for nodes of two records and more, edges from their older end."""
    nodes, d = model.nodes, len(model.centre)
    slots = model.slot[:nodes]
    slots, (row, column) = slots[slots >= 0], np.tril_indices(d)
    kept = {"widest": model.widest[:nodes], "covariance": model.covariance[slots][:, row, column]}
    return packed(model, nodes=nodes, slots=slots, lanes=d) | kept | {"edges": pairs_of(model)}


def unpacked_model(arrays: Arrays, rules: Rules, classes: int) -> Model:
    """Return the model that `packed_model` gave the arrays of; KeyError or ValueError where they hold none."""
    d, (row, column) = rules.d, np.tril_indices(rules.d)
    found = checked(Model, arrays, d=d, lanes=d, classes=classes)
    learned, nodes, slots = found["learned"], found["nodes"], found["slots"]
    kept = checked(Kept, arrays, nodes=nodes, slots=slots, triangle=len(row))
    require(found["next_id"] <= 2 * learned and found["next_cluster"] <= learned * rules.max_nodes, "counters")
    grown = np.flatnonzero(found["count"] > 1)
    require(1 <= nodes <= rules.max_nodes and len(grown) == slots, f"{nodes} nodes, {slots} matrices")
    a, b = kept["a"], kept["b"]
    require((a < b).all() and (np.diff(a << 32 | b) > 0).all(), "edges")
    model = new_model(d, room_for(nodes + 1, layout.SMALLEST), slots + 8, 2 * len(a) + 16, classes)
    put(model, found)
    model.nodes, model.free_slots = nodes, 8
    model.first[:nodes] = -1
    put_pairs(model, np.stack([a, b], axis=1))
    model.free[:8] = np.arange(slots, slots + 8)
    model.slot[:nodes] = -1
    model.slot[grown] = np.arange(slots)
    model.covariance[:slots, row, column] = model.covariance[:slots, column, row] = kept["covariance"]
    require_covariances(model.covariance[:slots, :, :d], ABOVE_ZERO)
    for node in range(nodes):
        set_reach(model, rules, node, kept["widest"][node])
    _check_clusters(model, rules)
    return model


def _check_clusters(model: Model, rules: Rules) -> None:
    """Every component has one cluster, of its own, exactly when it has enough records."""
    nodes = model.nodes
    part, reached = np.full(nodes, -1, dtype=np.int64), np.empty(nodes, dtype=np.int64)
    seen: set[int] = set()
    for row in range(nodes):
        if part[row] >= 0:
            continue
        members = reached[: spread_from(model, row, part, row, reached)]
        of_cluster = np.unique(model.cluster[members])
        cluster, size = int(of_cluster[0]), int(model.count[members].sum())
        require(len(of_cluster) == 1 and cluster not in seen, "clusters that are not the network's components")
        require((cluster >= 0) == (size >= rules.min_cluster_records), "the size of its clusters")
        if cluster >= 0:
            seen.add(cluster)


PARAMETERS = (
    Parameter("sigma", float, 1e-3, "variance of a new node in every feature, in prepared units", 1e-20, 1e20),
    Parameter("q", float, 0.9, "share of its records that an ellipsoid holds", 0.01, 1, open_high=True),
    Parameter(
        "radius",
        str,
        "sq",
        "what widens for young nodes: the squared radius (sq), or its root (sqrt)",
        choices=("sq", "sqrt"),
    ),
    Parameter("rho", float, 0.95, "share of the variance that the merge test takes", 0, 1, open_low=True),
    Parameter("lambda", int, 1000, "records between two removals of thin nodes", 1, MAX),
    Parameter("k", float, 0.01, "share of the mean records below which a node is thin", 0, 1),
    Parameter("min_cluster_records", int, 25, "records that make a cluster", 1, MAX),
    Parameter("max_nodes", int, 1000, "most nodes; beyond it the longest idle one goes", 4, 10_000),
    Parameter("expire_records", int, 20_000, "records after which a cluster without any vanishes; 0: never", 0, MAX),
)
PAPER = {"min_cluster_records": 1, "expire_records": 0}


class ILDN(SingleModelEngine):
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
    criteria = CRITERIA
    most_features: ClassVar[int] = 256
    """Every node of two records and more has two matrices of d x d: with 256 features a megabyte."""

    def _begin(self, dimension: int) -> None:
        """Take the dimension of the first batch."""
        given = self._given
        self.dimension = dimension
        self._rules = filled(
            Rules,
            given,
            d=dimension,
            lanes=-(-dimension // 8) * 8,
            interval=given["lambda"],
            expire=given["expire_records"],
            radii=squared_radii(given["q"], dimension, given["radius"]),
        )
        self._model = new_model(dimension, layout.SMALLEST, 8, 16, 0)

    def _learn(self, batch: FloatArray, labels: IntArray, step: Step) -> None:
        room = room_for_classes(self._model.labels.shape[1], self._classes)
        self._model = resized(self._model, classes=room)
        answers, learned = arrays_of(step), 0
        while learned < len(batch):
            learned, edges = learn_batch(self._model, self._rules, batch, labels, learned, self._log, *answers)
            if learned < len(batch):
                self._model = with_room(self._model, edges)

    def _predict(self, batch: FloatArray, answer: Prediction) -> None:
        predict_batch(self._model, self._rules, batch, answer.cluster, answer.score, answer.novel, answer.label)

    def _shapes(self) -> FloatArray:
        shapes: FloatArray = shapes_of(self._model, self._rules, present_clusters(self._model))
        return shapes

    def _facts(self) -> ModelFacts:
        """Return what is known of the model; since when a cluster is there is not kept."""
        model = self._model
        nodes = zip(model.id[: model.nodes].tolist(), model.cluster[: model.nodes].tolist(), strict=True)
        own = {node: cluster for node, cluster in nodes if cluster >= 0}
        return ModelFacts((), model.learned, {}, own)

    def _header(self) -> dict[str, Any]:
        return {"classes": self._classes}

    def _packed(self) -> dict[str, NDArray[Any]]:
        return packed_model(self._model)

    def _restore(self, dimension: int, header: Mapping[str, Any], arrays: Mapping[str, NDArray[Any]]) -> None:
        classes = header.get("classes", 0)
        usable = dimension and type(classes) is int and 0 <= classes <= MAX_CLASSES
        require(usable, f"{dimension!r} features, {classes!r} classes")
        self._begin(dimension)
        self._classes = classes
        self._model = unpacked_model(arrays, self._rules, classes)

    @classmethod
    def compile(cls) -> None:  # noqa: D102
        super().compile()
        cls().learn(np.zeros((1, 2)))
