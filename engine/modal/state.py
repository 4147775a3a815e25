"""A model as arrays without room to spare, and back: what a snapshot keeps of it, checked when it comes back.

Neighbour lists are not among them: they follow from where the landmarks are.
"""

from collections.abc import Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray
from resonance.engine.base import MAGNITUDE
from resonance.engine.contents import MAX_RECORDS, require, within
from resonance.engine.modal import layout
from resonance.engine.modal.layout import Model
from resonance.engine.modal.neighbours import list_all
from resonance.engine.modal.parameters import Rules

Arrays = dict[str, NDArray[Any]]

_LONGEST_SPAN = 1e293
_FEWEST_HITS = 1e-3


def packed(model: Model) -> Arrays:
    """Return the arrays that `unpacked` reads: a function of the model alone, not of its room."""
    used = int(model.head[layout.LANDMARKS])
    return {
        "head": model.head,
        "dimension": model.dimension,
        "previous": model.previous,
        "at": model.at[:, :used].T,
        "number": model.number[:, :used],
        "real": model.real[:, :used],
        "cluster": model.cluster[:, : model.head[layout.CLUSTERS]],
        "votes": model.votes[:used],
    }


def _check_reals(real: NDArray[Any], place: NDArray[Any], n: int, d: int) -> None:
    """Raise ValueError where balls or masses are none that `n` records leave behind."""
    require(real.shape[0] == layout.REALS and real.shape[1:] == place.shape, "real")
    # The largest of all squared distances, and a little more.
    require(within(real[layout.RADIUS2], 0.0, 4.1 * MAGNITUDE * MAGNITUDE * d), "radii")
    counting = real[layout.SPAN] != -1.0
    require(within(real[layout.SPAN][counting], 0.5, _LONGEST_SPAN), "spans")
    require(
        within(real[layout.HITS], 0.0, n + layout.LISTED) and (real[layout.HITS][counting] >= _FEWEST_HITS).all(),
        "hits",
    )
    mass = real[layout.MASS]
    require(within(mass, 0.0, 2.0 * n) and 0.0 < mass.sum() <= 2.0 * n, "masses")
    require((np.bincount(place + 1, weights=mass)[np.unique(place + 1)] > 0.0).all(), "masses of clusters")


def unpacked(model: Model, rules: Rules, arrays: Mapping[str, NDArray[Any]]) -> None:
    """Fill an empty model, which has room for it; KeyError, TypeError or ValueError where the arrays hold none."""
    head, number, real, cluster = (arrays[name] for name in ("head", "number", "real", "cluster"))
    used, classes, d = number.shape[1], model.votes.shape[1], rules.d
    require(head.shape == (layout.HEAD,) and head.dtype == np.int64 and within(head, 0, MAX_RECORDS), "head")
    n, clock = int(head[layout.N]), int(head[layout.CLOCK])
    require(1 <= head[layout.LANDMARKS] == used <= min(n, rules.landmarks), "landmarks")
    require(
        1 <= clock <= n and head[layout.UNPLACED] <= n - head[layout.READ] and head[layout.NEXT_ID] <= n, "counters"
    )
    require(head[layout.CLUSTERS] == cluster.shape[1] <= used, "clusters")
    # Every cluster came with one event, and those that are no more went with one.
    require(head[layout.EVENTS] == 2 * head[layout.NEXT_CLUSTER] - head[layout.CLUSTERS], "events")
    dimension = arrays["dimension"]
    require(dimension.shape == (1,) and (dimension[0] == 0.0 or within(dimension, 1.0, d)), "dimension")
    require(arrays["previous"].shape == (d,) and within(arrays["previous"], -MAGNITUDE, MAGNITUDE), "previous")
    require(arrays["at"].shape == (used, d) and within(arrays["at"], -MAGNITUDE, MAGNITUDE), "at")
    require(number.shape == (layout.NUMBERS, used) and number.dtype == np.int64, "number")
    require(
        within(number[layout.ID], 0, int(head[layout.NEXT_ID]) - 1) and len(np.unique(number[layout.ID])) == used,
        "ids",
    )
    require(within(number[layout.PLACE], -1, int(head[layout.CLUSTERS]) - 1), "places")
    require(int((number[layout.PLACE] < 0).sum()) == head[layout.LOOSE], "loose")
    require(within(number[layout.LAST], 1, n) and within(number[layout.SINCE], 1, clock), "records")
    require(within(number[layout.APART], 0, n), "valleys")
    # A record may count twice: with its nearest landmark, and as one itself.
    require(within(number[layout.COUNT], 1, 2 * n) and number[layout.COUNT].sum(dtype=float) <= 2.0 * n, "counts")
    _check_reals(real, number[layout.PLACE], n, d)
    require(cluster.shape == (layout.CLUSTER_FIELDS, head[layout.CLUSTERS]) and cluster.dtype == np.int64, "cluster")
    require(
        (np.diff(cluster[0]) > 0).all() and within(cluster[0], 0, int(head[layout.NEXT_CLUSTER]) - 1), "cluster ids"
    )
    require(within(cluster[layout.MADE], 1, n) and within(cluster[layout.JOINED], 0, n), "cluster records")
    nodes = np.bincount(number[layout.PLACE] + 1, minlength=cluster.shape[1] + 1)[1:]
    require(
        (nodes == cluster[layout.NODES]).all() and within(cluster[layout.RECORDS], 1, 2 * n), "landmarks of clusters"
    )
    require(within(cluster[layout.MOVES], 0, 1), "moves")
    votes = arrays["votes"]
    require(votes.shape == (used, classes) and votes.dtype == np.int64 and within(votes, 0, n), "votes")
    require((votes.sum(axis=1, dtype=float) <= number[layout.COUNT]).all(), "votes")
    for name in ("head", "dimension", "previous"):
        getattr(model, name)[...] = arrays[name]
    model.at[:, :used] = arrays["at"].T
    model.number[:, :used], model.real[:, :used] = number, real
    model.cluster[:, : cluster.shape[1]] = cluster
    model.votes[:used] = votes
    list_all(model, np.empty(model.number.shape[1]))
