"""How long outputs may wait for their commit."""

from typing import Final

BACKLOG_SHARE: Final = 0.1
"""Most time between two commits, in parts of the time that what waits will take: an answer comes so much later."""

LONGEST_SECONDS: Final = 0.5
"""Most time of it. Ten commits a second cost a worker at its limit a tenth of its rate, two next to nothing."""

TIMEOUT_SHARE: Final = 0.1
"""Most time of it, in parts of the time after which brokers abort the transaction."""


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
