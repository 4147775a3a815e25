"""How a model of the eVQ family lies in memory: one array for each thing that a cluster has, one row each.

A row is called a slot. Clusters are listed in ascending id by their slots, so that one that ends moves no matrices:
its slot only goes behind the listed ones. A model that grows is a new set of arrays.
"""

from typing import NamedTuple

import numpy as np
from resonance.engine.arithmetic import exp_minus, inline, jit, log1p
from resonance.engine.base import FloatArray, IntArray

# The head.
N = 0  # records accepted
K = 1  # clusters
NEXT_ID = 2
EVENTS = 3  # events so far
HEAD = 4

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


# Columns of `Model.number`.
ID = 0
SUPPORT = 1  # k
LAST = 2  # number of the record won last
FRESH = 3  # records that entered the buffer since its last split test
HELD = 4  # records in the buffer
MADE = 5  # records accepted when the cluster was founded
NUMBERS = 6

# Columns of `Model.shape`: what follows from support and covariance.
RADIUS = 0  # r(k)
TRACE = 1
LOGDET = 2  # ln det C; NaN while it is not known
SHAPES = 3


class Model(NamedTuple):
    """A model. `slot` lists the clusters by ascending id; all that follows it has a row for each slot.

    Attributes
    ----------
    head : ndarray of int64
        Counters, see the constants.
    ranges : ndarray of shape (2, d)
        Lowest and highest value of each feature.
    waiting : ndarray of shape (warmup, d)
        The records of the warm-up.
    waiting_label : ndarray of int64, shape (warmup,)
        Their labels.
    slot : ndarray of int64
        Slots of the clusters, then the free ones.
    number : ndarray of int64, shape (slots, 6)
        Columns above.
    shape : ndarray of shape (slots, 3)
        Columns above.
    centre : ndarray of shape (slots, d)
        c.
    cov, inv : ndarray of shape (slots, d, d)
        C and P, its inverse; Euclidean clusters have the diagonal of C only.
    buffer : ndarray of shape (slots, n_sub, d)
        A sample of the records won; none without splits.
    buffer_label : ndarray of int64, shape (slots, n_sub)
        Their labels.
    votes : ndarray of int64, shape (slots, classes)
        Labels of the records won.
    """

    head: IntArray
    ranges: FloatArray
    waiting: FloatArray
    waiting_label: IntArray
    slot: IntArray
    number: IntArray
    shape: FloatArray
    centre: FloatArray
    cov: FloatArray
    inv: FloatArray
    buffer: FloatArray
    buffer_label: IntArray
    votes: IntArray


def new_model(rules: Rules, low: float, high: float, slots: int, classes: int) -> Model:
    """Return an empty model with room for `slots` clusters and `classes` labels."""
    d, held = rules.d, rules.n_sub if rules.splits else 0
    waiting = rules.warmup if rules.running else 0
    ends = (np.inf, -np.inf) if rules.running else (low, high)
    return Model(
        head=np.zeros(HEAD, dtype=np.int64),
        ranges=np.repeat(np.array(ends)[:, None], d, axis=1),
        waiting=np.zeros((waiting, d)),
        waiting_label=np.zeros(waiting, dtype=np.int64),
        slot=np.arange(slots, dtype=np.int64),
        number=np.zeros((slots, NUMBERS), dtype=np.int64),
        shape=np.zeros((slots, SHAPES)),
        centre=np.zeros((slots, d)),
        cov=np.zeros((slots, d, d)),
        inv=np.zeros((slots, d, d)),
        buffer=np.zeros((slots, held, d)),
        buffer_label=np.zeros((slots, held), dtype=np.int64),
        votes=np.zeros((slots, classes), dtype=np.int64),
    )


def resized(model: Model, rules: Rules, slots: int, classes: int) -> Model:
    """Return a copy of a model with room for `slots` clusters, at least those it has, and `classes` labels."""
    larger = new_model(rules, 0.0, 0.0, slots, classes)
    used = model.slot[: model.head[K]]
    for name in ("head", "ranges", "waiting", "waiting_label"):
        getattr(larger, name)[...] = getattr(model, name)
    for name in ("number", "shape", "centre", "cov", "inv", "buffer", "buffer_label"):
        getattr(larger, name)[: len(used)] = getattr(model, name)[used]
    larger.votes[: len(used), : model.votes.shape[1]] = model.votes[used]
    return larger


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
    model.shape[i, TRACE] = total
    model.shape[i, RADIUS] = radius_of(rules, model.number[i, SUPPORT])
    model.shape[i, LOGDET] = np.nan


@jit
def remove(model, place):
    """Remove the cluster that is listed at `place`."""
    clusters = model.head[K]
    free = model.slot[place]
    for at in range(place, clusters - 1):
        model.slot[at] = model.slot[at + 1]
    model.slot[clusters - 1] = free
    model.head[K] = clusters - 1


@jit
def append(model):
    """List a new cluster with the next id, founded now; return its slot."""
    i = model.slot[model.head[K]]
    model.head[K] += 1
    model.number[i, ID] = model.head[NEXT_ID]
    model.head[NEXT_ID] += 1
    model.number[i, MADE] = model.head[N]
    model.number[i, HELD] = 0
    model.number[i, FRESH] = 0
    for label in range(model.votes.shape[1]):
        model.votes[i, label] = 0
    return i


@jit
def place_of(model, i):
    """Return where slot `i` is listed."""
    place = 0
    while model.slot[place] != i:
        place += 1
    return place
