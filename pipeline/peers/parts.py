"""Compare streams with those of their sensor, or kind of work, where keys of several parts name that."""

from collections.abc import Iterator, Sequence
from itertools import groupby
from typing import Final

import numpy as np
from resonance.pipeline.peers.comparison import PeerComparison, compare
from resonance.pipeline.peers.profiles import FEWEST_STREAMS, RECENT, FloatArray, IntArray, last_of

EXPLAINED: Final = 0.8
"""How much of the differences between streams a part of their keys explains where it says what they measure."""


def compare_within(names: Sequence[str], rows: FloatArray, stream: IntArray, time: IntArray) -> PeerComparison:
    """Return in what streams are unlike their peers, as `compare` does, each among those that measure the same.

    Those with too few such peers are compared with all.
    """
    groups, found = groups_of(names, rows, stream), list[PeerComparison]()
    few = {number for own in groups if len(own) < FEWEST_STREAMS for number in own}
    if few or len(groups) == 1:
        whole = compare(rows, stream, len(names), time)
        if len(groups) == 1:
            return whole
        found.append(PeerComparison([each for each in whole.unlike if each.stream in few], len(few), []))
    for own in groups:
        if len(own) < FEWEST_STREAMS:
            continue
        number = np.full(len(names), -1)
        number[own] = np.arange(len(own))
        places = np.flatnonzero(number[stream] >= 0)
        one = compare(rows[places], number[stream[places]], len(own), time[places])
        unlike = [
            each._replace(stream=own[each.stream], row=int(places[each.row]) if each.row >= 0 else -1)
            for each in one.unlike
        ]
        found.append(one._replace(unlike=unlike))
    parts = [list(part) for one in found for _, part in groupby(one.unlike, lambda each: each.stream)]
    parts.sort(key=lambda part: (-part[0].far, part[0].stream))
    kinds = list(dict.fromkeys(kind for one in found for kind in one.kinds))
    return PeerComparison([each for part in parts for each in part], sum(one.streams for one in found), kinds)


def groups_of(names: Sequence[str], rows: FloatArray, stream: IntArray) -> list[list[int]]:
    """Return the streams that are peers, by number: all, or those with the same part of the key.

    It is the part that explains most of the differences between the means of streams, if that is nearly all: sensors
    of a long form are as `temperature.pump7`, and have nothing in common but the name of their value.
    """
    keys = [name.partition(":")[2].split(".") for name in names]
    every = [list(range(len(names)))]
    if len({len(key) for key in keys}) != 1 or len(keys[0]) < 2:
        return every
    ranks = list(_ranks(rows, stream, len(names)))
    best, groups = EXPLAINED, every
    for parts in zip(*keys, strict=True):
        known, of = np.unique(parts, return_inverse=True)
        share = min((_explained(each, of) for each in ranks), default=0.0)
        if 1 < len(known) <= len(names) // 2 and share > best:
            best, groups = share, [np.flatnonzero(of == number).tolist() for number in range(len(known))]
    return groups if max(map(len, groups)) >= FEWEST_STREAMS else every


def _ranks(rows: FloatArray, stream: IntArray, streams: int) -> Iterator[FloatArray]:
    """Yield the ranks of the streams by the mean of each feature that differs, NaN for those without it."""
    last, _, _ = last_of(stream, streams, RECENT)
    for column in rows[last].T:
        is_known = ~np.isnan(column)
        counts = np.bincount(stream[last][is_known], minlength=streams)
        sums = np.bincount(stream[last][is_known], column[is_known], minlength=streams)
        known, ranks = np.flatnonzero(counts), np.full(streams, np.nan)
        means, of, sizes = np.unique(sums[known] / counts[known], return_inverse=True, return_counts=True)
        if len(means) > 1:
            # Equal ones have the middle of their ranks.
            ranks[known] = (np.cumsum(sizes) - 0.5 * (sizes + 1))[of]
            yield ranks


def _explained(ranks: FloatArray, of: IntArray) -> float:
    """Return how much of the variance of ranks groups explain, where chance does 0 and groups that are apart do 1."""
    ranks, of = ranks[~np.isnan(ranks)], of[~np.isnan(ranks)]
    _, of, sizes = np.unique(of, return_inverse=True, return_counts=True)
    if len(ranks) <= len(sizes):
        return 0.0
    inside, whole = ranks - (np.bincount(of, ranks) / sizes)[of], ranks - ranks.mean()
    share = 1.0 - float(inside @ inside) / float(whole @ whole)
    most = 1.0 - float((sizes**3 - sizes).sum()) / (len(ranks) ** 3 - len(ranks))
    chance = (len(sizes) - 1) / (len(ranks) - 1)
    return (share - chance) / (most - chance) if most > chance else 0.0
