"""CAEA: adaptive resonance with correntropy, growing a graph of nodes from a stream."""

from collections.abc import Sequence
from typing import Any, ClassVar, Self

import numpy as np
from numba import types
from numba.typed import List
from numpy.typing import ArrayLike, NDArray
from resonance.engine.base import Cluster, Engine, FloatArray, IntArray, Prediction, Step, check_batch
from resonance.engine.caea.batch import learn_batch, predict_batch
from resonance.engine.caea.block import (
    AGE,
    CAPACITY,
    CLUSTER,
    CLUSTERS,
    COUNT,
    F_HEAD,
    FEWEST_LINKS,
    FIELDS,
    HITS,
    ID,
    LABELS,
    LINKED,
    LINKS,
    OTHER,
    SINCE,
    SMALLEST,
    WINS,
    K,
    Rules,
    at_field,
    at_labels,
    at_link,
    new_block,
    resized,
)
from resonance.engine.caea.faults import FITS, REST, model_fault
from resonance.engine.caea.packed_facts import packed_facts
from resonance.engine.caea.packing import model_lengths, packed_model, unpacked_model
from resonance.engine.caea.reading import CRITERIA, stored_shapes
from resonance.engine.caea.state_checks import check_fault, opened
from resonance.engine.caea.step import TOLD
from resonance.engine.classes import MAX_CLASSES, record_labels
from resonance.engine.correntropy import bandwidth_factors
from resonance.engine.errors import ParameterError, StateError
from resonance.engine.events import cluster_of, events_from
from resonance.engine.facts import ModelFacts, Path
from resonance.engine.parameters import MAX, Parameter, check_parameters
from resonance.engine.state import pack

READINGS = ("valley", "affinity", "components")
BANDWIDTHS = ("varying", "all")

PARAMETERS = (
    Parameter("lambda", int, 50, "records between two deletions of isolated nodes, and two readings", 3, 10_000),
    Parameter("age_max", int, 10, "an edge older than this is removed", 1, MAX),
    Parameter("grace", int, 2, "intervals that a node without an edge is kept", 0, MAX),
    Parameter("expire_records", int, 2000, "records after which a node that won none of them goes; 0: never", 0, MAX),
    Parameter(
        "bandwidth", str, "varying", "whose median the bandwidth is: features that vary, or all", choices=BANDWIDTHS
    ),
    Parameter(
        "renew", int, 3, "readings of mostly novel records, after which bandwidths are taken anew; 0: never", 0, MAX
    ),
    Parameter("reading", str, "valley", "how clusters are read from the nodes", choices=READINGS),
    Parameter("tau", float, 0.08, "affinity at which groups are still joined", 0, 1, open_low=True, open_high=True),
    Parameter("valley", float, 0.5, "natural logarithm of the least depth of a valley between clusters", 0, 10),
    Parameter("min_cluster_records", int, 25, "records that the nodes of a cluster must have won", 1, MAX),
    Parameter("max_nodes", int, 1000, "nodes of one model; beyond it the one that won longest ago goes", 4, 100_000),
)
PAPER = {
    "lambda": 28,
    "grace": 0,
    "expire_records": 0,
    "bandwidth": "all",
    "renew": 0,
    "reading": "components",
}


