"""At least once: outputs, then snapshots, then offsets, each when the one before is stored.

For brokers without transactions and for the lowest latency. After a crash records come again; their outputs have the
same bytes as before, because these depend on the input log alone.
"""

from collections.abc import Callable, Mapping
from typing import Any

from aiokafka.errors import CommitFailedError, IllegalStateError, KafkaError
from confluent_kafka import KafkaException
from faust.types import TP
from resonance.pipeline.crash_points import reach
from resonance.pipeline.errors import DeliveryError
from resonance.pipeline.kafka.producer import Batch, Outlet
from resonance.pipeline.worker.transport.chunk import Membership
from resonance.pipeline.worker.transport.connections import refused


class AtLeastOnce:
    """Delivery without transactions.

    Parameters
    ----------
    settings : mapping
        librdkafka's configuration of the producer (`producer_settings`).
    commit_offsets : callable
        Commits offsets through the consumer group and waits, at most the seconds given.
    timeout : float
        Seconds after which outputs that are not stored are given up.
    """

    atomic = False

    def __init__(
        self,
        settings: Mapping[str, Any],
        *,
        commit_offsets: Callable[[Mapping[TP, int], Mapping[TP, str], float], None],
        timeout: float = 60.0,
    ) -> None:
        self._outlet = Outlet({**settings, "message.timeout.ms": round(timeout * 1000)}, timeout, reports=True)
        self._client = settings
        self._commit_offsets = commit_offsets
        self._timeout = timeout
        self.notes: Mapping[TP, str] = {}
        self.open = False

    def start(self) -> None:
        """Do nothing: the producer connects when it sends."""

    def bind(self, membership: Membership) -> None:
        """Do nothing: the consumer that commits knows its membership itself."""

    def send(self, batch: Batch) -> None:
        """Queue outputs.

        Raises
        ------
        DeliveryError
            One of them cannot be sent.
        """
        if not self.open:
            self.open = True
            reach("after-begin")
        try:
            self._outlet.send(batch)
        except KafkaException as error:
            raise DeliveryError(f"outputs were not sent: {error.args[0].str()}; a restart repeats some") from error
        reach("after-produce")

    def settle(self) -> None:
        """Wait until what was sent is stored: a snapshot that follows proves it, and a restart does not repeat it.

        Raises
        ------
        DeliveryError
            Outputs were not stored.
        """
        self._outlet.flush()

    def commit(self, offsets: Mapping[TP, int]) -> None:
        """Wait until everything is stored, then commit the offsets.

        Raises
        ------
        DeliveryError
            Something was not stored or not committed; no offset is ahead of its outputs.
        DeniedError
            The cluster does not let it be.
        """
        self._outlet.flush()
        reach("after-offsets")
        reach("during-commit")
        try:
            # A worker that stops between two commits has nothing new; the group takes no commit of nothing.
            if offsets:
                self._commit_offsets(offsets, self.notes, self._timeout)
        except (CommitFailedError, IllegalStateError) as error:
            raise DeliveryError(
                f"the group has given this worker's partitions away ({error}); their next owner repeats what was not "
                "committed"
            ) from error
        except (KafkaError, TimeoutError) as error:
            if denied := refused(self._client, error):
                raise denied from error
            reason = str(error) or type(error).__name__
            raise DeliveryError(f"offsets were not committed: {reason}; a restart repeats some outputs") from error
        self.open = False

    def abort(self) -> None:
        """Forget what was sent; what has reached the broker stays, and comes again with the same bytes."""
        self.open = False
