"""How long outputs may wait for their commit."""

from typing import Final

BACKLOG_SHARE: Final = 0.1
"""Most time between two commits, in parts of the time that what waits will take: an answer comes so much later."""

RARELY: Final = 5
"""Most time between two commits, in intervals. Ten commits a second cost a worker at its limit a tenth of its rate."""


def commit_seconds(interval: float, waiting: int, record_seconds: float) -> float:
    """Return how long outputs may wait for their commit.

    Parameters
    ----------
    interval : float
        Seconds that they may wait where few records do.
    waiting : int
        Records that wait to be learned.
    record_seconds : float
        Seconds that one of them takes.
    """
    return min(max(interval, BACKLOG_SHARE * waiting * record_seconds), RARELY * interval)
