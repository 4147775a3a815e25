"""eVQ, eVQ-A, eVQ-AM and eVQ-AMS: ellipsoids that follow a stream, merge and split."""

import sys
from collections.abc import Mapping
from decimal import Decimal, localcontext
from functools import lru_cache
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray
from resonance.engine.base import BoolArray, FloatArray, IntArray, ModelFacts, Prediction, Step
from resonance.engine.errors import ParameterError
from resonance.engine.evq import layout
from resonance.engine.evq.layout import CRITERIA, FURTHER, NARROWEST, Buffers, Rules, note_shape, shapes_of, work_for
from resonance.engine.evq.learn import learn_batch, predict_batch
from resonance.engine.labels import MAX_CLASSES, room_for_classes
from resonance.engine.parameters import MAX as _MAX
from resonance.engine.parameters import Parameter, filled
from resonance.engine.shell import SingleModelEngine, arrays_of
from resonance.kernels.table import checked, packed, put, require, require_covariances, resized

MODES = ("evq-ams", "evq-am", "evq-a", "evq")

PARAMETERS = (
    Parameter(
        "mode",
        str,
        "evq-ams",
        "the algorithm: evq-ams, evq-am, evq-a or evq",
        choices=MODES,
    ),
    Parameter(
        "ranges",
        str,
        None,
        "ranges of features: low to high (given, where both are set), or those seen so far (running)",
        choices=("given", "running"),
        optional=True,
    ),
    Parameter("low", float, None, "lowest value that features have", -1e100, 1e100, optional=True),
    Parameter("high", float, None, "highest value that features have", -1e100, 1e100, optional=True),
    Parameter("warmup", int, 20, "records held back at first, with running ranges", 1, 10_000),
    Parameter("vig", float, 0.24, "threshold of evq, in sqrt(d/2) ranges", 1e-6, 1),
    Parameter("fac", float, 4.0, "radius of the ellipsoids", 1e-6, 1e6),
    Parameter("pexp", float, 0.5, "exponent of d/2 in the radius", 0, 10),
    Parameter("m", float, 4.0, "how much wider a young cluster is", 0, 100),
    Parameter("sig0", float, 0.1, "standard deviation of a new cluster, by the range", 1e-6, 1),
    Parameter(
        "init",
        str,
        None,
        "covariance of a new cluster: from the range, where given, or the mean of the others",
        choices=("range", "mean"),
        optional=True,
    ),
    Parameter("kap", float, 2.5, "widening of that mean", 0, 1000, open_low=True),
    Parameter("frac", float, 100.0, "range over the least deviation of such a cluster", 0, 1e6, open_low=True),
    Parameter("check_every", int, 10, "records of a cluster between checks for merges and splits", 1, _MAX),
    Parameter("thr", float, 0.0, "overlap above which two clusters may merge", -100, 1, open_high=True),
    Parameter("volp", float, 1.0, "for each feature, union over sum of the volumes up to which they do", 1e-100, 1e6),
    Parameter("n_sub", int, 300, "records of a cluster kept for the split test", 4, 2000),
    Parameter("min_sub", int, 50, "kept records from which on a split is tried", 4, 2000),
    Parameter("kmax", int, 4, "most modes that a split test finds", 2, 8),
    Parameter("pcs", bool, True, "splits also along principal axes"),
    Parameter("crit", float, 2.57, "separation of modes at which a cluster is split", 0, 1e6, open_low=True),
    Parameter("margin", float, 10.0, "BIC that several modes must gain over one", 0, 1e6),
    Parameter(
        "loglik", str, "mix", "likelihood in BIC: of the mixture (mix), or the likeliest mode (class)",
        choices=("mix", "class"),
    ),
    Parameter("em_iter", int, 100, "most steps of EM", 1, 10_000),
    Parameter("em_tol", float, 1e-5, "change of a record's log-likelihood that ends EM", 0, 1),
    Parameter("refresh", int, 100, "records between two inversions of a covariance", 1, _MAX),
    Parameter("max_clusters", int, 256, "most clusters; beyond it the longest idle one goes", 2, 10**4),
    Parameter("seed", int, 1, "seed of the kept samples", 0, 2**64 - 1),
    Parameter(
        "consolidate_every", int, None, "records between searches for merges among all clusters", 1, _MAX,
        optional=True,
    ),
)  # fmt: skip
PAPER = {"pexp": 0.7071067811865476, "kmax": 2, "pcs": False, "min_sub": 30, "margin": 0.0}


