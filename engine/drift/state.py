"""A watch as arrays without room to spare, and back, checked when it comes back."""

import math
from collections.abc import Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray
from resonance.engine.base import MAGNITUDE, IntArray
from resonance.engine.drift import layout
from resonance.engine.drift.layout import WatchState
from resonance.engine.table import MAX_RECORDS, require

Arrays = dict[str, NDArray[Any]]

_LARGEST = 1e300
_NARROW = np.iinfo(np.int32)
_FINITE = [field for field in range(layout.FIELDS) if field not in (layout.HS, layout.HQ)]
_FINITE_SHARE = [field for field in range(layout.SHARE_FIELDS) if field != layout.HR]
"""All but thresholds, which are infinite while nothing is watched."""


def within(values: NDArray[Any], low: float, high: float) -> bool:
    """Whether all values are numbers from `low` to `high`."""
    return not values.size or bool(values.min() >= low and values.max() <= high)


def _narrow(values: IntArray) -> NDArray[Any]:
    """Return integers as the bytes of 32 bits each where all of them fit."""
    fit = within(values, _NARROW.min, _NARROW.max)
    return np.ascontiguousarray(values, "<i4").view(np.uint8) if fit else np.ascontiguousarray(values)


def _wide(arrays: Mapping[str, NDArray[Any]], name: str) -> IntArray:
    """Return the integers of `_narrow` as 64 bits each."""
    own = arrays[name]
    if own.dtype == np.uint8:
        require(own.ndim > 0 and own.shape[-1] % 4 == 0, name)
        own = np.ascontiguousarray(own).view("<i4").astype(np.int64)
    return own


def packed(state: WatchState, names: IntArray) -> Arrays:
    """Return the arrays that `unpacked` reads: of the units in use alone; `names` are the cells' first ones."""
    units = int(state.head[layout.CELLS]) + 1
    parts: Arrays = {name: getattr(state, name)[:units] for name in ("channel", "share", "share_time")}
    parts |= {"number": _narrow(state.number[:units]), "mark": _narrow(state.mark[:units, ..., 0])}
    parts["mark_time"] = np.ascontiguousarray(state.mark[:units, ..., 1])
    return {"head": state.head, **parts, "centre": state.centre[: units - 1], "names": names[:units]}


def unpacked(state: WatchState, names: IntArray, arrays: Mapping[str, NDArray[Any]]) -> None:
    """Fill a new watch; KeyError, TypeError or ValueError where the arrays hold none."""
    head = arrays["head"]
    require(head.shape == (layout.HEAD,) and head.dtype == np.int64 and within(head, 0, MAX_RECORDS), "head")
    records, cells = int(head[layout.RECORDS]), int(head[layout.CELLS])
    units = cells + 1
    require(units == len(state.channel), "cells")
    require(within(head[[layout.OPEN, layout.REBUILD]], 0, 1) and head[layout.START] <= records, "episode")
    require(within(head[[layout.MOVED_CELLS, layout.SHARES, layout.GONE]], 0, records), "episode")
    require(head[layout.NEXT_LOOK] >= layout.STRIDE, "next look")
    for name in ("channel", "share", "centre"):
        whole, own = getattr(state, name), arrays[name]
        used = cells if name == "centre" else units
        require(own.shape == (used, *whole.shape[1:]) and own.dtype == np.float64, name)
    channel, number, share, mark = arrays["channel"], _wide(arrays, "number"), arrays["share"], _wide(arrays, "mark")
    for name, values, shape in (
        ("number", number, (units, layout.NUMBERS)),
        ("share_time", arrays["share_time"], (units, 2)),
        ("mark", mark, state.mark.shape[:-1]),
        ("mark_time", arrays["mark_time"], state.mark.shape[:-1]),
        ("names", arrays["names"], (units,)),
    ):
        require(values.shape == shape and values.dtype == np.int64, name)
    require(within(arrays["centre"], -MAGNITUDE, MAGNITUDE), "centre")
    limits = channel[:, [layout.HS, layout.HQ]]
    require(within(limits, 0.0, math.inf), "thresholds")
    require(within(channel[:, _FINITE], -_LARGEST, _LARGEST), "channel")
    require((share[:, layout.HR] > 0.0).all(), "share thresholds")
    require(within(share[:, _FINITE_SHARE], -_LARGEST, _LARGEST), "share")
    require(within(number[:, : layout.NAME], 0, MAX_RECORDS) and (number[:, layout.SEEN] <= records).all(), "number")
    flags = number[:, [layout.WATCHED, layout.FLAG, layout.SHARE_FLAG]]
    require(within(flags, 0, 1), "flags")
    _check_units(channel, number, share)
    for name in ("channel", "share", "share_time"):
        getattr(state, name)[:units] = arrays[name]
    state.number[...], state.mark[..., 0], state.mark[..., 1] = number, mark, arrays["mark_time"]
    state.centre[:cells] = arrays["centre"]
    state.head[...] = head
    names[:units] = arrays["names"]


def _check_units(channel: NDArray[Any], number: NDArray[Any], share: NDArray[Any]) -> None:
    """Raise ValueError where a unit's baseline cannot be one of its records."""
    base = np.full(len(number), layout.BASE)
    base[0] = layout.STREAM_BASE
    require((number[:, layout.CHECK] >= base).all() and (number[:, layout.SHARE_CHECK] >= 16).all(), "checks")
    ranged = number[:, layout.SEEN] >= layout.RANGE
    require((channel[ranged, layout.G] > 0.0).all(), "ranges")
    watched = number[:, layout.WATCHED] == 1
    for field in (layout.RHO, layout.BE, layout.HS, layout.HQ):
        require((channel[watched, field] > 0.0).all(), "baselines")
    require((number[watched, layout.SEEN] >= layout.RANGE).all(), "baselines")
    onsets = channel[:, [layout.OS, layout.OQ]]
    require((onsets >= 0.0).all() and (onsets <= number[:, layout.SEEN, None, None] + 1.0).all(), "onsets")
    require(within(share[:, [layout.OU, layout.OD]], 0.0, MAX_RECORDS), "onsets")
    known = share[:, layout.HR] < np.inf
    require((number[known, layout.BLOCKS] >= 16).all(), "shares")