class CAEA(Engine):
    """Topological clustering by adaptive resonance with correntropy.

    Each record resonates with its nearest node, or founds a new one when even that is too unlike it; the measure is
    the correntropy-induced metric (CIM), whose bandwidth comes from the records themselves. Nodes that win together
    are joined by edges that age, and every `lambda_` records the nodes that stayed alone, or won nothing for long, go.
    Clusters are then read from what is left, with ids that last.

    Parameters
    ----------
    lambda_ : int, default 50
        Records between two deletions and readings (``lambda`` in settings); h = lambda / 2 rounded up is the
        number of initial nodes and of records that a bandwidth is taken from. More clusters than about h are not
        told apart: raise it.
    age_max : int, default 10
        An edge older than this is removed.
    grace : int, default 2
        Intervals that a node without an edge is kept; 0 is the paper's rule.
    reading : {"valley", "affinity", "components"}, default "valley"
        Average linkage on what co-winning exceeds chance, whose groups are one where no valley of the density divides
        them; the linkage alone; or connected components (the paper).
    tau : float in (0, 1), default 0.08
        Affinity at which groups are still joined.
    min_cluster_records : int, default 25
        Records that the nodes of a confirmed cluster have won at least; it also has 2 nodes.
    max_nodes : int, default 1000
        Bound of the memory: beyond it the node that won longest ago is removed. At least h + 1.
    expire_records : int, default 2000
        Records after which a node that won none of them is removed, those of a cluster without any all at once; 0
        for never (the paper). Densities are of at least as many records, and at most twice as many.
    bandwidth : {"varying", "all"}, default "varying"
        Whether the bandwidth is the median over the features that vary in the last h records, or over all (the
        paper). With "varying" equal nodes are one where thresholds are taken.
    renew : int, default 3
        Readings in a row with mostly novel records, after which the bandwidth and the threshold of all nodes are
        taken anew; 0 for never (the paper).
    valley : float, default 0.5
        Natural logarithm of how many times rarer records are in the least valley than at the lower of its two sides,
        beside what errors of the counts explain.

    References
    ----------
    N. Masuyama, N. Amako, Y. Yamada, Y. Nojima, H. Ishibuchi, "Adaptive resonance theory-based topological
    clustering with a divisive hierarchical structure capable of continual learning", IEEE Access, 2022.
    Algorithm 1, equations (1)-(21).

    Examples
    --------
    >>> import numpy as np
    >>> from resonance.engine import CAEA
    >>> rng = np.random.default_rng(0)
    >>> X = rng.normal(size=(1000, 2)) * 0.05 + rng.integers(0, 3, size=(1000, 1))
    >>> model = CAEA()
    >>> step = model.learn(X)
    >>> len(model.clusters())
    3
    """

    name: ClassVar[str] = "caea"
    revision: ClassVar[int] = 2
    parameters: ClassVar[tuple[Parameter, ...]] = PARAMETERS
    presets: ClassVar[dict[str, dict[str, Any]]] = {"paper": PAPER}

    def __init__(
        self,
        lambda_: int = 50,
        age_max: int = 10,
        grace: int = 2,
        reading: str = "valley",
        tau: float = 0.08,
        min_cluster_records: int = 25,
        max_nodes: int = 1000,
        expire_records: int = 2000,
        bandwidth: str = "varying",
        renew: int = 3,
        valley: float = 0.5,
    ) -> None:
        self._given = check_parameters(
            self.parameters,
            {
                "lambda": lambda_,
                "age_max": age_max,
                "grace": grace,
                "reading": reading,
                "tau": tau,
                "min_cluster_records": min_cluster_records,
                "max_nodes": max_nodes,
                "expire_records": expire_records,
                "bandwidth": bandwidth,
                "renew": renew,
                "valley": valley,
            },
        )
        check_room(self._given)
        self.depth = 1
        self.dimension = 0
        self._path = np.empty(0, dtype=np.int64)

    def _begin(self, dimension: int) -> None:
        """Take the dimension of the first batch."""
        self.dimension = dimension
        self._rules = rules_from(self._given, dimension)
        self._factors = bandwidth_factors(dimension, self._rules.h)
        self._floats, self._integers = new_block(dimension, self._rules.h, SMALLEST, FEWEST_LINKS, 0)
        self._log = List.empty_list(types.float64[::1])

    def learn(self, X: ArrayLike, labels: Sequence[int] | NDArray[np.int64] | None = None) -> Step:  # noqa: D102
        return self.trace(X, labels)[0]

    def trace(
        self, X: ArrayLike, labels: Sequence[int] | NDArray[np.int64] | None = None, told: bool = False
    ) -> tuple[Step, FloatArray]:
        """Learn like `learn`, and with `told` also return what each step decided by, for tests and for the curious.

        Returns
        -------
        Step
            As `learn`.
        ndarray of shape (n, 11)
            Columns: founded, case (1 new node, 2 first winner, 3 both), CIM of the first and second winner, id of
            the second, threshold, bandwidth, answer, score, position of the second winner, nodes afterwards; no
            rows without `told`.
        """
        batch = check_batch(X, self.dimension)
        marks = record_labels(labels, len(batch))
        count = len(batch)
        cluster, node = np.full((count, 1), -1, dtype=np.int64), np.full((count, 1), -1, dtype=np.int64)
        score, novel = np.empty(count), np.empty(count, dtype=np.bool_)
        rows = np.empty((count if told else 0, TOLD + 1))
        if count == 0:
            return Step(cluster, score, novel, node), rows
        if not self.dimension:
            self._begin(batch.shape[1])
        self._make_room_for_labels(int(marks.max()) + 1)
        self._floats, self._integers = learn_batch(
            self._floats,
            self._integers,
            self._rules,
            self._factors,
            batch,
            marks,
            self._path,
            self._log,
            cluster,
            score,
            novel,
            node,
            rows,
        )
        return Step(cluster, score, novel, node, events_from(self._log, self.dimension, CRITERIA)), rows

    def _make_room_for_labels(self, classes: int) -> None:
        if classes > self._integers[LABELS]:
            self._floats, self._integers = with_classes(
                self._floats, self._integers, self.dimension, self._rules.h, classes
            )

    def predict(self, X: ArrayLike) -> Prediction:  # noqa: D102
        batch = check_batch(X, self.dimension)
        count = len(batch)
        cluster, label = np.full((count, 1), -1, dtype=np.int64), np.full(count, -1, dtype=np.int64)
        score = np.full(count, np.nan)
        if self.dimension and count:
            predict_batch(self._floats, self._integers, self._rules, batch, cluster, score, label)
        return Prediction(cluster, score, label)

    def clusters(self) -> list[Cluster]:  # noqa: D102
        if not self.dimension or not self._integers[CLUSTERS]:
            return []
        shapes = stored_shapes(self._floats, self._integers, self._rules)
        return [cluster_of(row, (), self.dimension) for row in shapes]

    def models(self) -> dict[Path, ModelFacts]:  # noqa: D102
        if not self.dimension:
            return {}
        _, integers = packed_model(self._floats, self._integers, self.dimension, self._rules.h)
        return packed_facts(integers, kept_records=False)

    def state(self) -> bytes:  # noqa: D102
        header: dict[str, Any] = {"parameters": self._given, "dimension": self.dimension}
        if not self.dimension:
            return pack(self.name, self.revision, header, {})
        floats, integers = packed_model(self._floats, self._integers, self.dimension, self._rules.h)
        header["classes"] = int(self._integers[LABELS])
        return pack(self.name, self.revision, header, {"floats": floats, "integers": integers})

    @classmethod
    def from_state(cls, data: bytes) -> Self:  # noqa: D102
        model, dimension, classes, floats, integers = opened(cls, data, MAX_CLASSES)
        if dimension:
            rules = rules_from(model._given, dimension)
            check_fault(cls.name, *model_fault(floats, 0, integers, 0, rules, classes))
            lengths = model_lengths(integers, 0, dimension, rules.h)
            check_fault(cls.name, FITS if lengths == (len(floats), len(integers)) else REST, lengths[1])
            model._begin(dimension)
            model._floats, model._integers = unpacked_model(floats, integers, dimension, rules.h, classes)
        return model

    @classmethod
    def compile(cls) -> None:
        """Compile every kernel, or load it from the cache, before the first record comes."""
        model = cls(lambda_=3)
        model.learn(np.arange(24.0).reshape(12, 2), labels=[0] * 12)
        model.predict(np.zeros((1, 2)))
        cls.from_state(model.state())

    @property
    def nodes(self) -> dict[str, NDArray[Any]]:
        """The present nodes, in the order in which they were made.

        Returns
        -------
        dict
            ``id``, ``count`` (M), ``cluster`` (-1 for none), ``sigma``, ``threshold``, ``hits`` (records close to it,
            of which its density is) and ``since`` (record from which these count) of shape (K,), ``weight`` (K, d),
            ``age`` (K, K; -1 where there is no edge), ``cowin`` (K, K), ``labels`` (K, classes).
        """
        if not self.dimension:
            raise StateError("there are no nodes before the first record")
        return {**nodes_of(self._floats, self._integers, self.dimension), **_links_of(self._integers)}


