"""How a model of the eVQ family lies in memory: one array for each thing that a cluster has, one row each.

A row is called a slot. Clusters are listed in ascending id by their slots, so that one that ends moves no matrices:
its slot only goes behind the listed ones. A model that grows is a new set of arrays.
"""

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray
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


class Model(NamedTuple):
    """A model. `slot` lists the clusters by ascending id; all that follows it has a row for each slot.

    Attributes
    ----------
    head : ndarray of int64
        Counters, see the constants.
    lo, hi : ndarray of shape (d,)
        Range of each feature.
    waiting : ndarray of shape (warmup, d)
        The records of the warm-up.
    waiting_label : ndarray of int64, shape (warmup,)
        Their labels.
    slot : ndarray of int64
        Slots of the clusters, then the free ones.
    id, k, last, fresh, held, made : ndarray of int64
        Id, support, number of the record won last, records in the buffer since its last split test, records in the
        buffer, records accepted when the cluster was founded.
    centre : ndarray of shape (slots, d)
        c.
    cov, inv : ndarray of shape (slots, d, d)
        C and P, its inverse; Euclidean clusters have the diagonal of C only.
    radius, trace, logdet : ndarray
        What follows from k and C: r(k), the trace, and ln det C (NaN: not known).
    buffer : ndarray of shape (slots, n_sub, d)
        A sample of the records won; none without splits.
    buffer_label : ndarray of int64, shape (slots, n_sub)
        Their labels.
    votes : ndarray of int64, shape (slots, classes)
        Labels of the records won.
    """

    head: IntArray
    lo: FloatArray
    hi: FloatArray
    waiting: FloatArray
    waiting_label: IntArray
    slot: IntArray
    id: IntArray
    k: IntArray
    last: IntArray
    fresh: IntArray
    held: IntArray
    made: IntArray
    centre: FloatArray
    cov: NDArray[np.float64]
    inv: NDArray[np.float64]
    radius: FloatArray
    trace: FloatArray
    logdet: FloatArray
    buffer: NDArray[np.float64]
    buffer_label: IntArray
    votes: IntArray


ROWS = Model._fields.index("id")
"""Where the fields begin that have a row for each slot."""


def new_model(rules: Rules, low: float, high: float, slots: int, classes: int) -> Model:
    """Return an empty model with room for `slots` clusters and `classes` labels."""
    d, held = rules.d, rules.n_sub if rules.splits else 0
    waiting = rules.warmup if rules.running else 0
    return Model(
        head=np.zeros(HEAD, dtype=np.int64),
        lo=np.full(d, np.inf if rules.running else low),
        hi=np.full(d, -np.inf if rules.running else high),
        waiting=np.zeros((waiting, d)),
        waiting_label=np.zeros(waiting, dtype=np.int64),
        slot=np.arange(slots, dtype=np.int64),
        id=np.zeros(slots, dtype=np.int64),
        k=np.zeros(slots, dtype=np.int64),
        last=np.zeros(slots, dtype=np.int64),
        fresh=np.zeros(slots, dtype=np.int64),
        held=np.zeros(slots, dtype=np.int64),
        made=np.zeros(slots, dtype=np.int64),
        centre=np.zeros((slots, d)),
        cov=np.zeros((slots, d, d)),
        inv=np.zeros((slots, d, d)),
        radius=np.zeros(slots),
        trace=np.zeros(slots),
        logdet=np.full(slots, np.nan),
        buffer=np.zeros((slots, held, d)),
        buffer_label=np.zeros((slots, held), dtype=np.int64),
        votes=np.zeros((slots, classes), dtype=np.int64),
    )


def resized(model: Model, rules: Rules, slots: int, classes: int) -> Model:
    """Return a copy of a model with room for `slots` clusters, at least those it has, and `classes` labels."""
    larger = new_model(rules, 0.0, 0.0, slots, classes)
    used = model.slot[: model.head[K]]
    for at, name in enumerate(Model._fields):
        if name == "votes":
            larger.votes[: len(used), : model.votes.shape[1]] = model.votes[used]
        elif at >= ROWS:
            larger[at][: len(used)] = model[at][used]
        elif name != "slot":
            larger[at][...] = model[at]
    return larger


@inline
def width(model, a):
    """Return the width w of feature `a`."""
    w = model.hi[a] - model.lo[a]
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
    model.radius[i] = radius_of(rules, model.k[i])
    model.logdet[i] = np.nan


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
    model.id[i] = model.head[NEXT_ID]
    model.head[NEXT_ID] += 1
    model.made[i] = model.head[N]
    model.held[i] = 0
    model.fresh[i] = 0
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
