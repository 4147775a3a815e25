"""How many records of a partition wait, measured by offsets: also those that cannot be read yet."""

from collections.abc import Iterable
from typing import NamedTuple, Self

from resonance.pipeline.worker.transport.log_ends import LogEnd


class Lag(NamedTuple):
    """Offsets between the last committed answer and the end of the log; a few of them have no record."""

    readable: int = 0
    """Up to the last stable offset."""
    unstable: int = 0
    """Behind it: an open transaction holds them back."""

    @property
    def waiting(self) -> int:
        """All of them."""
        return self.readable + self.unstable

    @classmethod
    def of(cls, answered: int, end: LogEnd) -> Self:
        """Return the lag of a partition whose records are answered up to an offset."""
        return cls(max(end.stable - answered, 0), max(end.high - max(end.stable, answered), 0))

    @classmethod
    def total(cls, lags: Iterable["Lag | None"]) -> "Lag | None":
        """Return the sums; None where one of the lags is unknown."""
        total = cls()
        for lag in lags:
            if lag is None:
                return None
            total = cls(total.readable + lag.readable, total.unstable + lag.unstable)
        return total