def check_room(given: dict[str, Any]) -> None:
    """Raise `ParameterError` where `max_nodes`, or `max_leaves`, leaves no room for the initial nodes."""
    h = (given["lambda"] + 1) // 2
    for name in ("max_nodes", "max_leaves"):
        if given.get(name, h + 1) <= h:
            raise ParameterError(name, given[name], f"above lambda / 2 = {h}, the number of initial nodes")


def rules_from(given: dict[str, Any], dimension: int) -> Rules:
    """Return checked parameters as the kernels see them; those of a hierarchy are 0 where they are not given."""
    interval, depth = given["lambda"], given.get("max_depth", 1)
    children = max(2, given.get("min_child_records") or dimension + 1)
    return Rules(
        d=dimension,
        h=(interval + 1) // 2,
        interval=interval,
        age_max=given["age_max"],
        grace=given["grace"],
        expire=given["expire_records"],
        varying=given["bandwidth"] == "varying",
        renew=given["renew"],
        max_nodes=given["max_nodes"],
        affinity=given["reading"] != "components",
        tau=given["tau"],
        valleys=given["reading"] == "valley",
        valley=given["valley"],
        min_cluster_records=given["min_cluster_records"],
        min_child_records=children,
        max_depth=depth,
        max_leaves=given.get("max_leaves", 0),
        nearest=given.get("orphans", "nearest") == "nearest",
        keep=max(interval, children),
    )


