"""Modal clustering of a stream: landmarks, the density at each, and the hills that no valley divides."""

from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray
from resonance.engine.base import MAGNITUDE, NAMED, Event, FloatArray, IntArray, ModelFacts, Prediction, Step
from resonance.engine.events import SHAPE_HEAD
from resonance.engine.labels import MAX_CLASSES, room_for_classes
from resonance.engine.modal import layout
from resonance.engine.modal.answers import UNUSUAL, predict_batch
from resonance.engine.modal.budget import thin_out
from resonance.engine.modal.density import FEWEST_HITS
from resonance.engine.modal.layout import PARAMETERS, new_model, rules_from
from resonance.engine.modal.learn import learn_batch, measure_anew
from resonance.engine.modal.nearest import UNFILLED, Cells, fill_cells, list_all, new_cells
from resonance.engine.modal.reading import CRITERIA, describe, read_clusters
from resonance.engine.parameters import Parameter
from resonance.engine.shell import SingleModelEngine, arrays_of
from resonance.kernels.table import checked, packed, put, require, resized, room_for


class Modal(SingleModelEngine):
    """Clusters as hills of the density, of any shape, width and number.

    A thousand records of the stream, the landmarks, stand for the others, and more where many clusters need them. Each
    counts the records in a ball around it, which is its density. Now and then the landmarks are read: each belongs to
    the hill that leads up from it, and two hills are one cluster unless the valley between them is deeper than the
    errors of the counts explain. A record has the cluster of its nearest landmark; one that is far from all landmarks
    has none.

    Notes
    -----
    The counts become more exact with every record, so that a steady stream comes to rest: valleys that are there are
    found, errors that looked like one are joined again, and then nothing changes. Where the stream changes, densities
    forget what is older than `memory`, and landmarks move on with clusters that move.

    The score is ``1 / (1 + e^2)``: e the distance to the nearest landmark, in reaches of its ball, or how far one of
    the features is off what the cluster has, in limits, whichever is larger. Beside a landmark in no cluster the
    nearest one that is in a cluster counts, and half the score. Once there are clusters, a record is novel where it is
    in none.

    References
    ----------
    F. Chazal, L. J. Guibas, S. Y. Oudot, P. Skraba, "Persistence-Based Clustering in Riemannian Manifolds", Journal
    of the ACM 60(6), 2013. E. Levina, P. J. Bickel, "Maximum Likelihood Estimation of Intrinsic Dimension", NIPS
    2004.

    Examples
    --------
    >>> import numpy as np
    >>> from resonance.engine import Modal
    >>> rng = np.random.default_rng(0)
    >>> X = rng.normal(size=(2000, 2)) * 0.05 + rng.integers(0, 3, size=(2000, 1))
    >>> model = Modal()
    >>> step = model.learn(X)
    >>> len(model.clusters())
    3
    """

    name: ClassVar[str] = "modal"
    revision: ClassVar[int] = 15
    # The second read its first 200 records more seldom, the third counted no pauses, the fifth knew not what is usual,
    # the sixth counted no steps, the seventh and the eighth divided many clusters more seldom, the tenth later;
    # the eleventh joined what comes in turns sooner, the twelfth kept all landmarks, the thirteenth joined more; the
    # fourteenth found its first clusters later.
    oldest: ClassVar[int] = 2
    parameters: ClassVar[tuple[Parameter, ...]] = PARAMETERS
    criteria = CRITERIA
    robust: ClassVar[bool] = True
    rescales: ClassVar[bool] = True
    unusual: ClassVar[float] = UNUSUAL

    def _begin(self, dimension: int, slots: int = layout.SMALLEST, classes: int = 0) -> None:
        self._rules = rules_from(self._given, dimension)
        self._was_read = False
        self._cells: Cells | None = None
        self._model, self._classes = new_model(self._rules, slots, classes), classes
        self.dimension = dimension

    def _no_answers(self, count: int) -> Step:
        return replace(super()._no_answers(count), outside=np.full((count, NAMED, 4), np.nan))

    def _learn(self, batch: FloatArray, labels: IntArray, step: Step) -> None:
        slots, classes = self._model.votes.shape
        if self._cells is None:
            # Not before: of thousands of streams that a start reads, few have a record soon.
            list_all(self._model, np.empty(slots))
            self._cells = new_cells(self._rules, slots)
        self._model = resized(self._model, classes=room_for_classes(classes, self._classes))
        answers, done = arrays_of(step), 0
        while True:
            own, slots = (self._model, self._rules, self._cells), len(self._model.id)
            done, due = learn_batch(*own, batch, labels, done, np.empty(slots), *answers, step.outside)
            if due:
                # Here and not in the kernel, which would take seconds longer to compile.
                read_clusters(self._model, self._rules, done - 1, self._log)
                if self._model.landmarks > self._model.budget:
                    self._thin_out()
                self._was_read = True
                fill_cells(self._model, self._cells)
            if done == len(batch):
                return
            if due:
                continue
            slots = min(2 * slots, self._model.budget)
            # In this order: cells of the smaller model would be too small, should the next line be interrupted.
            self._cells = new_cells(self._rules, slots)
            self._model = resized(self._model, landmarks=slots, clusters=slots)

    def _thin_out(self) -> None:
        """Go on with as many landmarks as there may be."""
        self._restore(self.dimension, {}, self._packed(thin_out(self._model, self._rules)))
        slots = len(self._model.id)
        measure_anew(self._model, self._rules, np.empty(slots))
        self._cells = new_cells(self._rules, slots)

    def _events(self) -> list[Event]:
        # Only a reading has any, and there is one in hundreds of records.
        found, self._was_read = super()._events() if self._was_read else [], False
        return found

    def _predict(self, batch: FloatArray, answer: Prediction) -> None:
        room = np.empty(len(self._model.id))
        predict_batch(self._model, self._rules, batch, room, answer.cluster, answer.score, answer.novel, answer.label)

    def _shapes(self) -> FloatArray:
        model = self._model
        count = model.clusters
        rows = np.empty((count, SHAPE_HEAD + 2 * self.dimension))
        describe(model, model.place, np.arange(count), rows)
        rows[:, 0] = model.cluster_id[:count]
        return rows[rows[:, 2] > 0.0]

    def _facts(self) -> ModelFacts:
        model = self._model
        count, used = model.clusters, model.landmarks
        ids = model.cluster_id[:count].tolist()
        since = dict(zip(ids, model.made[:count].tolist(), strict=True))
        nodes = zip(model.id[:used].tolist(), model.place[:used].tolist(), strict=True)
        return ModelFacts((), model.learned, since, {node: ids[at] for node, at in nodes if at >= 0})

    @property
    def crowded(self) -> bool:  # noqa: D102
        return self._begun and self._model.crowded > 0

    def rescale(self, factor: FloatArray, shift: FloatArray) -> None:
        """Go on with records in other units: the landmarks lie where they lay, and what they have counted goes on."""
        self._move(lambda at: at * factor + shift)

    def move(self, before: FloatArray, after: FloatArray) -> None:  # noqa: D102
        # A landmark is a record that never moves in between.
        moved = {row.tobytes(): new for row, new in zip(before, after, strict=True)}
        self._move(lambda at: np.array([moved[row.tobytes()] for row in at]))

    def _move(self, moved: Callable[[FloatArray], FloatArray]) -> None:
        """Put landmarks, and the last record, where a function has them."""
        if not self.dimension:
            return
        model, used = self._model, self._model.landmarks
        at = np.vstack((model.at[:, :used].T, model.previous))
        at = np.clip(moved(at), -MAGNITUDE, MAGNITUDE)
        model.at[:, :used], model.previous[:] = at[:-1].T, at[-1]
        # Densities in new units begin to rest anew, and what clusters are known to have shows in these from then on.
        model.rest[: model.clusters], model.narrow[: model.clusters], model.enough = 0, 0.0, model.learned
        if self._cells is not None:
            self._cells.end = UNFILLED
        measure_anew(model, self._rules, np.empty(len(model.id)))

    def _packed(self, landmarks: IntArray | None = None) -> dict[str, NDArray[Any]]:
        used = self._model.landmarks if landmarks is None else landmarks
        return packed(self._model, landmarks=used, clusters=self._model.clusters, classes=self._classes)

    def _restore(self, dimension: int, header: Mapping[str, Any], arrays: Mapping[str, NDArray[Any]]) -> None:
        arrays = layout.completed(arrays)
        classes, records = arrays["votes"].shape[1], int(arrays["head"][0])
        # The largest of all squared distances, and a little more.
        far = 4.1 * MAGNITUDE * MAGNITUDE * dimension
        bounds = {"twice": 2 * records, "farthest": far, "most_hits": records + layout.LISTED}
        found = checked(layout.Model, arrays, d=dimension, classes=classes, **bounds)
        used, clusters, place = found["landmarks"], found["clusters"], found["place"]
        least, budget = self._given["landmarks"], found["budget"]
        require(least <= budget <= max(least, self._given["max_landmarks"]), "budget")
        require(classes <= MAX_CLASSES and used <= budget and clusters <= used, "landmarks")
        require(found["unplaced"] <= records - found["read"], "counters")
        # Every cluster came with one event, and those that are no more went with one.
        require(found["events"] == 2 * found["next_cluster"] - clusters, "events")
        require(not 0.0 < found["dimension"][0] < 1.0, "dimension")
        counting = found["span"] != -1.0
        spans, hits = found["span"] + found["past_span"], found["hits"] + found["past_hits"]
        require((found["span"][counting] >= 0.0).all() and (spans[counting] >= 0.5).all(), "spans")
        require((hits[counting] >= FEWEST_HITS).all(), "hits")
        require(((found["past_hits"] > 0.0) == (found["past_span"] > 0.0)).all(), "hits before")
        nodes = np.bincount(place + 1, minlength=clusters + 1)
        require(nodes[0] == found["loose"] and (nodes[1:] == found["nodes"]).all(), "landmarks of clusters")
        mass = found["mass"].sum()
        require(mass > 0.0 and (np.bincount(place + 1, found["mass"])[np.unique(place + 1)] > 0.0).all(), "masses")
        self._begin(dimension, room_for(used, layout.SMALLEST, lambda slots: min(2 * slots, budget)), classes)
        put(self._model, found)

    @classmethod
    def compile(cls) -> None:  # noqa: D102
        super().compile()
        model = cls()
        model.learn(np.zeros((100, 2)))  # as many as lead to a reading
        model.rescale(np.ones(2), np.zeros(2))
