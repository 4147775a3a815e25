"""How a watch lies in memory: units, their channels, the shares of the cells, and marks of when they were where.

Unit 0 is the stream as a whole, the others are its cells. A channel is a feature or, from two features on, one of two
signed sums of all features.

After it the parameters, and a watch as arrays without room to spare, checked when it comes back.
"""

import math
from collections.abc import Mapping
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray
from resonance.engine.base import MAGNITUDE, FloatArray, IntArray
from resonance.engine.parameters import Parameter
from resonance.kernels.arithmetic import log
from resonance.kernels.table import MAX_RECORDS, Table, floats, ints, new, require

# Constants of the method.
RANGE = 32  # records of a unit from which the ranges of its features are measured
BASE, STREAM_BASE = 128, 512  # records of the first baseline of a cell, and of the stream
BLOCK = 8  # records of a block, whose means show how dependent records are
CLIP = 3.0  # spreads beyond which a value counts as one at this distance
FLOOR = 1e-3  # least range of a feature, in prepared units
FARTHEST = 1000.0  # ranges beyond which the mean of late does not follow a value
SHARE_BLOCK = 64  # records of a block of shares
STRIDE = 512  # records between two looks at the cells; no batch goes beyond a multiple of them
EARLY = 2_048  # records up to which any other number of clusters makes other cells
YOUNG = 65_536  # records after which cells are taken anew after a change alone
MOST_CHANNELS = 8_192
DOWN = 0.6  # part of its threshold that a narrowed feature needs

# The head.
RECORDS = 0
OPEN = 1  # 1 during an episode
START = 2  # record with which it began
EPISODES = 3  # events so far
CELLS = 4
REBUILD = 5  # 1: take other cells at the next look
MOVED_CELLS = 6  # cells of the episode whose features changed
SHARES = 7  # of the episode, whose share did
GONE = 8  # of these, cells that hardly have any record left
NEXT_LOOK = 9  # records at which the cells of a young stream are looked at
HEAD = 10

# Fields of a channel; a restart clears those before `OLD`.
C = 0  # centre of the range
G = 1  # 1 / width of the range; during the first records the sum of squares
MU = 2  # mean of the clipped value
RHO = 3  # 1 / its spread
AL = 4  # mean of its absolute value
BE = 5  # 1 / spread of that
KU = 6  # allowance of S upwards
KD = 7  # and downwards
HS = 8  # threshold of S; infinite for a channel that is blind
KQ = 9  # allowance of Q
HQ = 10  # threshold of Q
S = 11  # two-sided cumulative sum of the value
Q = 12  # the same of its absolute value
OS = 13  # record of the unit at which S left 0
OQ = 14  # at which Q did
E = 15  # mean of late
SY = 16  # sums of blocks: values, squares, absolute values
SYY = 17
SA = 18
BY = 19  # sums of the present block
BA = 20
PY = 21  # means of the block before
PA = 22
BYY = 23  # squares of block means, and products with the one before
BYP = 24
BAA = 25
BAP = 26
OLD = 27  # mean and spread of the baseline before the last change, and of the one before that
OLD_SPREAD = 28
PREVIOUS = 29
PREVIOUS_SPREAD = 30
LOWEST = 31  # hull of the means of all baselines
HIGHEST = 32
TAU_S = 33  # inflation that is known from before the last change
TAU_Q = 34
FIELDS = 35
CLEARED = 27

# Numbers of a unit.
SEEN = 0  # records since the restart
CHECK = 1  # of them at which the next baseline is due
WATCHED = 2  # 1: it has a baseline
FLAG = 3  # 1: its features changed in the open episode
BASES = 4  # baselines so far
RETURNS = 5  # of these, the ones where it has been before
BLOCKS = 6  # blocks of its share
SHARE_CHECK = 7
SHARE_FLAG = 8
COUNT = 9  # records in the present block
SHARE_BASES = 10
SHARE_RETURNS = 11
NAME = 12  # cluster that its records are answered with most
VOTE = 13
NUMBERS = 14

# Floats of a unit's share; a restart clears those before `OLD_SHARE`.
SN = 0  # sums of blocks: records, squares, products with the block before
SNN = 1
SNP = 2
PN = 3
P0 = 4  # share of the baseline
HIT_UP = 5  # evidence of a record in the cell, and of one that is not, for more and for fewer
MISS_UP = 6
HIT_DOWN = 7
MISS_DOWN = 8
HR = 9  # threshold; infinite while the share is not watched
WU = 10  # evidence for more
WD = 11  # and for fewer
OU = 12  # offset at which they left 0
OD = 13
BU = 14  # blocks since
BD = 15
OLD_SHARE = 16
PREVIOUS_SHARE = 17
LOWEST_SHARE = 18
HIGHEST_SHARE = 19
SHARE_FIELDS = 20
SHARE_CLEARED = 16

LEVELS, KEPT = 3, 16
"""Every 8th, 64th and 512th record of a unit is marked; 16 marks of each are kept."""


class WatchState(Table):
    """A watch of d features with room for some cells: a row for each unit, which are the stream and the cells."""

    head: IntArray = ints(HEAD)
    channel: FloatArray = floats("units", FIELDS, "channels")
    number: IntArray = ints("units", NUMBERS)
    share: FloatArray = floats("units", SHARE_FIELDS)
    share_time: IntArray = ints("units", 2)  # times of the records at `OU` and `OD`
    mark: IntArray = ints("units", LEVELS, KEPT, 2)  # offset and time of marked records, by level
    centre: FloatArray = floats("cells", "d")  # what each cell is nearest to
    sign: FloatArray = floats("d")  # of the features in the second sum: -1 at an odd number of one bits, else 1
    room: FloatArray = floats(2, "channels")  # for the values of a record while a unit takes it


