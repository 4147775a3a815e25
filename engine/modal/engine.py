"""Modal clustering of a stream: landmarks, the density at each, and the hills that no valley divides."""

from collections.abc import Sequence
from typing import Any, ClassVar, Self

import numpy as np
from numba import types
from numba.typed import List
from numpy.typing import ArrayLike, NDArray
from resonance.engine.base import MAGNITUDE, Cluster, Engine, FloatArray, IntArray, Prediction, Step, check_batch
from resonance.engine.classes import MAX_CLASSES, record_labels
from resonance.engine.errors import ParameterError, StateError
from resonance.engine.events import SHAPE_HEAD, cluster_of, events_from
from resonance.engine.facts import ModelFacts, Path
from resonance.engine.modal.batch import learn_batch, predict_batch
from resonance.engine.modal.cells import END, UNFILLED, new_cells
from resonance.engine.modal.landmarks import move_landmarks
from resonance.engine.modal.model import (
    CLUSTER_ID,
    CLUSTERS,
    ID,
    LANDMARKS,
    MADE,
    PLACE,
    SMALLEST,
    N,
    new_model,
    resized,
)
from resonance.engine.modal.parameters import PARAMETERS, rules_from
from resonance.engine.modal.reading import CRITERIA, describe
from resonance.engine.modal.state import packed, unpacked
from resonance.engine.parameters import Parameter, check_parameters
from resonance.engine.state import pack, unpack


