"""At least once: outputs, then snapshots, then offsets, each when the one before is stored.

For brokers without transactions and for the lowest latency. After a crash some records are processed again; their
outputs have the same bytes as before, because outputs depend on the input log alone.
"""

from collections.abc import Callable, Mapping
from typing import Any

from confluent_kafka import KafkaError, KafkaException
from faust.types import TP
from resonance.pipeline.crash_points import reach
from resonance.pipeline.errors import DeliveryError
from resonance.pipeline.kafka.acl import for_group
from resonance.pipeline.kafka.errors import code_of, reason_of, translated
from resonance.pipeline.kafka.producer import Batch, Outlet
from resonance.pipeline.worker.transport.chunk import Membership

NO_MEMBER = frozenset(
    {
        KafkaError.UNKNOWN_MEMBER_ID,
        KafkaError.ILLEGAL_GENERATION,
        KafkaError.REBALANCE_IN_PROGRESS,
        KafkaError.FENCED_INSTANCE_ID,
    }
)
"""Codes of a commit by what is no member any more."""

LINGER_MS = 3
"""How long an output waits for others of its round."""

CommitOffsets = Callable[[Membership, Mapping[TP, int], Mapping[TP, str], float], None]


class AtLeastOnce:
    """Delivery without transactions; outputs that are not stored within `timeout` seconds are given up.

    `commit_offsets` must commit as the membership that it is given, or raise `KafkaException`, and wait for it, at most
    the seconds given.
    """

    atomic = False

    def __init__(
        self,
        settings: Mapping[str, Any],
        *,
        group: str,
        commit_offsets: CommitOffsets,
        timeout: float = 60.0,
    ) -> None:
        own = {"message.timeout.ms": round(timeout * 1000), "linger.ms": LINGER_MS}
        self._outlet = Outlet({**settings, **own}, timeout, reports=True)
        self._client, self._group = settings, group
        self._commit_offsets = commit_offsets
        self._timeout = timeout
        self._membership = Membership(-1, "", frozenset())
        self.open = False
        self.size = 0

    def start(self) -> None:
        """Do nothing: the producer connects when it sends."""

    def bind(self, membership: Membership) -> None:
        """Set the membership as which offsets are committed: by the time of a commit the consumer may have lost it."""
        self._membership = membership

    def send(self, batch: Batch) -> None:
        """Queue outputs; raise `DeliveryError` where one of them cannot be sent."""
        if not self.open:
            self.open = True
            reach("after-begin")
        self.size += batch.size
        with translated(self._client, "outputs were not sent: {reason}; a restart repeats some", kind=DeliveryError):
            self._outlet.send(batch)
        reach("after-produce")

    def settle(self) -> None:
        """Wait until everything sent is stored; raise `DeliveryError` where it is not.

        A snapshot that follows is proof of it, so that a restart does not repeat these outputs.
        """
        self._outlet.flush()

    def commit(self, offsets: Mapping[TP, int], notes: Mapping[TP, str]) -> None:
        """Wait until everything is stored, then commit the offsets: no offset is ahead of its outputs.

        Raises `DeliveryError` where something was not stored or not committed, `DeniedError` where the cluster
        refuses it.
        """
        self._outlet.flush()
        reach("after-offsets")
        reach("during-commit")
        # A worker that stops between two commits has nothing new, and the group refuses an empty commit.
        if offsets:
            self._commit(offsets, notes)
        self.open = False
        self.size = 0

    def _commit(self, offsets: Mapping[TP, int], notes: Mapping[TP, str]) -> None:
        text = "offsets were not committed: {reason}; a restart repeats some outputs"
        with translated(self._client, text, for_group(self._group), DeliveryError):
            try:
                self._commit_offsets(self._membership, offsets, notes, self._timeout)
            except KafkaException as error:
                if code_of(error) not in NO_MEMBER:
                    raise
                raise DeliveryError(
                    f"the group has given this worker's partitions away ({reason_of(error)}); their next owner repeats "
                    "what was not committed"
                ) from error

    def abort(self) -> None:
        """Forget what was sent; what has reached the broker stays, and is emitted again with the same bytes."""
        self.open = False
        self.size = 0