def check_together(given: dict[str, Any]) -> None:
    """Raise `ParameterError` where parameters do not fit each other."""
    if given["min_sub"] > given["n_sub"]:
        raise ParameterError("min_sub", given["min_sub"], f"at most n_sub = {given['n_sub']}")
    low, high = given["low"], given["high"]
    if (low is None) != (high is None):
        missing = "low" if low is None else "high"
        raise ParameterError(missing, None, "given too: a range has two ends")
    if low is not None and not high - low > NARROWEST:
        raise ParameterError("high", high, f"above low = {low}")
    if given["ranges"] == "given" and low is None:
        raise ParameterError("ranges", "given", "with low and high, or running")
    if given["ranges"] == "running" and low is not None:
        raise ParameterError("ranges", "running", "without low and high, or given")


@lru_cache(maxsize=256)
def _wide(fac: float, d: int, pexp: float) -> float:
    """Return ``fac * (d/2)^pexp``, in decimal arithmetic: a library's power differs from machine to machine."""
    with localcontext() as context:
        context.prec = 40
        return float(Decimal(fac) * (Decimal(d) / 2) ** Decimal(pexp))


def rules_from(given: dict[str, Any], d: int) -> Rules:
    """Return checked parameters as the kernels see them."""
    mode, running = given["mode"], given["low"] is None
    euclidean = mode == "evq"
    return filled(
        Rules,
        given,
        d=d,
        euclidean=euclidean,
        merges=mode in ("evq-am", "evq-ams"),
        splits=mode == "evq-ams",
        running=running,
        wide=_wide(given["vig"], d, 0.5) if euclidean else _wide(given["fac"], d, given["pexp"]),
        mean=given["init"] == "mean" or (given["init"] is None and running),
        by_class=given["loglik"] == "class",
        consolidate_every=given["consolidate_every"] or 0,
        seed=np.uint64(given["seed"]),
    )