class Modal(Engine):
    """Clusters as hills of the density, of any shape, width and number.

    About a thousand records of the stream, the landmarks, stand for the others. Each counts the records in a ball
    around it, which is its density. Now and then the landmarks are read: each belongs to the hill that leads up from
    it, and two hills are one cluster unless the valley between them is deeper than the errors of the counts explain.
    A record has the cluster of its nearest landmark; one that is far from all landmarks has none.

    Parameters
    ----------
    **given : object
        By the names in `Modal.parameters`, where ranges and defaults stand.

    Notes
    -----
    The counts become more exact with every record, so that a steady stream comes to rest: valleys that are there are
    found, errors that looked like one are joined again, and then nothing changes. Densities forget with `memory`,
    landmarks move on with clusters that move.

    The score is ``1 / (1 + (D / r)^2)``: D the distance to the nearest landmark, r the reach of its ball; half of that
    where this landmark is in no cluster. Once there are clusters, a record is novel where it is in none.

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
    revision: ClassVar[int] = 1
    parameters: ClassVar[tuple[Parameter, ...]] = PARAMETERS
    robust: ClassVar[bool] = True
    rescales: ClassVar[bool] = True

    def __init__(self, **given: Any) -> None:
        self._given = check_parameters(self.parameters, given)
        self.depth = 1
        self.dimension = 0

    def _begin(self, dimension: int, slots: int, classes: int) -> None:
        """Take the dimension of the first batch."""
        self._rules = rules_from(self._given, dimension)
        self._cells = new_cells(self._rules, slots)
        self._model = new_model(self._rules, slots, classes)
        self.dimension = dimension

    def learn(self, X: ArrayLike, labels: Sequence[int] | NDArray[np.int64] | None = None) -> Step:  # noqa: D102
        return self.trace(X, labels)[0]

    def trace(
        self, X: ArrayLike, labels: Sequence[int] | NDArray[np.int64] | None = None, each: bool = False
    ) -> tuple[Step, IntArray]:
        """Learn like `learn`, and with `each` also return the number of clusters after each record.

        Returns
        -------
        Step
            As `learn`.
        ndarray of int64, shape (n,)
            Clusters afterwards; empty without `each`.
        """
        batch = check_batch(X, self.dimension)
        marks = record_labels(labels, len(batch))
        count = len(batch)
        cluster, node = np.full((count, 1), -1, dtype=np.int64), np.full((count, 1), -1, dtype=np.int64)
        score, novel = np.full(count, np.nan), np.empty(count, dtype=np.bool_)
        counted = np.empty(count if each else 0, dtype=np.int64)
        if count == 0:
            return Step(cluster, score, novel, node), counted
        classes = int(marks.max()) + 1
        if not self.dimension:
            self._begin(batch.shape[1], SMALLEST, classes)
        slots = self._model.number.shape[1]
        if classes > self._model.votes.shape[1]:
            self._model = resized(self._model, self._rules, slots, classes)
        log = List.empty_list(types.float64[::1])
        done = 0
        while True:
            squared = np.empty(slots)
            done = learn_batch(
                self._model,
                self._rules,
                self._cells,
                batch,
                marks,
                done,
                squared,
                cluster,
                score,
                novel,
                node,
                counted,
                log,
            )
            if done == count:
                break
            slots = min(2 * slots, self._rules.landmarks)
            # In this order: cells of the smaller model would be too small, should the next line be interrupted.
            self._cells = new_cells(self._rules, slots)
            self._model = resized(self._model, self._rules, slots, self._model.votes.shape[1])
        return Step(cluster, score, novel, node, events_from(log, self.dimension, CRITERIA)), counted

    def predict(self, X: ArrayLike) -> Prediction:  # noqa: D102
        batch = check_batch(X, self.dimension)
        count = len(batch)
        cluster, label = np.full((count, 1), -1, dtype=np.int64), np.full(count, -1, dtype=np.int64)
        score = np.full(count, np.nan)
        if self.dimension and count:
            room = np.empty(self._model.number.shape[1])
            predict_batch(self._model, self._rules, batch, room, cluster, score, label)
        return Prediction(cluster, score, label)

    def clusters(self) -> list[Cluster]:  # noqa: D102
        if not self.dimension:
            return []
        model = self._model
        count = int(model.head[CLUSTERS])
        rows = np.empty((count, SHAPE_HEAD + 2 * self.dimension))
        describe(model, model.number[PLACE], np.arange(count), rows)
        rows[:, 0] = model.cluster[CLUSTER_ID, :count]
        return [cluster_of(row, (), self.dimension) for row in rows if row[2]]

    def models(self) -> dict[Path, ModelFacts]:  # noqa: D102
        if not self.dimension:
            return {}
        model = self._model
        count, used = int(model.head[CLUSTERS]), int(model.head[LANDMARKS])
        ids = model.cluster[CLUSTER_ID, :count].tolist()
        since = dict(zip(ids, model.cluster[MADE, :count].tolist(), strict=True))
        nodes = zip(model.number[ID, :used].tolist(), model.number[PLACE, :used].tolist(), strict=True)
        cluster_of = {node: ids[place] for node, place in nodes if place >= 0}
        return {(): ModelFacts((), int(model.head[N]), since, cluster_of)}

    def rescale(self, factor: FloatArray, shift: FloatArray) -> None:
        """Go on with records in other units: the landmarks lie where they lay, and their densities are counted anew.

        Parameters
        ----------
        factor, shift : ndarray of shape (d,)
            Of each feature; factors above 0.
        """
        if self.dimension:
            room = np.empty(self._model.number.shape[1])
            self._cells.head[END] = UNFILLED
            move_landmarks(self._model, self._rules, factor, shift, MAGNITUDE, room)

    def state(self) -> bytes:  # noqa: D102
        header: dict[str, Any] = {"parameters": self._given, "dimension": self.dimension}
        return pack(self.name, self.revision, header, packed(self._model) if self.dimension else {})

    @classmethod
    def from_state(cls, data: bytes) -> Self:  # noqa: D102
        header, arrays = unpack(data, cls.name, cls.revision)
        try:
            model = cls.make(header["parameters"])
            dimension = header["dimension"]
            if type(dimension) is not int or dimension < 0:
                raise ValueError(f"{dimension!r} features")
            if arrays or dimension:
                used, classes = arrays["votes"].shape
                if classes > MAX_CLASSES:
                    raise ValueError(f"{classes} classes")
                # What is made room for is no larger than what is there.
                if not 1 <= used == arrays["number"].shape[1] or arrays["at"].shape != (used, dimension):
                    raise ValueError("landmarks")
                slots = SMALLEST
                while slots < used:
                    slots = min(2 * slots, model._given["landmarks"])
                    if slots == model._given["landmarks"]:
                        break
                model._begin(dimension, slots, classes)
                unpacked(model._model, model._rules, arrays)
        except (KeyError, TypeError, ValueError, AttributeError, IndexError, ParameterError) as error:
            raise StateError(f"the state of {cls.name} does not hold what it says it holds: {error}") from error
        return model

    @classmethod
    def compile(cls) -> None:
        """Compile every kernel, or load it from the cache, before the first record comes."""
        model = cls(min_cluster_records=2)
        model.learn(np.arange(240.0).reshape(120, 2) % 17.0, labels=[0] * 120)
        model.predict(np.zeros((1, 2)))
        cls.from_state(model.state()).clusters()
        model.rescale(np.ones(2), np.zeros(2))
