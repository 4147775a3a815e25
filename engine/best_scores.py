"""Which records of a batch may be among the best of their clusters."""

import numpy as np
from resonance.engine.arithmetic import jit
from resonance.engine.base import FloatArray, IntArray


@jit
def _row_of(numbers, number):
    """Return where a number stands among ascending ones; -1 where it does not."""
    low, high = 0, len(numbers)
    while low < high:
        middle = (low + high) // 2
        if numbers[middle] < number:
            low = middle + 1
        else:
            high = middle
    return low if low < len(numbers) and numbers[low] == number else -1


@jit
def _choose(cluster, score, numbers, least, most, chosen):
    """Write the chosen positions, and return how many they are."""
    found, present = 0, np.unique(cluster)
    # The best scores of each cluster so far.
    best, held = np.empty((len(present), most)), np.zeros(len(present), np.int64)
    for t in range(len(cluster)):
        if cluster[t] < 0:
            continue
        row = _row_of(numbers, cluster[t])
        if row >= 0 and score[t] <= least[row]:
            continue
        own = _row_of(present, cluster[t])
        lowest, better = 0, 0
        for at in range(held[own]):
            better += best[own, at] >= score[t]
            if best[own, at] < best[own, lowest]:
                lowest = at
        if better < most:
            chosen[found] = t
            found += 1
            if held[own] < most:
                lowest = held[own]
                held[own] += 1
            best[own, lowest] = score[t]
    return found


def may_be_best(cluster: IntArray, score: FloatArray, numbers: IntArray, least: FloatArray, most: int) -> list[int]:
    """Return the positions of all records that are among the `most` best of their clusters, and of a few others.

    Parameters
    ----------
    cluster : ndarray of int64, shape (records,)
        Number of the cluster of each; -1 for none.
    score : ndarray of shape (records,)
        Of equal scores the first one is better.
    numbers, least : ndarray of int64 and of float64
        Clusters, ascending, whose records are only wanted above a score, and that score.
    """
    chosen: IntArray = np.empty(len(cluster), np.int64)
    found = _choose(np.ascontiguousarray(cluster), score, numbers, least, most, chosen)
    positions: list[int] = chosen[:found].tolist()
    return positions


def compile() -> None:
    """Compile the kernels, or load them from the cache."""
    none: IntArray = np.zeros(1, np.int64)
    may_be_best(none, np.zeros(1), none, np.zeros(1), 1)
