"""How a watch lies in memory: units, their channels, the shares of the cells, and marks of when they were where.

Unit 0 is the stream as a whole, the others are its cells; where relations are followed, the last one is the stream
with what is left of each feature beside what the others say of it. A channel is a feature or, from two features on, one
of two signed sums of all features.

After it the parameters, and a watch as arrays without room to spare, checked when it comes back.
"""

import math
from collections.abc import Mapping
from functools import partial
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray
from resonance.engine.base import MAGNITUDE, FloatArray, IntArray
from resonance.engine.parameters import Parameter
from resonance.kernels.arithmetic import log
from resonance.kernels.table import (
    ABOVE_ZERO,
    MAX_RECORDS,
    Table,
    checked,
    floats,
    ints,
    new,
    packed,
    put,
    require,
    stored_fields,
)

# Constants of the method.
RANGE = 32  # records of a unit from which the ranges of its features are measured
BASE, STREAM_BASE = 128, 512  # records of the first baseline of a cell, and of the stream
BLOCK = 8  # records of a block, whose means show how dependent records are
CLIP = 3.0  # spreads beyond which a value counts as one at this distance
FLOOR = 1e-3  # least range of a feature, in prepared units
FARTHEST = 1000.0  # ranges beyond which the mean of late does not follow a value
SHARE_BLOCK = 64  # records of a block of shares
FIRST_SHARE = 16  # blocks of the first baseline of a share
STRIDE = 512  # records between two looks at the cells; no batch goes beyond a multiple of them
EARLY = 2_048  # records up to which any other number of clusters makes other cells
SMALL = 3  # parts of the mean size of clusters below which one more of them makes no other cells
YOUNG = 65_536  # records after which cells are taken anew after a change alone
MOST_CHANNELS = 8_192
MOST_RELATED = 24  # features up to which each is compared with what the others say
HOURS = 4  # two waves a day, each with one a quarter later, with which features are compared as with each other
FIRST_PAIRS = 256  # records that the first relations are of
DEPENDENT = 32.0  # inflation from which on what is left of a feature is not watched: something unseen moves it
STILL = 256  # records after which a feature is still apart that has changed, at least
DOWN = 0.6  # part of its threshold that a narrowed feature needs

_ANY = {"low": -(2**63), "high": 2**63 - 1}
_channel = partial(floats, "units", "channels", most=1e300, columns="channel")
_plain = partial(floats, "units", "channels", most=1e300, columns="plain")
_step = partial(floats, "d", most=1e300, columns="steps")
_share = partial(floats, "units", most=1e300, columns="share")
_number = partial(ints, "units", columns="number")
_return = partial(floats, "units", most=1e300, columns="return")
_related = partial(floats, "related", most=1e300, columns="relation")

LEVELS, KEPT = 3, 16
"""Every 8th, 64th and 512th record of a unit is marked; 16 marks of each are kept."""

HOME = (
    *("middle", "gain", "mean", "inverse_spread", "size", "size_inverse_spread", "allowed_up", "allowed_down"),
    *("threshold", "back", "size_allowed", "size_threshold", "inflation", "size_inflation", "usual"),
)
HOME_STEPS = "least", "most", "bottom", "top"
HOME_SHARE = "share", "hit_up", "miss_up", "hit_down", "miss_down", "share_threshold"
"""What is kept of a unit that has changed: of its baseline, of the steps of the stream, and of its share.

`excursions.is_back`, a kernel, reads the first six by their numbers.
"""


