"""The interface of both deliveries: how outputs, snapshots and offsets leave a worker.

`exactly_once` puts all three into one transaction; `at_least_once` writes them one after the other, each only when the
one before is known to be stored. The worker depends on neither: it sends, and from time to time commits.
"""

from collections.abc import Mapping
from typing import Protocol

from faust.types import TP
from resonance.pipeline.kafka.producer import Batch
from resonance.pipeline.worker.transport.chunk import Membership


class Delivery(Protocol):
    """How outputs and offsets reach Kafka; used by one thread at a time.

    Attributes
    ----------
    atomic : bool
        What is sent and the offsets committed behind it become visible together, or not at all.
    """

    atomic: bool

    def start(self) -> None:
        """Connect, and end the transaction that an earlier worker of the same id left open; before every restore."""

    def bind(self, membership: Membership) -> None:
        """Set the membership for everything that follows, until the next call."""

    @property
    def size(self) -> int:
        """Bytes sent since the last commit."""

    @property
    def open(self) -> bool:
        """Whether something was sent that is neither committed nor aborted."""

    def send(self, batch: Batch) -> None:
        """Send outputs; they count once they are committed."""

    def settle(self) -> None:
        """Ensure that nothing sent from here on is stored without everything sent before."""

    def commit(self, offsets: Mapping[TP, int], notes: Mapping[TP, str]) -> None:
        """Commit everything sent, together with the offsets where the input resumes and the metadata beside them."""

    def abort(self) -> None:
        """Abort what is open, as far as that is possible; never raises."""
