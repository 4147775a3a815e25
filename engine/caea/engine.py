"""CAEA: adaptive resonance with correntropy, growing a graph of nodes from a stream."""

from collections.abc import Mapping
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray
from resonance.engine.base import FloatArray, IntArray, ModelFacts, Path, Prediction, Step
from resonance.engine.caea import block
from resonance.engine.caea.block import (
    Rules,
    at_cluster,
    at_field,
    at_labels,
    at_link,
    new_block,
    packed_model,
    parts_of,
    unpacked_model,
)
from resonance.engine.caea.faults import FITS, REST, check_fault, checked_arrays, model_fault
from resonance.engine.caea.learn import learn_batch, predict_batch, scratch_for
from resonance.engine.caea.reading import CRITERIA, stored_shapes
from resonance.engine.correntropy import bandwidth_factors
from resonance.engine.errors import ParameterError
from resonance.engine.events import NO_PATH
from resonance.engine.parameters import MAX, Parameter, filled
from resonance.engine.shell import FlatEngine, filled_by_kernels

READINGS = ("valley", "affinity", "components")
BANDWIDTHS = ("varying", "all")

PARAMETERS = (
    Parameter("lambda", int, 50, "records between two deletions of isolated nodes, and two readings", 3, 10_000),
    Parameter("age_max", int, 10, "an edge older than this is removed", 1, MAX),
    Parameter("grace", int, 2, "intervals that a node without an edge is kept", 0, MAX),
    Parameter("expire_records", int, 2000, "records after which a node without any goes; 0: never", 0, MAX),
    Parameter("bandwidth", str, "varying", "features of the median bandwidth: varying or all", choices=BANDWIDTHS),
    Parameter(
        "renew", int, 3, "readings of mostly novel records after which bandwidths are recomputed; 0: never", 0, MAX
    ),
    Parameter("reading", str, "valley", "how clusters are read from the nodes", choices=READINGS),
    Parameter("tau", float, 0.08, "least affinity at which nodes are one group", 0, 1, open_low=True, open_high=True),
    Parameter("valley", float, 0.5, "least depth of a valley between clusters, logarithmic", 0, 10),
    Parameter("min_cluster_records", int, 25, "records that make a cluster", 1, MAX),
    Parameter("max_nodes", int, 1000, "most nodes; beyond it the longest idle one goes", 4, 100_000),
)
PAPER = {
    "lambda": 28,
    "grace": 0,
    "expire_records": 0,
    "bandwidth": "all",
    "renew": 0,
    "reading": "components",
}


class CAEA(FlatEngine):
    """Topological clustering by adaptive resonance with correntropy.

    Each record resonates with its nearest node, or founds a new one when even that is too unlike it; the measure is
    the correntropy-induced metric (CIM), whose bandwidth comes from the records themselves. Nodes that win together
    are joined by edges that age, and every `lambda_` records the nodes that stayed alone, or won nothing for long, go.
    Clusters are then read from what is left, with ids that last.

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
    criteria = CRITERIA

    def __init__(self, **given: Any) -> None:
        super().__init__(**given)
        check_room(self._given)

    def _begin(self, dimension: int) -> None:
        """Take the dimension of the first batch."""
        self.dimension = dimension
        self._rules = rules_from(self._given, dimension)
        self._factors = bandwidth_factors(dimension, self._rules.h)
        self._scratch = scratch_for(self._rules)
        self._floats, self._integers = new_block(dimension, self._rules.h, block.SMALLEST, block.FEWEST_LINKS, 0)

    def _learn(self, batch: FloatArray, labels: IntArray, step: Step) -> None:
        fixed = self._rules, self._factors, batch, labels, NO_PATH.copy(), self._log, self._scratch
        self._floats, self._integers = learn_batch(self._floats, self._integers, *fixed, *filled_by_kernels(step))

    def _predict(self, batch: FloatArray, answer: Prediction) -> None:
        predict_batch(
            self._floats, self._integers, self._rules, batch, answer.cluster, answer.score, answer.label
        )  # fmt: skip

    def _shapes(self) -> FloatArray:
        shapes: FloatArray = stored_shapes(self._floats, self._integers, self._rules)
        return shapes

    def _facts(self) -> ModelFacts:
        return facts_of(self._integers, ())

    def _header(self) -> dict[str, Any]:
        return {"classes": self._classes}

    def _packed(self) -> dict[str, NDArray[Any]]:
        floats, integers = packed_model(self._floats, self._integers, self.dimension, self._rules.h)
        return {"floats": floats, "integers": integers}

    def _restore(self, dimension: int, header: Mapping[str, Any], arrays: Mapping[str, NDArray[Any]]) -> None:
        classes, floats, integers = checked_arrays(self.name, dimension, header, arrays)
        rules = rules_from(self._given, dimension)
        check_fault(self.name, *model_fault(floats, 0, integers, 0, rules, classes))
        *_, end, length = parts_of(integers, 0, dimension, rules.h)
        check_fault(self.name, FITS if (length, end) == (len(floats), len(integers)) else REST, end)
        self._begin(dimension)
        self._classes = classes
        self._floats, self._integers = unpacked_model(floats, integers, dimension, rules.h)

    def arrays(self) -> dict[str, NDArray[Any]]:
        """Return the present nodes, in the order in which they were made; nothing before the first record.

        Returns
        -------
        dict
            ``id``, ``count`` (M), ``cluster`` (-1 for none), ``sigma``, ``threshold``, ``hits`` (records close to it,
            of which its density is) and ``since`` (record from which these count) of shape (K,), ``weight`` (K, d),
            ``age`` (K, K; -1 where there is no edge), ``cowin`` (K, K), ``labels`` (K, classes).
        """
        if not self.dimension:
            return {}
        return {**nodes_of(self._floats, self._integers, self.dimension, self._classes), **_links_of(self._integers)}


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
    return filled(
        Rules,
        given,
        d=dimension,
        h=(interval + 1) // 2,
        interval=interval,
        expire=given["expire_records"],
        varying=given["bandwidth"] == "varying",
        affinity=given["reading"] != "components",
        valleys=given["reading"] == "valley",
        min_child_records=children,
        max_depth=depth,
        max_leaves=given.get("max_leaves", 0),
        nearest=given.get("orphans", "nearest") == "nearest",
        keep=max(interval, children),
    )


def fields_of(integers: IntArray) -> IntArray:
    """Return the fields of a model's nodes, a row for each."""
    capacity, k = int(integers[block.CAPACITY]), int(integers[block.K])
    return integers[block.I_HEAD : at_field(block.FIELDS, capacity)].reshape(block.FIELDS, capacity)[:, :k]