class WatchState(Table):
    """A watch of d features with room for some cells: a row for each unit, which are the stream and the cells."""

    records: int = ints(rows="head")
    open: int = ints(high=1, rows="head")  # 1 during an episode
    start: int = ints(high="records", rows="head")  # record with which it began
    episodes: int = ints(rows="head")  # events so far
    cells: int = ints(rows="head")
    rebuild: int = ints(high=1, rows="head")  # 1: take other cells at the next look
    moved_cells: int = ints(high="records", rows="head")  # cells of the episode whose features changed
    moved_shares: int = ints(high="records", rows="head")  # of the episode, whose share did
    gone: int = ints(high="records", rows="head")  # of these, cells that hardly have any record left
    next_look: int = ints(low=STRIDE, rows="head")  # records at which the cells of a young stream are looked at
    steady: int = ints(high="records", rows="head")  # record after which its steps may be other ones
    outages: int = ints(high="records", rows="head")  # episodes so far after which units were as before
    paired: int = ints(high="records", rows="head")  # records that `products` are of
    refit: int = ints(low=FIRST_PAIRS, rows="head")  # of them at which relations are fitted anew
    still: int = ints(low=STILL, rows="head")  # records after which a feature is still apart that has changed
    paired_before: int = ints(high="records", rows="head")  # and of how many records
    named: int = ints(high=MOST_RELATED, rows="head")  # the feature reported last, from 1 on
    apart: int = ints(rows="head")  # record of the unit at which a feature is looked at that may be apart; 0 for none

    middle: FloatArray = _channel()  # of the range
    gain: FloatArray = _channel()  # 1 / width of the range; during the first records the sum of squares
    mean: FloatArray = _channel()  # of the clipped value
    inverse_spread: FloatArray = _channel()  # 1 / its spread
    size: FloatArray = _channel()  # mean of its absolute value
    size_inverse_spread: FloatArray = _channel()  # 1 / spread of that
    allowed_up: FloatArray = _channel()  # allowance of `cusum` upwards
    allowed_down: FloatArray = _channel()  # and downwards
    threshold: FloatArray = _channel(low=0.0, high=math.inf)  # of `cusum`; infinite for a channel that is blind
    size_allowed: FloatArray = _channel()  # allowance of `size_cusum`
    size_threshold: FloatArray = _channel(low=0.0, high=math.inf)  # of `size_cusum`
    cusum: FloatArray = _channel()  # two-sided cumulative sum of the value
    size_cusum: FloatArray = _channel()  # the same of its absolute value
    onset: FloatArray = _channel()  # record of the unit at which `cusum` left 0
    size_onset: FloatArray = _channel()  # at which `size_cusum` did
    late: FloatArray = _channel()  # mean of late
    total: FloatArray = _channel()  # sums of blocks: values, squares, absolute values
    squares: FloatArray = _channel()
    sizes: FloatArray = _channel()
    block: FloatArray = _channel()  # sums of the present block
    size_block: FloatArray = _channel()
    before: FloatArray = _channel()  # means of the block before
    size_before: FloatArray = _channel()
    block_squares: FloatArray = _channel()  # squares of block means, and products with the one before
    block_products: FloatArray = _channel()
    size_squares: FloatArray = _channel()
    size_products: FloatArray = _channel()
    old: FloatArray = _channel()  # mean and spread of the baseline before the last change, and of the one before that
    old_spread: FloatArray = _channel()
    previous: FloatArray = _channel()
    previous_spread: FloatArray = _channel()
    lowest: FloatArray = _channel()  # hull of the means of all baselines
    highest: FloatArray = _channel()
    inflation: FloatArray = _channel()  # inflation that is known from before the last change
    size_inflation: FloatArray = _channel()

    whole: FloatArray = _plain()  # sums of the values since the restart, not clipped, and of their squares
    power: FloatArray = _plain()
    began: FloatArray = _plain()  # records of the unit, behind the first 32, before those of its sums
    usual: FloatArray = _plain()  # their mean in the baseline, and in the one before the last change
    old_usual: FloatArray = _plain()
    back: FloatArray = _plain()  # times `threshold` is higher to the side of before the last change; its sign is that
    lacked: FloatArray = _plain()  # records since the restart that lacked the feature: they say nothing of it

    # Of the stream, in prepared units: how far it goes from record to record.
    last: FloatArray = _step()  # its last record
    steps: FloatArray = _step()  # sum of the steps of the present block
    rough: FloatArray = _step()  # mean step of late
    least: FloatArray = _step()  # between which that usually is
    most: FloatArray = _step()
    smooth: FloatArray = _step()  # record of the stream at which it was not noisy last; while held as noisy, old `most`
    changes: FloatArray = _step()  # share of the records of late that were other ones than those before
    moved: FloatArray = _step()  # the last of them
    longest: FloatArray = _step()  # most records from one to the next; of those while it was held as stuck a part
    held: FloatArray = _step()  # 1: it has been reported as noisy, 2: as stuck, and is so still
    bottom: FloatArray = _step()  # between which all of its records have been
    top: FloatArray = _step()
    away: FloatArray = _step()  # records in a row that are further beyond these than they are apart
    absent: FloatArray = _step()  # records that lacked it
    absent_before: FloatArray = _step()  # of these, the ones before `moved`

    seen: IntArray = _number(high="records")  # records since the restart
    check: IntArray = _number()  # of them at which the next baseline is due
    watched: IntArray = _number(high=1)  # 1: it has a baseline
    flag: IntArray = _number(high=1)  # 1: its features changed in the open episode
    bases: IntArray = _number()  # baselines so far
    returns: IntArray = _number()  # of these, the ones where it has been before
    blocks: IntArray = _number()  # blocks of its share
    share_check: IntArray = _number(low=FIRST_SHARE)
    share_flag: IntArray = _number(high=1)
    count: IntArray = _number()  # records in the present block
    share_bases: IntArray = _number()
    share_returns: IntArray = _number()
    name: IntArray = _number(**_ANY)  # cluster that its records are answered with most
    vote: IntArray = _number(**_ANY)

    # Of the share of a cell.
    inside: FloatArray = _share()  # sums of blocks: records, squares, products with the block before
    inside_squares: FloatArray = _share()
    inside_products: FloatArray = _share()
    inside_before: FloatArray = _share()
    share: FloatArray = _share()  # of the baseline
    hit_up: FloatArray = _share()  # evidence of a record in the cell, and of one that is not, for more and for fewer
    miss_up: FloatArray = _share()
    hit_down: FloatArray = _share()
    miss_down: FloatArray = _share()
    share_threshold: FloatArray = _share(low=ABOVE_ZERO, high=math.inf)  # infinite while the share is not watched
    rise: FloatArray = _share()  # evidence for more
    fall: FloatArray = _share()  # and for fewer
    rise_offset: FloatArray = _share(low=0.0, high=MAX_RECORDS)  # offset at which they left 0
    fall_offset: FloatArray = _share(low=0.0, high=MAX_RECORDS)
    rise_blocks: FloatArray = _share()  # blocks since
    fall_blocks: FloatArray = _share()
    old_share: FloatArray = _share()  # before the last change, and before the one before that
    previous_share: FloatArray = _share()
    lowest_share: FloatArray = _share()  # hull of all baselines
    highest_share: FloatArray = _share()
    share_time: IntArray = ints("units", 2, **_ANY)  # times of the records at `rise_offset` and `fall_offset`

    # Of a unit that has changed, until it has a new baseline.
    wanted: FloatArray = _return(high=math.inf)  # evidence that shows that it is back; 0: none would, -1: it is back
    nearer: FloatArray = _return()  # the evidence
    way: FloatArray = _return()  # spreads that it has gone from where it was
    by: FloatArray = _return(low=0.0, high=2.0 * MOST_CHANNELS)  # channel, from their number on how much that varies
    kept: FloatArray = _return(low=0.0, high=MAX_RECORDS)  # records that its baseline is of
    home: FloatArray = floats("units", len(HOME) + len(HOME_STEPS), "channels", low=-1e300, high=math.inf)
    home_share: FloatArray = floats("units", len(HOME_SHARE) + 1, low=-1e300, high=math.inf)

    # Of the stream: how features follow from the others, in prepared units but for `products` and `sums`.
    weight: FloatArray = floats("related", "related", most=1e300)  # a row for each; its own is 1 where it is followed
    level: FloatArray = _related()
    low: FloatArray = _related()  # between which they say what the others are
    high: FloatArray = _related()
    width: FloatArray = _related()  # least range of what is left of a feature
    products: FloatArray = floats("related", "related", most=1e300)  # sums of late records, below the diagonal
    sums: FloatArray = _related()
    sums_before: FloatArray = _related()  # those at which a feature may have become apart
    floor: FloatArray = _related()  # the least of their records, and how many are about that
    resting: FloatArray = _related()
    rest: FloatArray = _related()  # up to which a feature rests, as a machine does that is off
    at: FloatArray = _related()  # what they count from, and 1 / the spread that they count in
    scale: FloatArray = _related()

    mark: IntArray = ints("units", LEVELS, KEPT, **_ANY)  # offsets of marked records, by level
    mark_time: IntArray = ints("units", LEVELS, KEPT, **_ANY)
    centre: FloatArray = floats("cells", "d", most=MAGNITUDE)  # what each cell is nearest to
    names: IntArray = ints("units", **_ANY)  # the first name of each unit
    sign: FloatArray = floats("d", stored=False)  # in the second sum: -1 at an odd number of one bits, else 1
    room: FloatArray = floats(3, "channels", stored=False)  # for the values of a record while a unit takes it
    pair: FloatArray = floats("related", stored=False)  # a record, and where the waves of a day are
    left: FloatArray = floats("d", stored=False)  # of a record, what the others do not say of each feature


