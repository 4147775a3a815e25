"""The parameters of `Modal`, and how a model lies in memory: a column for each landmark, a row for its neighbours.

A landmark is a record of the stream that stands for those around it. Its place never moves; when the model is full a
new one takes the column of an old one.
"""

from collections.abc import Mapping
from typing import Any, NamedTuple

import numpy as np
from resonance.engine.base import MAGNITUDE, FloatArray, IntArray
from resonance.engine.parameters import MAX, Parameter, filled
from resonance.kernels.table import Table, floats, ints, new

PARAMETERS = (
    Parameter("landmarks", int, 1024, "records kept to represent the others", 64, 16_384),
    Parameter("max_landmarks", int, 8192, "landmarks where many clusters need more", 64, 16_384),
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
    max_landmarks: int
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


LISTED = 16
"""Nearest landmarks that a landmark lists; those beyond `neighbours` spare the search when one of them goes."""

STAGGER = 8
"""Columns behind the last landmark: rows that lie a power of two apart share one place in the caches."""
SMALLEST = 64
"""Landmarks that a new model has room for."""
_LONGEST_SPAN = 1e293
LONGEST = 1e140
"""Records whose square is a number."""


class Model(Table):
    """A model with room for so many landmarks."""

    learned: int = ints(low=1, rows="head")  # records
    landmarks: int = ints(low=1, high="learned", rows="head")
    next_id: int = ints(high="learned", rows="head")
    next_cluster: int = ints(rows="head")
    events: int = ints(rows="head")  # so far
    clock: int = ints(low=1, high="learned", rows="head")  # records unlike the one before: densities are of these
    read: int = ints(rows="head")  # records learned at the last reading
    unplaced: int = ints(rows="head")  # records without a cluster since
    clusters: int = ints(high="landmarks", rows="head")
    loose: int = ints(rows="head")  # landmarks in no cluster
    budget: int = ints(rows="head")  # landmarks that it may have
    enough: int = ints(high="learned", rows="head")  # records learned at the last reading that needed no more of them
    crowded: int = ints(high=1, rows="head")  # 1 where more were needed for long, and there may be no more
    dimension: FloatArray = floats(1, low=0.0, high="d")  # intrinsic, at the last reading; 0 before the first
    dispersion: FloatArray = floats(1, low=0.0)  # the variance of counts beside theirs, at the last reading; 0 before
    steps: IntArray = ints(1, high="learned")  # of late, to a record from one unlike it
    stays: IntArray = ints(1, high="learned")  # of these, to one with the same nearest landmark
    spare: IntArray = ints(1, high="learned")  # records learned at the last reading that half would not do for
    previous: FloatArray = floats("d", most=MAGNITUDE)  # the last record
    at: FloatArray = floats("d", f"landmarks+{STAGGER}", most=MAGNITUDE, turned=True)
    id: IntArray = ints("landmarks", below="next_id", distinct=True, rows="number")
    place: IntArray = ints("landmarks", low=-1, below="clusters", rows="number")  # of its cluster, or -1
    last: IntArray = ints("landmarks", low=1, high="learned", rows="number")  # number of the last record in its ball
    # Records stood for. A record may count twice: with its nearest landmark, and as one itself.
    count: IntArray = ints("landmarks", low=1, high="twice", total="twice", rows="number")
    since: IntArray = ints("landmarks", low=1, high="clock", rows="number")  # the clock when `span` was set
    # Records learned when a valley was first seen between it and the most of its cluster, 0 where none is.
    apart: IntArray = ints("landmarks", high="learned", rows="number")
    met: IntArray = ints("landmarks", low=1, high="clock", rows="number")  # the clock at the last hit of its ball
    radius2: FloatArray = floats("landmarks", low=0.0, high="farthest", rows="real")  # squared radius of its ball
    # Records in its ball within the span.
    hits: FloatArray = floats("landmarks", low=0.0, high="most_hits", rows="real")
    # Records that the hits are of, up to `since`, below 0 where that is to be estimated at the next reading.
    span: FloatArray = floats("landmarks", low=-1.0, high=_LONGEST_SPAN, rows="real")
    # Records stood for, the past counted less.
    mass: FloatArray = floats("landmarks", low=0.0, high="twice", total="twice", rows="real")
    # Hits before the span, and the records that they are of, as long as both are of one rate.
    past_hits: FloatArray = floats("landmarks", low=0.0, high="most_hits", rows="real")
    past_span: FloatArray = floats("landmarks", low=0.0, high=_LONGEST_SPAN, rows="real")
    # The squared pauses from hit to hit, in records.
    squares: FloatArray = floats("landmarks", low=0.0, high=_LONGEST_SPAN, rows="real")
    # The confirmed clusters by ascending id.
    cluster_id: IntArray = ints("clusters", below="next_cluster", ascending=True, rows="cluster")
    made: IntArray = ints("clusters", low=1, high="learned", rows="cluster")  # records learned when it emerged
    # Records learned when no valley was first seen between it and another cluster, 0 where one is.
    joined: IntArray = ints("clusters", high="learned", rows="cluster")
    nodes: IntArray = ints("clusters", rows="cluster")  # landmarks that it has
    # Their mass at the last reading, rounded down, at least 1, and the records placed in it since.
    records: IntArray = ints("clusters", low=1, high="twice", rows="cluster")
    # The records that the hits of its landmarks were of then, on average; 0 where it moved, or units changed since.
    rest: IntArray = ints("clusters", rows="cluster")
    # By cluster and feature, the middle, and one over how far from it a record may be, 0 where that is not known.
    middle: FloatArray = floats("clusters", "d", most=MAGNITUDE)
    narrow: FloatArray = floats("clusters", "d", low=0.0, high=_LONGEST_SPAN)
    # The same of what most of its records are, or most of all where it is rare.
    usual: FloatArray = floats("clusters", "d", most=MAGNITUDE)
    unusual: FloatArray = floats("clusters", "d", low=0.0, high=_LONGEST_SPAN)
    # The nearest landmarks of each, the nearest first, -1 behind the last, and squared distances to them, infinite
    # behind the last. Of equally near ones the first column comes first. No other landmark is nearer than the last of a
    # list.
    listed: IntArray = ints("landmarks", LISTED, fill=-1, stored=False)
    gap: FloatArray = floats("landmarks", LISTED, fill=np.inf, stored=False)
    farthest: FloatArray = floats("landmarks", fill=np.inf, stored=False)  # to the last; infinite where a list has all
    votes: IntArray = ints("landmarks", "classes", high="learned", total="count")  # labels of records stood for


def new_model(rules: Rules, slots: int, classes: int) -> Model:
    """Return an empty model with room for `slots` landmarks and `classes` labels."""
    model = new(Model, d=rules.d, landmarks=slots, clusters=slots, classes=classes)
    model.budget = rules.landmarks
    return model


def completed(arrays: Mapping[str, IntArray | FloatArray]) -> Mapping[str, IntArray | FloatArray]:
    """Return the arrays of a state of any revision: what was known is usual before the next reading.

    Before revision 4 balls counted no pauses: as if hits were independent. Before revision 7 no steps were counted;
    before revision 13 landmarks did not become fewer.
    """
    if "spare" not in arrays:
        arrays = {**arrays, "spare": arrays["head"][:1]}
    if not {"steps", "stays"} & arrays.keys():
        arrays = {**arrays, "steps": np.zeros(1, np.int64), "stays": np.zeros(1, np.int64)}
    if not {"usual", "unusual"} & arrays.keys():
        arrays = {**arrays, "usual": arrays["middle"], "unusual": arrays["narrow"]}
    if "dispersion" in arrays:
        return arrays
    number, real = arrays["number"], arrays["real"]
    clock = arrays["head"][5]
    spans = np.minimum(real[2] + real[5] + (clock - number[4]), LONGEST)
    return {
        **arrays,
        "dispersion": np.ones(1),
        "number": np.vstack((number, np.full_like(number[0], clock))),
        "real": np.vstack((real, 2.0 * spans * spans / (real[1] + real[4] + 2.0))),
    }
