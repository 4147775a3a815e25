"""What both deliveries have in common: how outputs, snapshots and offsets leave a worker.

`exactly_once` puts all three into one transaction; `at_least_once` writes them one after the other, each only when the
one before is known to be stored. The worker knows neither: it sends, and from time to time commits.
"""

from collections.abc import Mapping
from typing import Protocol

from faust.types import TP
from resonance.pipeline.kafka.producer import Batch
from resonance.pipeline.worker.transport.chunk import Membership


class Delivery(Protocol):
    """How outputs and offsets reach the bus; used by one thread at a time.

    Attributes
    ----------
    atomic : bool
        What is sent and the offsets committed behind it become visible together, or not at all.
    notes : mapping of TP to str
        What is committed beside the offset of each partition.
    """

    atomic: bool
    notes: Mapping[TP, str]

    def start(self) -> None:
        """Connect, and end what an earlier worker of the same id left open."""

    def bind(self, membership: Membership) -> None:
        """Take the membership under which all that follows is done, until the next call."""

    @property
    def open(self) -> bool:
        """Whether something was sent that no commit has closed."""

    def send(self, batch: Batch) -> None:
        """Hand outputs over; they count once they are committed."""

    def settle(self) -> None:
        """See to it that what is sent from here on is never without what was sent before."""

    def commit(self, offsets: Mapping[TP, int]) -> None:
        """Make everything sent count, together with the offsets where the input goes on."""

    def abort(self) -> None:
        """Give up what is open, as far as that is possible; never raises."""
