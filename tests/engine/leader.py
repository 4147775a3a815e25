"""Leader clustering, as an example of an engine: its kernels, its model, and nothing else."""

import numpy as np
from resonance.engine.base import MAGNITUDE, FloatArray, IntArray, ModelFacts
from resonance.engine.events import EMERGED, NO_PATH, NO_REASON, SHAPE_HEAD, VANISHED, emit
from resonance.engine.labels import MAX_CLASSES, majority_label
from resonance.engine.parameters import Parameter
from resonance.engine.shell import SingleModelEngine, arrays_of
from resonance.kernels.arithmetic import jit
from resonance.kernels.table import Table, checked, floats, ints, new, packed, put, require


class Model(Table):
    learned: int = ints(low=1, rows="head")
    leaders: int = ints(low=1, rows="head")
    next_id: int = ints(rows="head")
    events: int = ints(rows="head")
    id: IntArray = ints("leaders", rows="number")
    size: IntArray = ints("leaders", low=1, rows="number")
    won: IntArray = ints("leaders", low=1, high="learned", rows="number")
    at: FloatArray = floats("leaders", "d", most=MAGNITUDE)
    votes: IntArray = ints("leaders", MAX_CLASSES, high="learned")


@jit
def nearest(model, x):
    """Return the leader nearest to a record, -1 where there is none, and its squared distance."""
    near, best = -1, np.inf
    for j in range(model.leaders):
        squared = ((x - model.at[j]) ** 2).sum()
        if near < 0 or squared < best:
            near, best = j, squared
    return near, best


@jit
def shape_of(model, j):
    """Return a leader as a row (id, size, nodes, centre, spread)."""
    shape = np.zeros((1, SHAPE_HEAD + 2 * model.at.shape[1]))
    shape[0, 0], shape[0, 1], shape[0, 2] = model.id[j], model.size[j], 1
    shape[0, SHAPE_HEAD : SHAPE_HEAD + model.at.shape[1]] = model.at[j]
    return shape


@jit
def learn_batch(model, radius, X, labels, log, cluster, score, novel, path):
    """Let each record join its nearest leader within the radius, or become one in the place of the longest idle one."""
    for t in range(len(X)):
        model.learned += 1
        j, squared = nearest(model, X[t])
        if j >= 0:
            cluster[t, 0], score[t] = model.id[j], 1.0 / (1.0 + squared / radius**2)
        novel[t] = j < 0 or squared > radius**2
        if novel[t]:
            why = (NO_REASON, 0.0, 0.0) if j < 0 else (1, np.sqrt(squared), radius)
            j = model.leaders
            if j == len(model.at):
                j = np.argmin(model.won)
                gone, what = shape_of(model, j), (VANISHED, model.id[j], -1)
                model.events = emit(model.events, NO_PATH, t, what, (NO_REASON, 0.0, 0.0), gone, gone[:0], log)
            else:
                model.leaders += 1
            model.id[j], model.size[j], model.at[j], model.votes[j] = model.next_id, 1, X[t], 0
            model.next_id += 1
            new = shape_of(model, j)
            model.events = emit(model.events, NO_PATH, t, (EMERGED, model.id[j], -1), why, new[:0], new, log)
        else:
            model.size[j] += 1
        model.won[j], path[t, 0] = model.learned, model.id[j]
        if labels[t] >= 0:
            model.votes[j, labels[t]] += 1


class Leader(SingleModelEngine):
    """Leader clustering: a record founds a cluster where no leader is within the radius."""

    name, revision, criteria = "leader", 1, ("", "distance")
    parameters = (
        Parameter("radius", float, 0.3, "distance within which a record joins a leader", 1e-6, 1e6),
        Parameter("max_leaders", int, 100, "beyond it the one that won longest ago goes", 2, 1000),
    )

    def _begin(self, dimension):
        self.dimension, self._model = dimension, new(Model, d=dimension, leaders=self._given["max_leaders"])

    def _learn(self, batch, labels, step):
        learn_batch(self._model, self._given["radius"], batch, labels, self._log, *arrays_of(step))

    def _predict(self, batch, answer):
        for t, x in enumerate(batch):
            j, squared = nearest(self._model, x)
            answer.cluster[t, 0], answer.label[t] = self._model.id[j], majority_label(self._model.votes[j])
            answer.score[t] = 1.0 / (1.0 + squared / self._given["radius"] ** 2)
            answer.novel[t] = squared > self._given["radius"] ** 2

    def _shapes(self):
        order = np.argsort(self._model.id[: self._model.leaders])
        return np.concatenate([shape_of(self._model, j) for j in order])

    def _facts(self):
        ids = self._model.id[: self._model.leaders].tolist()
        return ModelFacts((), self._model.learned, {}, {each: each for each in ids})

    def _packed(self):
        return packed(self._model, leaders=self._model.leaders)

    def _restore(self, dimension, header, arrays):
        found = checked(Model, arrays, d=dimension)
        require(found["leaders"] <= self._given["max_leaders"], "leaders")
        self._begin(dimension)
        put(self._model, found)