def channels_of(dimension: int) -> int:
    """Return the number of channels of a unit."""
    return dimension + 2 if dimension >= 2 else dimension


def most_cells(dimension: int, wanted: int) -> int:
    """Return how many cells a watch of so many features has at most."""
    return max(min(wanted, MOST_CHANNELS // channels_of(dimension) - 1), 0)


def new_state(dimension: int, cells: int) -> WatchState:
    """Return the state of a watch before its first record, with room for `cells`."""
    state = new(WatchState, units=cells + 1, cells=cells, channels=channels_of(dimension), d=dimension)
    state.sign[:] = [-1.0 if i.bit_count() % 2 else 1.0 for i in range(dimension)]
    state.head[NEXT_LOOK] = STRIDE
    state.number[:, CHECK] = BASE
    state.number[0, CHECK] = STREAM_BASE
    state.number[:, SHARE_CHECK] = 16
    state.share[:, HR] = np.inf
    return state


PARAMETERS = (
    Parameter("rarity", float, 1e5, "records between two false alarms, at least, were they independent", 100.0, 1e15),
    Parameter("step", float, 0.5, "spreads of a unit by which a mean moves at least in a change", 0.1, 3.0),
    Parameter("hold", int, 500, "records that an episode lasts at least", 64, 1_000_000),
    Parameter("ordinary", int, 5, "returns after which all between a unit's places is ordinary", 1, 1_000_000),
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
        threshold=float(log(float(given["rarity"]) * (8.0 * channels + 4.0))),
    )


Arrays = dict[str, NDArray[Any]]

_LARGEST = 1e300
_NARROW = np.iinfo(np.int32)
_FINITE = [field for field in range(FIELDS) if field not in (HS, HQ)]
_FINITE_SHARE = [field for field in range(SHARE_FIELDS) if field != HR]
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
    units = int(state.head[CELLS]) + 1
    parts: Arrays = {name: getattr(state, name)[:units] for name in ("channel", "share", "share_time")}
    parts |= {"number": _narrow(state.number[:units]), "mark": _narrow(state.mark[:units, ..., 0])}
    parts["mark_time"] = np.ascontiguousarray(state.mark[:units, ..., 1])
    return {"head": state.head, **parts, "centre": state.centre[: units - 1], "names": names[:units]}


def unpacked(state: WatchState, names: IntArray, arrays: Mapping[str, NDArray[Any]]) -> None:
    """Fill a new watch; KeyError, TypeError or ValueError where the arrays hold none."""
    head = arrays["head"]
    require(head.shape == (HEAD,) and head.dtype == np.int64 and within(head, 0, MAX_RECORDS), "head")
    records, cells = int(head[RECORDS]), int(head[CELLS])
    units = cells + 1
    require(units == len(state.channel), "cells")
    require(within(head[[OPEN, REBUILD]], 0, 1) and head[START] <= records, "episode")
    require(within(head[[MOVED_CELLS, SHARES, GONE]], 0, records), "episode")
    require(head[NEXT_LOOK] >= STRIDE, "next look")
    for name in ("channel", "share", "centre"):
        whole, own = getattr(state, name), arrays[name]
        used = cells if name == "centre" else units
        require(own.shape == (used, *whole.shape[1:]) and own.dtype == np.float64, name)
    channel, number, share, mark = arrays["channel"], _wide(arrays, "number"), arrays["share"], _wide(arrays, "mark")
    for name, values, shape in (
        ("number", number, (units, NUMBERS)),
        ("share_time", arrays["share_time"], (units, 2)),
        ("mark", mark, state.mark.shape[:-1]),
        ("mark_time", arrays["mark_time"], state.mark.shape[:-1]),
        ("names", arrays["names"], (units,)),
    ):
        require(values.shape == shape and values.dtype == np.int64, name)
    require(within(arrays["centre"], -MAGNITUDE, MAGNITUDE), "centre")
    limits = channel[:, [HS, HQ]]
    require(within(limits, 0.0, math.inf), "thresholds")
    require(within(channel[:, _FINITE], -_LARGEST, _LARGEST), "channel")
    require((share[:, HR] > 0.0).all(), "share thresholds")
    require(within(share[:, _FINITE_SHARE], -_LARGEST, _LARGEST), "share")
    require(within(number[:, :NAME], 0, MAX_RECORDS) and (number[:, SEEN] <= records).all(), "number")
    flags = number[:, [WATCHED, FLAG, SHARE_FLAG]]
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
    base = np.full(len(number), BASE)
    base[0] = STREAM_BASE
    require((number[:, CHECK] >= base).all() and (number[:, SHARE_CHECK] >= 16).all(), "checks")
    ranged = number[:, SEEN] >= RANGE
    require((channel[ranged, G] > 0.0).all(), "ranges")
    watched = number[:, WATCHED] == 1
    for field in (RHO, BE, HS, HQ):
        require((channel[watched, field] > 0.0).all(), "baselines")
    require((number[watched, SEEN] >= RANGE).all(), "baselines")
    onsets = channel[:, [OS, OQ]]
    require((onsets >= 0.0).all() and (onsets <= number[:, SEEN, None, None] + 1.0).all(), "onsets")
    require(within(share[:, [OU, OD]], 0.0, MAX_RECORDS), "onsets")
    known = share[:, HR] < np.inf
    require((number[known, BLOCKS] >= 16).all(), "shares")
