"""How a model of the eVQ family lies in memory: one array for each thing that a cluster has, one row each.

A row is called a slot. Clusters are listed in ascending id by their slots, so that one that ends moves no matrices:
its slot only goes behind the listed ones. A model that grows is a new set of arrays.
"""

from typing import NamedTuple

import numpy as np
from numba.typed import List
from resonance.engine import events
from resonance.engine.base import MAGNITUDE, FloatArray, IntArray
from resonance.engine.events import NO_PATH, SHAPE_HEAD
from resonance.kernels.arithmetic import exp_minus, inline, jit, log1p
from resonance.kernels.table import Table, floats, ints, new

SMALLEST = 8
"""Clusters that a new model has room for."""

NARROWEST = 1e-130
"""A range below this counts as none: squares of its parts would be no floats any more."""


class Rules(NamedTuple):
    """The parameters of a model, as the kernels see them."""

    d: int
    euclidean: bool
    merges: bool
    splits: bool
    running: bool
    warmup: int
    wide: float  # radius of a cluster with endless support
    m: float
    sig0: float
    mean: bool
    kap: float
    frac: float
    check_every: int
    thr: float
    volp: float
    n_sub: int
    min_sub: int
    kmax: int
    pcs: bool
    crit: float
    margin: float
    by_class: bool
    em_iter: int
    em_tol: float
    refresh: int
    max_clusters: int
    consolidate_every: int
    seed: np.uint64


class Model(Table):
    """A model; from `slot` on arrays have a row for each slot."""

    learned: int = ints(low=1, rows="head")  # records accepted
    clusters: int = ints(rows="head")
    next_id: int = ints(high="learned", rows="head")
    events: int = ints(rows="head")  # so far
    ranges: FloatArray = floats(2, "d", most=2.0 * MAGNITUDE)  # lowest and highest value of each feature
    waiting: FloatArray = floats("warmup", "d", most=2.0 * MAGNITUDE)  # the records of the warm-up
    waiting_label: IntArray = ints("warmup", low=-1, below="classes")
    slot: IntArray = ints("slots", fill=np.arange, stored=False)  # of the clusters by ascending id, then the free ones
    id: IntArray = ints("slots", below="next_id", ascending=True, columns="number")
    support: IntArray = ints("slots", low=1, high="learned", total="learned", columns="number")  # k
    last: IntArray = ints("slots", below="learned", columns="number")  # number of the record won last
    fresh: IntArray = ints("slots", columns="number")  # records that entered the buffer since its last split test
    held: IntArray = ints("slots", columns="number")  # records in the buffer
    made: IntArray = ints("slots", low=1, high="learned", columns="number")  # records accepted when it was founded
    radius: FloatArray = floats("slots", stored=False)  # r(k)
    trace: FloatArray = floats("slots", stored=False)  # of C
    logdet: FloatArray = floats("slots", stored=False)  # ln det C, NaN while it is not known
    centre: FloatArray = floats("slots", "d", most=2.0 * MAGNITUDE)  # c
    cov: FloatArray = floats("slots", "d", "d")  # C, of Euclidean clusters its diagonal
    inv: FloatArray = floats("slots", "d", "d")  # P, its inverse
    buffer: FloatArray = floats("slots", "sample", "d", stored=False)  # of the records won; none without splits
    buffer_label: IntArray = ints("slots", "sample", stored=False)
    votes: IntArray = ints("slots", "classes", high="support")  # labels of the records won


class Buffers(Table):
    """What a state has of the buffers, one behind the other."""

    buffer: FloatArray = floats("kept", "d", most=2.0 * MAGNITUDE)
    buffer_label: IntArray = ints("kept", low=-1, below="classes")


class Work(NamedTuple):
    """Vectors and matrices of d features, and the rows of events (see `engine.events`)."""

    v: FloatArray
    u: FloatArray
    scale: FloatArray
    upper: FloatArray
    square: FloatArray
    log: List


