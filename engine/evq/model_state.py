"""A model, packed without room to spare: what a snapshot keeps of it, checked when it comes back."""

from collections.abc import Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray
from resonance.engine.base import MAGNITUDE
from resonance.engine.contents import MAX_RECORDS, require, within
from resonance.engine.evq.layout import EVENTS, HEAD, HELD, NEXT_ID, NUMBERS, K, Model, N, Rules, note_shape


def packed_model(model: Model) -> dict[str, NDArray[Any]]:
    """Return the arrays that `unpacked_model` reads: a function of the model alone, not of its room."""
    used = model.slot[: model.head[K]]
    waits = model.head[N] if model.head[N] < len(model.waiting) else 0
    parts = [(model.buffer[i, : model.number[i, HELD]], model.buffer_label[i, : model.number[i, HELD]]) for i in used]
    none = (model.buffer[0, :0], model.buffer_label[0, :0])
    return {
        "head": model.head,
        "ranges": model.ranges,
        "waiting": model.waiting[:waits],
        "waiting_label": model.waiting_label[:waits],
        "number": model.number[used],
        "centre": model.centre[used],
        "cov": model.cov[used],
        "inv": model.inv[used],
        "buffer": np.concatenate([none[0], *(part[0] for part in parts)]),
        "buffer_label": np.concatenate([none[1], *(part[1] for part in parts)]),
        "votes": model.votes[used],
    }


def unpacked_model(model: Model, rules: Rules, arrays: Mapping[str, NDArray[Any]]) -> None:
    """Fill an empty model, which has room for it; KeyError, TypeError or ValueError where the arrays hold none."""
    d, classes = rules.d, model.votes.shape[1]
    head, fields = arrays["head"], arrays["number"]
    count = len(fields)
    require(head.shape == (HEAD,) and head[K] == count <= rules.max_clusters, "head")
    require(within(head, 0, MAX_RECORDS) and head[N] > 0 and head[NEXT_ID] <= head[N], "head")
    require(head[EVENTS] <= 4 * head[N], "events")
    require(count <= len(model.slot), "clusters")
    require(fields.shape == (count, NUMBERS) and fields.dtype == np.int64, "number")
    ids, support, last, fresh, held, made = fields.T
    require(within(ids, 0, head[NEXT_ID] - 1) and (np.diff(ids) > 0).all(), "ids")
    require(within(support, 1, head[N]) and within(last, 0, head[N] - 1), "supports")
    require(sum(support.tolist()) <= head[N], "supports")
    require(within(made, 1, head[N]) and within(fresh, 0, MAX_RECORDS), "counts")
    require(within(held, 1 if rules.splits else 0, rules.n_sub if rules.splits else 0), "buffers")
    waits = int(head[N]) if rules.running and head[N] < rules.warmup else 0
    require(not (waits and count), "waiting")
    shapes = {
        "ranges": (2, d),
        "waiting": (waits, d),
        "waiting_label": (waits,),
        "centre": (count, d),
        "cov": (count, d, d),
        "inv": (count, d, d),
        "buffer": (int(held.sum()), d),
        "buffer_label": (int(held.sum()),),
        "votes": (count, classes),
    }
    for name, shape in shapes.items():
        whole = name in ("waiting_label", "buffer_label", "votes")
        require(arrays[name].shape == shape and arrays[name].dtype == (np.int64 if whole else np.float64), name)
    for name in ("ranges", "waiting", "centre", "buffer"):
        require(within(arrays[name], -2.0 * MAGNITUDE, 2.0 * MAGNITUDE), name)
    for name in ("waiting_label", "buffer_label"):
        require(within(arrays[name], -1, classes - 1), name)
    require((arrays["votes"] >= 0).all() and (arrays["votes"] <= support[:, None]).all(), "votes")
    require(np.isfinite(arrays["cov"]).all() and np.isfinite(arrays["inv"]).all(), "covariances")
    diagonal = np.diagonal(arrays["cov"], axis1=1, axis2=2)
    require(within(diagonal, 0.0 if rules.euclidean else np.finfo(float).tiny, np.inf), "covariances")

    model.head[:] = head
    model.ranges[:] = arrays["ranges"]
    model.waiting[:waits] = arrays["waiting"]
    model.waiting_label[:waits] = arrays["waiting_label"]
    for name in ("number", "centre", "cov", "inv", "votes"):
        getattr(model, name)[:count] = arrays[name]
    at = 0
    for i in range(count):
        model.buffer[i, : held[i]] = arrays["buffer"][at : at + held[i]]
        model.buffer_label[i, : held[i]] = arrays["buffer_label"][at : at + held[i]]
        at += held[i]
        note_shape(model, rules, i)
