"""What the answers and the events of a stream are worth, beside its classes."""

from collections import Counter
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from bench.live import fold
from bench.streams import Classes

NO_ANSWER = -1
ANSWERING = 0.005
"""Share of the second half's records that a cluster answers at least, to be counted as one that answers."""
NOTICEABLE = 0.01
"""Share of a novelty's records that a cluster of its own answers at least: an outlier is none."""

Answers = NDArray[np.int64]


class Names:
    """Numbers for cluster ids, in the order in which they come."""

    def __init__(self) -> None:
        self._numbers: dict[str, int] = {}

    def number(self, cluster: str | None) -> int:
        """Return the number of a cluster; `NO_ANSWER` for none."""
        return NO_ANSWER if cluster is None else self._numbers.setdefault(cluster, len(self._numbers))


class History:
    """What the events of a stream amount to.

    A split is taken back when the cluster that began and the one that it came from are one again later, whichever of
    them goes on, and through however many clusters that they were absorbed into.

    Attributes
    ----------
    present : set of str
        Clusters of the first level.
    events, splits, taken_back : int
        How many there were.
    """

    def __init__(self) -> None:
        self.present: set[str] = set()
        self.events = self.splits = self.taken_back = 0
        self._heirs: dict[str, str] = {}
        self._open: list[tuple[str, str]] = []

    def add(self, event: dict[str, Any]) -> None:
        """Take in an event, as the bus has it."""
        self.events += 1
        fold(self.present, event, level=1)
        if event["kind"] == "split":
            self.splits += 1
            self._open.append((event["cluster"], event["other"]))
        elif event["kind"] == "absorbed":
            self._heirs[event["cluster"]] = event["other"]
            still_open = [pair for pair in self._open if self._heir(pair[0]) != self._heir(pair[1])]
            self.taken_back += len(self._open) - len(still_open)
            self._open = still_open

    def _heir(self, cluster: str) -> str:
        while cluster in self._heirs:
            cluster = self._heirs[cluster]
        return cluster


@dataclass(frozen=True, slots=True)
class Shares:
    """How the second half of a stream is answered.

    Attributes
    ----------
    classes : int
        Classes of its records, without noise.
    answering : int
        Clusters that answer at least `ANSWERING` of its records.
    largest : float
        Share of the cluster that answers most.
    nulls : float
        Share of records without a cluster.
    """

    classes: int
    answering: int
    largest: float
    nulls: float


def shares(y: Classes, answers: Answers) -> Shares:
    """Return how the second half of a stream is answered."""
    half = len(y) // 2
    late, count = answers[half:], len(y) - half
    found = np.bincount(late[late != NO_ANSWER], minlength=1) / count
    classes = len(np.unique(y[half:][y[half:] >= 0]))
    return Shares(classes, int((found >= ANSWERING).sum()), float(found.max()), float((late == NO_ANSWER).mean()))


def first_of_their_own(answers: Answers, member: NDArray[np.bool_]) -> int | None:
    """Return after how many records of a novelty a cluster of its own answers one of them.

    Parameters
    ----------
    answers : ndarray of int64, shape (n,)
        Cluster of each record.
    member : ndarray of bool, shape (n,)
        Records of the novelty.

    Returns
    -------
    int or None
        Records of the novelty before that one. A cluster is its own when it answered nothing before the first of them,
        at least `NOTICEABLE` of them later, and at least half of what it answers is of them. None: no cluster ever is.
    """
    if not member.any():
        return None
    onset = int(np.argmax(member))
    before = set(answers[:onset].tolist()) | {NO_ANSWER}
    late, late_member = answers[onset:], member[onset:]
    of_all, of_members = Counter(late.tolist()), Counter(late[late_member].tolist())
    own = [
        cluster
        for cluster, count in of_members.items()
        if cluster not in before and 2 * count >= of_all[cluster] and count >= NOTICEABLE * late_member.sum()
    ]
    if not own:
        return None
    return int(np.argmax(np.isin(late[late_member], own)))
