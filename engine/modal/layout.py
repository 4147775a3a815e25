"""How a model lies in memory: a column for each landmark, a row for each neighbour list.

A landmark is a record of the stream that stands for those around it. Its place never moves; when the model is full a
new one takes the column of an old one.
"""

from typing import NamedTuple

import numpy as np
from resonance.engine.base import FloatArray, IntArray
from resonance.engine.modal.parameters import Rules

# The head.
N = 0  # records learned
LANDMARKS = 1
NEXT_ID = 2  # of landmarks
NEXT_CLUSTER = 3
EVENTS = 4  # events so far
CLOCK = 5  # records learned that differ from the one before: densities are of these
READ = 6  # records learned at the last reading
UNPLACED = 7  # records without a cluster since the last reading
CLUSTERS = 8
LOOSE = 9  # landmarks in no cluster
HEAD = 10

# Rows of `Model.number`.
ID = 0
PLACE = 1  # of its cluster in `Model.cluster`, -1 for none
LAST = 2  # number of the last record in its ball
COUNT = 3  # records it has stood for
SINCE = 4  # clock when `SPAN` was set
APART = 5  # records learned when a valley was first seen between it and the most of its cluster; 0: none is
NUMBERS = 6

# Rows of `Model.real`.
RADIUS2 = 0  # squared radius of its ball
HITS = 1  # records in its ball within the span, the past counted less
SPAN = 2  # records that the hits are of, up to `SINCE`; below 0: to be estimated at the next reading
MASS = 3  # records it has stood for, the past counted less
REALS = 4

# Rows of `Model.cluster`.
CLUSTER_ID = 0
MADE = 1  # records learned when it emerged
JOINED = 2  # records learned when no valley was first seen between it and another cluster; 0: one is
NODES = 3  # landmarks that it has
RECORDS = 4  # mass of these at the last reading, rounded down, at least 1; and the records placed in it since
MOVES = 5  # 1 where more than a tenth of them were stale then, or units have changed since; 0: it rests
CLUSTER_FIELDS = 6

LISTED = 16
"""Nearest landmarks that a landmark lists; those beyond `neighbours` spare the search when one of them goes."""

STAGGER = 8
"""Columns behind the last landmark: rows that lie a power of two apart share one place in the caches."""
SMALLEST = 64
"""Landmarks that a new model has room for."""


class Model(NamedTuple):
    """A model with room for `slots` landmarks.

    Attributes
    ----------
    head : ndarray of int64
        Counters, see the constants.
    dimension : ndarray of shape (1,)
        Intrinsic dimension of the landmarks at the last reading; 0 before the first.
    previous : ndarray of shape (d,)
        The last record.
    at : ndarray of shape (d, slots + 8)
        Where the landmarks are.
    number : ndarray of int64, shape (6, slots)
        Rows above.
    real : ndarray of shape (4, slots)
        Rows above.
    cluster : ndarray of int64, shape (6, slots)
        The confirmed clusters by ascending id, rows above.
    listed : ndarray of int64, shape (slots, 16)
        The nearest landmarks of each, the nearest first, -1 behind the last. Of equally near ones the first column
        comes first. No other landmark is nearer than the last of a list.
    gap : ndarray of shape (slots, 16)
        Squared distances to them; infinite behind the last.
    farthest : ndarray of shape (slots,)
        Squared distance to the last of each list; infinite as long as a list has all other landmarks.
    votes : ndarray of int64, shape (slots, classes)
        Labels of the records that each has stood for.
    """

    head: IntArray
    dimension: FloatArray
    previous: FloatArray
    at: FloatArray
    number: IntArray
    real: FloatArray
    cluster: IntArray
    listed: IntArray
    gap: FloatArray
    farthest: FloatArray
    votes: IntArray


def new_model(rules: Rules, slots: int, classes: int) -> Model:
    """Return an empty model with room for `slots` landmarks and `classes` labels."""
    return Model(
        head=np.zeros(HEAD, dtype=np.int64),
        dimension=np.zeros(1),
        previous=np.zeros(rules.d),
        at=np.zeros((rules.d, slots + STAGGER)),
        number=np.zeros((NUMBERS, slots), dtype=np.int64),
        real=np.zeros((REALS, slots)),
        cluster=np.zeros((CLUSTER_FIELDS, slots), dtype=np.int64),
        listed=np.full((slots, LISTED), -1, dtype=np.int64),
        gap=np.full((slots, LISTED), np.inf),
        farthest=np.full(slots, np.inf),
        votes=np.zeros((slots, classes), dtype=np.int64),
    )


def resized(model: Model, rules: Rules, slots: int, classes: int) -> Model:
    """Return a copy of a model with room for `slots` landmarks, at least those it has, and `classes` labels."""
    larger = new_model(rules, slots, classes)
    used = int(model.head[LANDMARKS])
    for name in ("head", "dimension", "previous"):
        getattr(larger, name)[...] = getattr(model, name)
    for name in ("at", "number", "real", "cluster"):
        getattr(larger, name)[:, :used] = getattr(model, name)[:, :used]
    for name in ("listed", "gap", "farthest"):
        getattr(larger, name)[:used] = getattr(model, name)[:used]
    larger.votes[:used, : model.votes.shape[1]] = model.votes[:used]
    return larger
