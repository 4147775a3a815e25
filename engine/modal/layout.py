"""The parameters of `Modal`, and how a model lies in memory: a column for each landmark, a row for its neighbours.

A landmark is a record of the stream that stands for those around it. Its place never moves; when the model is full a
new one takes the column of an old one.
"""

from collections.abc import Mapping
from typing import Any, NamedTuple

import numpy as np
from resonance.engine.base import MAGNITUDE, FloatArray, IntArray
from resonance.engine.parameters import MAX, Parameter, filled
from resonance.kernels.table import Numbers, Table, floats, ints, new

PARAMETERS = (
    Parameter("landmarks", int, 1024, "records kept to represent the others", 64, 16_384),
    Parameter("neighbours", int, 8, "landmarks in a ball, whose records are its density", 4, 14),
    Parameter("memory", int, 4_000, "records after which the past counts half", 100, MAX),
    Parameter("valley", float, 0.25, "least depth of a valley between clusters, logarithmic", 0.0, 10.0),
    Parameter("doubt", float, 1.0, "false-split rate relative to the default (1); lower is stricter", 0.001, 1000.0),
    Parameter("reach", float, 3.0, "radii around a landmark beyond which a record is unlike it", 1.0, 100.0),
    Parameter("min_cluster_records", int, 15, "records that make a cluster", 1, MAX),
    Parameter("expire_records", int, 20_000, "records after which a cluster without any vanishes", 100, MAX),
)


class Rules(NamedTuple):
    """The parameters as the kernels see them; names as in `PARAMETERS`."""

    d: int
    landmarks: int
    neighbours: int
    memory: int
    valley: float
    doubt: float
    squared_reach: float
    min_cluster_records: int
    expire_records: int


def rules_from(given: Mapping[str, Any], dimension: int) -> Rules:
    """Return the rules of a model with `dimension` features."""
    return filled(Rules, given, d=dimension, squared_reach=given["reach"] * given["reach"])


# The head: records learned, landmarks, their next id, the next cluster, events so far; CLOCK counts the records learned
# that differ from the one before: densities are of these; READ is the records learned at the last reading, UNPLACED
# those without a cluster since; clusters, and landmarks in none.
N, LANDMARKS, NEXT_ID, NEXT_CLUSTER, EVENTS, CLOCK, READ, UNPLACED, CLUSTERS, LOOSE = range(10)

# Rows of `Model.number`: id, place of its cluster in `Model.cluster` or -1, number of the last record in its ball,
# records it has stood for, clock when `SPAN` was set, and the records learned when a valley was first seen between it
# and the most of its cluster, 0 where none is.
ID, PLACE, LAST, COUNT, SINCE, APART = range(6)

# Rows of `Model.real`: squared radius of its ball; records in its ball within the span, the past counted less; records
# that the hits are of, up to `SINCE`, below 0 where that is to be estimated at the next reading; records it has stood
# for, the past counted less.
RADIUS2, HITS, SPAN, MASS = range(4)

# Rows of `Model.cluster`: id; records learned when it emerged; records learned when no valley was first seen between it
# and another cluster, 0 where one is; landmarks that it has; the mass of these at the last reading, rounded down, at
# least 1, and the records placed in it since; 1 where more than a tenth of them were stale then, or units have changed
# since.
CLUSTER_ID, MADE, JOINED, NODES, RECORDS, MOVES = range(6)

LISTED = 16
"""Nearest landmarks that a landmark lists; those beyond `neighbours` spare the search when one of them goes."""

STAGGER = 8
"""Columns behind the last landmark: rows that lie a power of two apart share one place in the caches."""
SMALLEST = 64
"""Landmarks that a new model has room for."""
_LONGEST_SPAN = 1e293


class Model(Table):
    """A model with room for so many landmarks."""

    head: IntArray = ints((
        Numbers(1, name="learned"), Numbers(1, "learned", name="landmarks"), Numbers(high="learned", name="next_id"),
        Numbers(name="next_cluster"), Numbers(name="events"), Numbers(1, "learned", name="clock"), Numbers(name="read"),
        Numbers(name="unplaced"), Numbers(high="landmarks", name="clusters"), Numbers(name="loose"),
    ))  # fmt: skip
    dimension: FloatArray = floats(1, low=0.0, high="d")  # intrinsic, at the last reading; 0 before the first
    previous: FloatArray = floats("d", most=MAGNITUDE)  # the last record
    at: FloatArray = floats("d", f"landmarks+{STAGGER}", most=MAGNITUDE, turned=True)
    # A record may count twice: with its nearest landmark, and as one itself.
    number: IntArray = ints((
        Numbers(below="next_id", distinct=True), Numbers(-1, below="clusters", name="place"), Numbers(1, "learned"),
        Numbers(1, "twice", total="twice", name="count"), Numbers(1, "clock"), Numbers(high="learned"),
    ), "landmarks")  # fmt: skip
    real: FloatArray = floats((
        Numbers(high="farthest"), Numbers(high="most_hits", name="hits"), Numbers(-1.0, _LONGEST_SPAN, name="span"),
        Numbers(high="twice", total="twice", name="mass"),
    ), "landmarks")  # fmt: skip
    # The confirmed clusters by ascending id.
    cluster: IntArray = ints((
        Numbers(below="next_cluster", ascending=True), Numbers(1, "learned"), Numbers(high="learned"),
        Numbers(name="nodes"), Numbers(1, "twice"), Numbers(high=1),
    ), "clusters")  # fmt: skip
    # The nearest landmarks of each, the nearest first, -1 behind the last, and squared distances to them, infinite
    # behind the last. Of equally near ones the first column comes first. No other landmark is nearer than the last of a
    # list.
    listed: IntArray = ints("landmarks", LISTED, fill=-1, stored=False)
    gap: FloatArray = floats("landmarks", LISTED, fill=np.inf, stored=False)
    farthest: FloatArray = floats("landmarks", fill=np.inf, stored=False)  # to the last; infinite where a list has all
    votes: IntArray = ints("landmarks", "classes", high="learned", total="count")  # labels of records stood for


def new_model(rules: Rules, slots: int, classes: int) -> Model:
    """Return an empty model with room for `slots` landmarks and `classes` labels."""
    return new(Model, d=rules.d, landmarks=slots, clusters=slots, classes=classes)
