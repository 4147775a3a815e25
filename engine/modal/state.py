"""A model as arrays without room to spare, and back: what a snapshot keeps of it, checked when it comes back.

Neighbour lists are not among them: they follow from where the landmarks are.
"""

from collections.abc import Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray
from resonance.engine.base import MAGNITUDE
from resonance.engine.modal.model import (
    APART,
    CLOCK,
    CLUSTER_FIELDS,
    CLUSTERS,
    COUNT,
    EVENTS,
    HEAD,
    HITS,
    ID,
    JOINED,
    LANDMARKS,
    LAST,
    LISTED,
    LOOSE,
    MADE,
    MASS,
    MOVES,
    NEXT_CLUSTER,
    NEXT_ID,
    NODES,
    NUMBERS,
    PLACE,
    RADIUS2,
    READ,
    REALS,
    RECORDS,
    SINCE,
    SPAN,
    UNPLACED,
    Model,
    N,
)
from resonance.engine.modal.neighbours import list_all
from resonance.engine.modal.parameters import Rules

Arrays = dict[str, NDArray[Any]]

_MAX_RECORDS = 2**53
"""No stream is longer, and what counts its records stays far from the end of an int64."""
_LONGEST_SPAN = 1e293
_FEWEST_HITS = 1e-3


def packed(model: Model) -> Arrays:
    """Return the arrays that `unpacked` reads: a function of the model alone, not of its room."""
    used = int(model.head[LANDMARKS])
    return {
        "head": model.head,
        "dimension": model.dimension,
        "previous": model.previous,
        "at": model.at[:, :used].T,
        "number": model.number[:, :used],
        "real": model.real[:, :used],
        "cluster": model.cluster[:, : model.head[CLUSTERS]],
        "votes": model.votes[:used],
    }


def _require(holds: Any, what: str) -> None:
    if not holds:
        raise ValueError(what)


def _within(array: NDArray[Any], low: float, high: float) -> bool:
    """Whether all entries are numbers of ``low..high``."""
    return bool(((array >= low) & (array <= high)).all())


def _check_reals(real: NDArray[Any], place: NDArray[Any], n: int, d: int) -> None:
    """Raise ValueError where balls or masses are none that `n` records leave behind."""
    _require(real.shape[0] == REALS and real.shape[1:] == place.shape, "real")
    # The largest of all squared distances, and a little more.
    _require(_within(real[RADIUS2], 0.0, 4.1 * MAGNITUDE * MAGNITUDE * d), "radii")
    counting = real[SPAN] != -1.0
    _require(_within(real[SPAN][counting], 0.5, _LONGEST_SPAN), "spans")
    _require(_within(real[HITS], 0.0, n + LISTED) and (real[HITS][counting] >= _FEWEST_HITS).all(), "hits")
    mass = real[MASS]
    _require(_within(mass, 0.0, 2.0 * n) and 0.0 < mass.sum() <= 2.0 * n, "masses")
    _require((np.bincount(place + 1, weights=mass)[np.unique(place + 1)] > 0.0).all(), "masses of clusters")


def unpacked(model: Model, rules: Rules, arrays: Mapping[str, NDArray[Any]]) -> None:
    """Fill an empty model, which has room for it, from the arrays of `packed`.

    Raises
    ------
    KeyError, TypeError, ValueError
        The arrays are of no model: places beyond their arrays, counts that cannot be, or values that are no numbers.
    """
    head, number, real, cluster = (arrays[name] for name in ("head", "number", "real", "cluster"))
    used, classes, d = number.shape[1], model.votes.shape[1], rules.d
    _require(head.shape == (HEAD,) and head.dtype == np.int64 and _within(head, 0, _MAX_RECORDS), "head")
    n, clock = int(head[N]), int(head[CLOCK])
    _require(1 <= head[LANDMARKS] == used <= min(n, rules.landmarks), "landmarks")
    _require(1 <= clock <= n and head[UNPLACED] <= n - head[READ] and head[NEXT_ID] <= n, "counters")
    _require(head[CLUSTERS] == cluster.shape[1] <= used, "clusters")
    # Every cluster came with one event, and those that are no more went with one.
    _require(head[EVENTS] == 2 * head[NEXT_CLUSTER] - head[CLUSTERS], "events")
    dimension = arrays["dimension"]
    _require(dimension.shape == (1,) and (dimension[0] == 0.0 or _within(dimension, 1.0, d)), "dimension")
    _require(arrays["previous"].shape == (d,) and _within(arrays["previous"], -MAGNITUDE, MAGNITUDE), "previous")
    _require(arrays["at"].shape == (used, d) and _within(arrays["at"], -MAGNITUDE, MAGNITUDE), "at")
    _require(number.shape == (NUMBERS, used) and number.dtype == np.int64, "number")
    _require(_within(number[ID], 0, int(head[NEXT_ID]) - 1) and len(np.unique(number[ID])) == used, "ids")
    _require(_within(number[PLACE], -1, int(head[CLUSTERS]) - 1), "places")
    _require(int((number[PLACE] < 0).sum()) == head[LOOSE], "loose")
    _require(_within(number[LAST], 1, n) and _within(number[SINCE], 1, clock), "records")
    _require(_within(number[APART], 0, n), "valleys")
    # A record may count twice: with its nearest landmark, and as one itself.
    _require(_within(number[COUNT], 1, 2 * n) and number[COUNT].sum(dtype=float) <= 2.0 * n, "counts")
    _check_reals(real, number[PLACE], n, d)
    _require(cluster.shape == (CLUSTER_FIELDS, head[CLUSTERS]) and cluster.dtype == np.int64, "cluster")
    _require((np.diff(cluster[0]) > 0).all() and _within(cluster[0], 0, int(head[NEXT_CLUSTER]) - 1), "cluster ids")
    _require(_within(cluster[MADE], 1, n) and _within(cluster[JOINED], 0, n), "cluster records")
    nodes = np.bincount(number[PLACE] + 1, minlength=cluster.shape[1] + 1)[1:]
    _require((nodes == cluster[NODES]).all() and _within(cluster[RECORDS], 1, 2 * n), "landmarks of clusters")
    _require(_within(cluster[MOVES], 0, 1), "moves")
    votes = arrays["votes"]
    _require(votes.shape == (used, classes) and votes.dtype == np.int64 and _within(votes, 0, n), "votes")
    _require((votes.sum(axis=1, dtype=float) <= number[COUNT]).all(), "votes")
    for name in ("head", "dimension", "previous"):
        getattr(model, name)[...] = arrays[name]
    model.at[:, :used] = arrays["at"].T
    model.number[:, :used], model.real[:, :used] = number, real
    model.cluster[:, : cluster.shape[1]] = cluster
    model.votes[:used] = votes
    list_all(model, np.empty(model.number.shape[1]))