OF_STREAM = "steps", "weight", "products", "relation"
"""What there is of a stream alone."""


def _fields_before(name: str, field: str) -> list[str]:
    """Return the fields of an array of a state that come before one of them."""
    fields = [field for field, _ in stored_fields(WatchState)[name]]
    return fields[: fields.index(field)]


CLEARED, SHARE_CLEARED = _fields_before("channel", "old"), _fields_before("share", "old_share")
"""What a restart clears: all up to what was before the last change."""


def channels_of(dimension: int) -> int:
    """Return the number of channels of a unit."""
    return dimension + 2 if dimension >= 2 else dimension


def most_cells(dimension: int, wanted: int) -> int:
    """Return how many cells a watch of so many features has at most."""
    return max(min(wanted, MOST_CHANNELS // channels_of(dimension) - 1), 0)


def related_of(given: Mapping[str, Any], dimension: int) -> int:
    """Return of how many features and waves of a day relations are followed; 0 where they are not."""
    return dimension + HOURS if given["relations"] and dimension <= MOST_RELATED else 0


def sizes_of(dimension: int, cells: int, related: int) -> dict[str, int]:
    """Return the lengths of the axes of a watch."""
    units = cells + 1 + (related > 0)
    return {"units": units, "cells": cells, "channels": channels_of(dimension), "d": dimension, "related": related}


def new_state(dimension: int, cells: int, related: int) -> WatchState:
    """Return the state of a watch before its first record, with room for `cells`."""
    state = new(WatchState, **sizes_of(dimension, cells, related))
    state.refit, state.still = FIRST_PAIRS, STILL
    state.rest[:] = -1e300
    state.sign[:] = [-1.0 if i.bit_count() % 2 else 1.0 for i in range(dimension)]
    state.next_look = STRIDE
    state.check[:] = BASE
    state.check[0] = STREAM_BASE
    state.share_check[:] = FIRST_SHARE
    state.share_threshold[:] = np.inf
    return state


PARAMETERS = (
    Parameter("rarity", float, 1e5, "records between two false alarms, at least, were they independent", 100.0, 1e15),
    Parameter("step", float, 0.5, "spreads of a unit by which a mean moves at least in a change", 0.1, 3.0),
    Parameter("hold", int, 500, "records that an episode lasts at least", 64, 1_000_000),
    Parameter("ordinary", int, 5, "returns after which all between a unit's places is ordinary", 1, 1_000_000),
    Parameter("returning", int, 0, "returns of a unit each of which doubles the records of its next baseline", 0, 8),
    Parameter("leaps", int, 0, "whether rare flags, steps, and ranges that do not hold, are looked after", 0, 1),
    Parameter("relations", int, 0, "whether each feature is compared with what the others say of it", 0, 1),
    Parameter("cells", int, 32, "cells, at most", 0, 64),
)


class Rules(NamedTuple):
    """The parameters as the kernels see them."""

    d: int
    root: float
    """Square root of the number of features."""
    step: float
    theta: float
    """Shift that the thresholds of means are made for, in spreads."""
    theta_q: float
    """The same of absolute values."""
    hold: int
    ordinary: int
    returning: int
    leaps: int
    threshold: float
    """Evidence beyond which there is a change, of records that are independent."""


def rules_from(given: Mapping[str, Any], dimension: int) -> Rules:
    """Return the rules of a watch of `dimension` features."""
    step = float(given["step"])
    theta = min(step, 0.6)
    channels = float(channels_of(dimension))
    return Rules(
        d=dimension,
        root=float(np.sqrt(float(dimension))),
        step=step,
        theta=theta,
        theta_q=0.6 * theta,
        hold=int(given["hold"]),
        ordinary=int(given["ordinary"]),
        returning=int(given["returning"]),
        leaps=int(given["leaps"]),
        threshold=float(log(float(given["rarity"]) * (8.0 * channels + 4.0))),
    )


_NARROW, _NARROWED = np.iinfo(np.int32), ("number", "mark", "mark_time")


def _narrow(values: IntArray) -> NDArray[Any]:
    """Return integers as the bytes of 32 bits each where all of them fit."""
    fit = not values.size or (values.min() >= _NARROW.min and values.max() <= _NARROW.max)
    return np.ascontiguousarray(values, "<i4").view(np.uint8) if fit else values


def _wide(own: NDArray[Any], name: str) -> IntArray:
    """Return the integers of `_narrow` as 64 bits each."""
    if own.dtype == np.uint8:
        require(own.ndim > 0 and own.shape[-1] % 4 == 0, name)
        own = np.ascontiguousarray(own).view("<i4").astype(np.int64)
    return own


def packed_state(state: WatchState) -> dict[str, NDArray[Any]]:
    """Return the arrays that `put_state` reads: of the units in use alone."""
    arrays = packed(state)
    arrays["home"] = arrays["home"][state.wanted > 0.0]
    # Times are those before the last one; 1 for none.
    times, last = arrays["mark_time"], arrays["mark_time"].max(initial=0)
    arrays |= {"mark_time": np.where(times == 0, 1, times - last), "last_mark": np.array([last])}
    return arrays | {name: _narrow(arrays[name]) for name in _NARROWED}


def put_state(state: WatchState, arrays: Mapping[str, NDArray[Any]]) -> None:
    """Fill a new watch; KeyError or ValueError where the arrays hold none."""
    wide = {name: _wide(arrays[name], name) for name in _NARROWED}
    last = arrays["last_mark"]
    require(last.dtype == np.int64 and last.shape == (1,), "last_mark")
    wide["mark_time"] = np.where(wide["mark_time"] == 1, 0, wide["mark_time"] + last)
    units, related = len(state.seen), len(state.level)
    # Of the others it says nothing.
    followed = arrays["return"][:, 0] > 0.0
    require(arrays["home"].shape == (followed.sum(), *state.home.shape[1:]), "home")
    wide["home"] = np.zeros((len(followed), *state.home.shape[1:]))
    wide["home"][followed] = arrays["home"]
    cells, d = len(state.centre), len(state.sign)
    put(state, checked(WatchState, {**arrays, **wide}, **sizes_of(d, cells, related)))
    require(state.cells == cells, "cells")
    require((state.paired == 0 or (state.scale > 0.0).all()) and (state.low <= state.high).all(), "relations")
    base = np.full(units, BASE)
    base[0] = STREAM_BASE
    require((state.check >= base).all(), "checks")
    require((state.gain[state.seen >= RANGE] > 0.0).all(), "ranges")
    watched = state.watched == 1
    for field in (state.inverse_spread, state.size_inverse_spread, state.threshold, state.size_threshold):
        require((field[watched] > 0.0).all(), "baselines")
    for row in map(HOME.index, ("gain", "inverse_spread", "size_inverse_spread", "threshold", "size_threshold")):
        require((state.home[followed, row] > 0.0).all(), "home")
    require((state.seen[watched] >= RANGE).all(), "baselines")
    for onset in (state.onset, state.size_onset):
        require((onset >= 0.0).all() and (onset <= state.seen[:, None] + 1.0).all(), "onsets")