def with_classes(floats: FloatArray, integers: IntArray, d: int, h: int, classes: int) -> tuple[FloatArray, IntArray]:
    """Return the blocks of a model with room for `classes` labels."""
    blocks: tuple[FloatArray, IntArray] = resized(
        floats, integers, d, h, int(integers[CAPACITY]), int(integers[LINKS]), classes
    )
    return blocks


def nodes_of(floats: FloatArray, integers: IntArray, d: int) -> dict[str, NDArray[Any]]:
    """Return the nodes of a model's blocks without what joins them; see `CAEA.nodes`."""
    capacity, k, links, classes = (int(integers[at]) for at in (CAPACITY, K, LINKS, LABELS))
    rows = floats[F_HEAD : F_HEAD + (d + 2) * capacity].reshape(d + 2, capacity)[:, :k]
    fields = integers[at_field(0, capacity) : at_field(FIELDS, capacity)].reshape(FIELDS, capacity)[:, :k]
    start = int(at_labels(0, capacity, links, classes))
    return {
        "id": fields[ID].copy(),
        "count": fields[COUNT].copy(),
        "cluster": fields[CLUSTER].copy(),
        "hits": fields[HITS].copy(),
        "since": fields[SINCE].copy(),
        "weight": rows[:d].T.copy(),
        "sigma": rows[d].copy(),
        "threshold": rows[d + 1].copy(),
        "labels": integers[start : start + k * classes].reshape(k, classes).copy(),
    }


def _links_of(integers: IntArray) -> dict[str, NDArray[Any]]:
    """Return what joins the nodes of a model; see `CAEA.nodes`."""
    capacity, k, links = (int(integers[at]) for at in (CAPACITY, K, LINKS))
    linked = integers[at_field(LINKED, capacity) : at_field(LINKED, capacity) + k]
    table = integers[at_link(0, 0, capacity, links) : at_link(k, 0, capacity, links)].reshape(k, 3, links)
    age, cowin = np.full((k, k), -1, dtype=np.int64), np.zeros((k, k), dtype=np.int64)
    node, at = np.nonzero(np.arange(links) < linked[:, None])
    age[node, table[node, OTHER, at]] = table[node, AGE, at] - 1
    cowin[node, table[node, OTHER, at]] = table[node, WINS, at]
    return {"age": age, "cowin": cowin}