def work_for(rules: Rules, log: List) -> Work:
    """Return room for steps that append their events to a log."""
    d = rules.d
    return Work(np.empty(d), np.empty(d), np.empty(d), np.zeros((d, d)), np.empty((d, d)), log)


def new_model(rules: Rules, low: float, high: float, slots: int, classes: int) -> Model:
    """Return an empty model with room for `slots` clusters and `classes` labels."""
    sizes = {"warmup": rules.warmup if rules.running else 0, "sample": rules.n_sub if rules.splits else 0}
    model = new(Model, d=rules.d, slots=slots, classes=classes, **sizes)
    model.ranges.T[:] = (np.inf, -np.inf) if rules.running else (low, high)
    return model


@inline
def width(model, a):
    """Return the width w of feature `a`."""
    w = model.ranges[1, a] - model.ranges[0, a]
    return w if w > NARROWEST else 1.0


@jit
def radius_of(rules, k):
    """Return r(k): ``fac * (d/2)^pexp / (1 - 1/(k+1))^m`` (7), corrected; of `evq` the common threshold (8)."""
    if rules.euclidean:
        return rules.wide
    return rules.wide / exp_minus(rules.m * log1p(1.0 / k))


@jit
def note_shape(model, rules, i):
    """Bring what follows from support and covariance of slot `i` up to date."""
    total = 0.0
    for a in range(rules.d):
        total += model.cov[i, a, a]
    model.trace[i] = total
    model.radius[i] = radius_of(rules, model.support[i])
    model.logdet[i] = np.nan


@jit
def remove(model, place):
    """Remove the cluster that is listed at `place`."""
    clusters = model.clusters
    free = model.slot[place]
    model.slot[place : clusters - 1] = model.slot[place + 1 : clusters]
    model.slot[clusters - 1] = free
    model.clusters = clusters - 1


@jit
def append(model):
    """List a new cluster with the next id, founded now; return its slot."""
    i = model.slot[model.clusters]
    model.clusters += 1
    model.id[i] = model.next_id
    model.next_id += 1
    model.made[i] = model.learned
    model.held[i] = 0
    model.fresh[i] = 0
    model.votes[i] = 0
    return i


@jit
def place_of(model, i):
    """Return where slot `i` is listed."""
    place = 0
    while model.slot[place] != i:
        place += 1
    return place


NO_CRITERION, OUTSIDE, OVERLAP, SEPARATION, LIMIT = 0, 1, 2, 3, 4
CRITERIA = ("", "distance", "overlap", "separation", "max_clusters")
FURTHER = {
    "overlap": ("volume_ratio", "volume_limit"),
    "separation": ("components", "bic_gain", "bic_margin"),
}
"""Names of the further values of some criteria."""

_LARGEST = 1.7e308
"""A reason is a finite number."""


@jit
def shapes_of(model, rules, slots):
    """Return slots as rows (id, size, nodes, centre, spread)."""
    d = rules.d
    shapes = np.ones((len(slots), SHAPE_HEAD + 2 * d))
    for row in range(len(slots)):
        i, shape = slots[row], shapes[row]
        shape[0], shape[1] = model.id[i], model.support[i]
        shape[SHAPE_HEAD : SHAPE_HEAD + d] = model.centre[i]
        shape[SHAPE_HEAD + d :] = np.sqrt(np.diag(model.cov[i]))
    return shapes


@jit
def emit(model, work, t, what, criterion, value, threshold, before, after):
    """Append an event to the log; `what` and the rows of clusters are as in `engine.events.emit`."""
    why = (criterion, min(value, _LARGEST), threshold)
    model.events = events.emit(model.events, NO_PATH, t, what, why, before, after, work.log)


@jit
def note_further(work, first, second, third):
    """Add to the last event what else decided."""
    row = work.log[len(work.log) - 1]
    row[events.E_FURTHER], row[events.E_FURTHER + 1], row[events.E_FURTHER + 2] = first, second, third
