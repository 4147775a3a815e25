"""eVQ, eVQ-A, eVQ-AM and eVQ-AMS: ellipsoids that follow a stream, merge and split."""

import sys
from collections.abc import Mapping
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray
from resonance.engine.base import BoolArray, FloatArray, IntArray, ModelFacts, Prediction, Step
from resonance.engine.evq import layout
from resonance.engine.evq.layout import CRITERIA, FURTHER, Buffers, note_shape, shapes_of, work_for
from resonance.engine.evq.learn import learn_batch, predict_batch
from resonance.engine.evq.parameters import PAPER, PARAMETERS, check_together, rules_from
from resonance.engine.labels import MAX_CLASSES, room_for_classes
from resonance.engine.parameters import Parameter
from resonance.engine.shell import SingleModelEngine, arrays_of
from resonance.kernels.table import checked, packed, put, require, require_covariances, resized


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
