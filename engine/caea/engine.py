"""CAEA: adaptive resonance with correntropy, growing a graph of nodes from a stream."""

from collections.abc import Mapping
from typing import Any, ClassVar

from numpy.typing import NDArray
from resonance.engine.base import FloatArray, IntArray, ModelFacts, Path, Prediction, Step
from resonance.engine.caea import model as layout
from resonance.engine.caea.faults import FITS, REST, check_fault, checked_arrays, model_fault
from resonance.engine.caea.learn import learn_batch, predict_batch, scratch_for
from resonance.engine.caea.model import Model, Rules, new_model, packed_model, parts_of, unpacked_model, with_room
from resonance.engine.caea.reading import CRITERIA, stored_shapes
from resonance.engine.correntropy import bandwidth_factors
from resonance.engine.errors import ParameterError
from resonance.engine.events import NO_PATH
from resonance.engine.labels import room_for_classes
from resonance.engine.parameters import MAX, Parameter, filled
from resonance.engine.shell import SingleModelEngine, arrays_of
from resonance.kernels.table import resized

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


class CAEA(SingleModelEngine):
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
        self._model = Model(new_model(dimension, self._rules.h, layout.SMALLEST, layout.FEWEST_LINKS, 0))

    def _learn(self, batch: FloatArray, labels: IntArray, step: Step) -> None:
        room = self._model.labels.shape[1]
        if self._classes > room:
            self._model = resized(self._model, classes=room_for_classes(room, self._classes))
        own, rest, done = (self._rules, self._factors, batch, labels), (NO_PATH.copy(), self._log, self._scratch), 0
        answers = arrays_of(step)
        while (done := learn_batch(self._model, *own, done, *rest, *answers)) < len(batch):
            self._model = Model(with_room(self._model))

    def _predict(self, batch: FloatArray, answer: Prediction) -> None:
        predict_batch(self._model, self._rules, batch, answer.cluster, answer.score, answer.novel, answer.label)

    def _shapes(self) -> FloatArray:
        shapes: FloatArray = stored_shapes(self._model)
        return shapes

    def _facts(self) -> ModelFacts:
        return facts_of(self._model, ())

    def _header(self) -> dict[str, Any]:
        return {"classes": self._classes}

    def _packed(self) -> dict[str, NDArray[Any]]:
        floats, integers = packed_model(self._model)
        return {"floats": floats, "integers": integers}

    def _restore(self, dimension: int, header: Mapping[str, Any], arrays: Mapping[str, NDArray[Any]]) -> None:
        classes, floats, integers = checked_arrays(self.name, dimension, header, arrays)
        rules = rules_from(self._given, dimension)
        check_fault(self.name, *model_fault(floats, 0, integers, 0, rules, classes))
        *_, end, length = parts_of(integers, 0, dimension, rules.h)
        check_fault(self.name, FITS if (length, end) == (len(floats), len(integers)) else REST, end)
        self._begin(dimension)
        self._classes = classes
        self._model = Model(unpacked_model(floats, integers, dimension, rules.h))


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
        remote=False,
    )


def facts_of(model: Model, path: Path) -> ModelFacts:
    """Return what a model that has this path in its tree knows of its clusters."""
    nodes, clusters = slice(model.nodes), slice(model.clusters)
    since = dict(zip(model.cluster_id[clusters].tolist(), model.cluster_made[clusters].tolist(), strict=True))
    owners = zip(model.id[nodes].tolist(), model.cluster[nodes].tolist(), strict=True)
    return ModelFacts(path, model.learned, since, {node: cluster for node, cluster in owners if cluster >= 0})