class EVQ(SingleModelEngine):
    """Evolving vector quantisation with ellipsoids that merge and split (AutoClust).

    A cluster is a mean, a covariance and a support: an ellipsoid. A record goes to the nearest one in Mahalanobis
    distance if it lies within its radius, which shrinks as the support grows, and moves mean and covariance; else it
    founds a cluster. Every `check_every` records the winner may merge with the cluster that it overlaps most, if the
    two are compact together, and may be split in two when a normal mixture shows two separate modes along a feature
    or a principal axis of a sample of its records.

    Notes
    -----
    With `low` and `high`, which hold for every feature, the ranges are known; without them they are taken from the
    stream, the first `warmup` records are held back, and a new cluster is as wide as the present ones.

    ``evq-a`` and ``evq-am`` are for records that come cluster by cluster: on a shuffled stream the first cluster takes
    everything and never lets go. ``evq-ams`` splits it.

    The score is ``1 / (1 + (D / r)^2)``: D the Mahalanobis distance to the nearest cluster, r its radius; a record
    below 1/2 is outside and founds a cluster.

    References
    ----------
    E. Lughofer, M. Sayed-Mouchaweh, "Autonomous data stream clustering implementing split-and-merge concepts -
    Towards a plug-and-play approach", Information Sciences, 2015. Equations (1)-(36); those that the
    kernels call corrected are not as printed.

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
    revision: ClassVar[int] = 3
    parameters: ClassVar[tuple[Parameter, ...]] = PARAMETERS
    presets: ClassVar[dict[str, dict[str, Any]]] = {"paper": PAPER}
    criteria = CRITERIA
    further = FURTHER
    most_features: ClassVar[int] = 256
    """Every cluster has two matrices of d x d: with 256 features a megabyte."""

    def __init__(self, **given: Any) -> None:
        super().__init__(**given)
        check_together(self._given)

    def _begin(self, dimension: int, slots: int = layout.SMALLEST, classes: int = 0) -> None:
        self.dimension = dimension
        self._rules = rules_from(self._given, dimension)
        low, high = self._given["low"] or 0.0, self._given["high"] or 0.0
        self._model = layout.new_model(self._rules, low, high, min(slots, self._given["max_clusters"]), classes)
        self._classes = classes

    def _learn(self, batch: FloatArray, labels: IntArray, step: Step) -> None:
        slots, classes = self._model.votes.shape
        self._model = resized(self._model, classes=room_for_classes(classes, self._classes))
        work, done, answers = work_for(self._rules, self._log), 0, arrays_of(step)
        while (done := learn_batch(self._model, self._rules, batch, labels, done, work, *answers)) < len(batch):
            slots = min(max(2 * slots, slots + self._given["warmup"]), self._given["max_clusters"])
            self._model = resized(self._model, slots=slots)

    def _predict(self, batch: FloatArray, answer: Prediction) -> None:
        predict_batch(self._model, self._rules, batch, answer.cluster, answer.score, answer.novel, answer.label)

    def _shapes(self) -> FloatArray:
        shapes: FloatArray = shapes_of(self._model, self._rules, self._model.slot[: self._model.clusters])
        return shapes

    def _facts(self) -> ModelFacts:
        model = self._model
        used = model.slot[: model.clusters]
        ids = model.id[used].tolist()
        since = dict(zip(ids, model.made[used].tolist(), strict=True))
        # A cluster is its own node.
        return ModelFacts((), model.learned, since, {each: each for each in ids})

    def _sampled(self, held: IntArray) -> BoolArray:
        """Return which places of the buffers have a record."""
        sampled: BoolArray = np.arange(self._model.buffer.shape[1]) < held[:, None]
        return sampled

    def _packed(self) -> dict[str, NDArray[Any]]:
        model = self._model
        used, learned = model.slot[: model.clusters], model.learned
        sampled = self._sampled(model.held[used])
        buffers = {"buffer": model.buffer[used][sampled], "buffer_label": model.buffer_label[used][sampled]}
        waiting = learned if learned < len(model.waiting) else 0
        return packed(model, slots=used, warmup=waiting, classes=self._classes) | buffers

    def _restore(self, dimension: int, header: Mapping[str, Any], arrays: Mapping[str, NDArray[Any]]) -> None:
        rules, sizes = rules_from(self._given, dimension), {"d": dimension, "classes": arrays["votes"].shape[1]}
        found, buffers = checked(layout.Model, arrays, **sizes), checked(Buffers, arrays, **sizes)
        learned, count, held = found["learned"], found["slots"], found["held"]
        require(dimension > 0 and sizes["classes"] <= MAX_CLASSES, "sizes")
        require(found["clusters"] == count <= rules.max_clusters and found["events"] <= 4 * learned, "head")
        waits = learned if rules.running and learned < rules.warmup else 0
        require(found["warmup"] == waits and not (waits and count), "waiting")
        most = rules.n_sub if rules.splits else 0
        require((held >= min(most, 1)).all() and (held <= most).all() and buffers["kept"] == held.sum(), "buffers")
        require_covariances(found["cov"], 0.0 if rules.euclidean else sys.float_info.min)
        self._begin(dimension, max(layout.SMALLEST, 2 * count), sizes["classes"])
        put(self._model, found)
        sampled = self._sampled(held)
        self._model.buffer[:count][sampled] = buffers["buffer"]
        self._model.buffer_label[:count][sampled] = buffers["buffer_label"]
        for i in range(count):
            note_shape(self._model, rules, i)
