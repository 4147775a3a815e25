"""When a commit is due: after some time, and before it has more outputs than the cluster stores soon."""

from typing import Final

BACKLOG_SHARE: Final = 0.1
"""Most time between two commits, in parts of the time that what waits will take: an answer comes so much later."""

LONGEST_SECONDS: Final = 0.5
"""Most time of it. Ten commits a second cost a worker at its limit a tenth of its rate, two next to nothing."""

TIMEOUT_SHARE: Final = 0.1
"""Most time of it, and of a commit, in parts of the time after which brokers abort the transaction."""

FIRST_BYTES: Final = 32_000
"""Outputs of the first commit: where a quota of the broker lets 1 kB/s through, they are stored within a minute."""

LEAST_BYTES: Final = 1_000
"""Outputs that a commit may have in any case: also the slowest cluster stores a few answers in time."""


def commit_seconds(interval: float, timeout: float, waiting: int, record_seconds: float) -> float:
    """Return how long outputs may wait for their commit.

    Parameters
    ----------
    interval : float
        Seconds that they may always wait.
    timeout : float
        Seconds that a transaction may last.
    waiting : int
        Records that wait to be learned.
    record_seconds : float
        Seconds that one of them takes.
    """
    return max(interval, min(BACKLOG_SHARE * waiting * record_seconds, LONGEST_SECONDS, TIMEOUT_SHARE * timeout))


class CommitSize:
    """How many bytes of outputs a commit may have, as the commits before it went.

    A worker begins with few and doubles them while commits are quick: one that failed because it was too much for the
    cluster, and ended the worker, is not tried again in that size.

    Parameters
    ----------
    timeout : float
        Seconds that a transaction may last.
    most : int
        Bytes that a commit may have on the best of clusters.

    Attributes
    ----------
    limit : int
        Bytes of outputs from which on a commit is due.
    """

    def __init__(self, timeout: float, most: int) -> None:
        self.limit = min(FIRST_BYTES, most)
        self._good = max(TIMEOUT_SHARE * timeout, LONGEST_SECONDS)
        self._most = most
        # Assumed until measured.
        self._record_bytes = 250.0

    @property
    def records(self) -> int:
        """About the number of records whose outputs are a commit."""
        return max(1, int(self.limit / self._record_bytes))

    def note(self, size: int, outputs: int, records: int, seconds: float) -> None:
        """Note a commit: its bytes, those that are answers to so many records, and the seconds that it took."""
        if records:
            self._record_bytes += 0.2 * (outputs / records - self._record_bytes)
        if seconds > self._good:
            self.limit = max(LEAST_BYTES, int(min(size, self.limit) * self._good / seconds))
        elif size >= self.limit // 2:
            self.limit = min(2 * self.limit, self._most)