def facts_of(integers: IntArray, path: Path) -> ModelFacts:
    """Return what a model that has this path in its tree knows of its clusters."""
    capacity, clusters = int(integers[block.CAPACITY]), int(integers[block.CLUSTERS])
    rows = integers[at_cluster(0, capacity) : at_cluster(block.CLUSTER_FIELDS, capacity)]
    rows, fields = rows.reshape(block.CLUSTER_FIELDS, -1)[:, :clusters], fields_of(integers)
    inside = fields[:, fields[block.CLUSTER] >= 0]
    since = dict(zip(rows[block.CLUSTER_ID].tolist(), rows[block.CLUSTER_MADE].tolist(), strict=True))
    owners = dict(zip(inside[block.ID].tolist(), inside[block.CLUSTER].tolist(), strict=True))
    return ModelFacts(path, int(integers[block.N]), since, owners)


def nodes_of(floats: FloatArray, integers: IntArray, d: int, classes: int) -> dict[str, NDArray[Any]]:
    """Return the nodes of a model's blocks without what joins them; see `CAEA.arrays`."""
    capacity, k, links, room = (int(integers[at]) for at in (block.CAPACITY, block.K, block.LINKS, block.LABELS))
    rows = floats[block.F_HEAD : block.F_HEAD + (d + 2) * capacity].reshape(d + 2, capacity)[:, :k]
    fields = fields_of(integers)
    start = int(at_labels(0, capacity, links, room))
    labels = np.zeros((k, classes), dtype=np.int64)
    labels[:, :room] = integers[start : start + k * room].reshape(k, room)[:, :classes]
    return {
        "id": fields[block.ID].copy(),
        "count": fields[block.COUNT].copy(),
        "cluster": fields[block.CLUSTER].copy(),
        "hits": fields[block.HITS].copy(),
        "since": fields[block.SINCE].copy(),
        "weight": rows[:d].T.copy(),
        "sigma": rows[d].copy(),
        "threshold": rows[d + 1].copy(),
        "labels": labels,
    }


def _links_of(integers: IntArray) -> dict[str, NDArray[Any]]:
    """Return what joins the nodes of a model; see `CAEA.arrays`."""
    capacity, k, links = (int(integers[at]) for at in (block.CAPACITY, block.K, block.LINKS))
    linked = fields_of(integers)[block.LINKED]
    table = integers[at_link(0, 0, capacity, links) : at_link(k, 0, capacity, links)].reshape(k, 3, links)
    age, cowin = np.full((k, k), -1, dtype=np.int64), np.zeros((k, k), dtype=np.int64)
    node, at = np.nonzero(np.arange(links) < linked[:, None])
    age[node, table[node, block.OTHER, at]] = table[node, block.AGE, at] - 1
    cowin[node, table[node, block.OTHER, at]] = table[node, block.WINS, at]
    return {"age": age, "cowin": cowin}
