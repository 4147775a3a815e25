"""How outputs, snapshots and offsets leave a worker: the interface of both deliveries, and the one that is chosen.

`exactly_once` puts all three into one transaction; `at_least_once` writes them one after the other, each only when the
one before is known to be stored. The worker depends on neither: it sends, and from time to time commits.
"""

import logging
import threading
from collections.abc import Collection, Mapping
from typing import Any, Protocol

from faust.types import TP
from resonance.pipeline.config.settings import Settings
from resonance.pipeline.kafka import clients
from resonance.pipeline.kafka.producer import Batch, producer_settings
from resonance.pipeline.kafka.topology import Deployment
from resonance.pipeline.memory_budget import MemoryBudget
from resonance.pipeline.records import TopicPartition
from resonance.pipeline.worker.delivery.at_least_once import AtLeastOnce, CommitOffsets
from resonance.pipeline.worker.delivery.exactly_once import ExactlyOnce
from resonance.pipeline.worker.delivery.gone_workers import end_left_open
from resonance.pipeline.worker.delivery.open_transactions import left_open
from resonance.pipeline.worker.transport.chunk import Membership


class Delivery(Protocol):
    """How outputs and offsets reach Kafka; used by one thread at a time."""

    atomic: bool
    """Whether what is sent and the offsets committed behind it become visible together, or not at all."""

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


_log = logging.getLogger(__name__)


def make_delivery(
    settings: Settings,
    deployment: Deployment,
    commit_offsets: CommitOffsets,
    memory: MemoryBudget,
) -> Delivery:
    """Return the delivery of a worker; `commit_offsets` is how it commits without transactions."""
    client = clients.librdkafka(settings)
    producer = producer_settings(
        client,
        queued_bytes=memory.sending,
        message_bytes={
            topic: size
            for topic, size in deployment.message_bytes.items()
            if topic not in (*settings.input.topics, settings.labels.topic)
        },
    )
    timeout = settings.delivery.transaction_timeout
    if settings.delivery.mode == "at_least_once":
        return AtLeastOnce(producer, group=settings.group, commit_offsets=commit_offsets, timeout=timeout)
    routes = [settings.topic("routes")] if deployment.routes else []
    written = [*deployment.output_ids, *routes]
    read = [*settings.input.topics, *routes, *filter(None, [settings.labels.topic])]
    return ExactlyOnce(
        producer,
        group=settings.group,
        transactional_id=settings.transactional_id,
        timeout=timeout,
        find_open=lambda: left_open(client, written, settings.group, read, timeout),
        kept_bytes=memory.kept,
    )


def end_others(
    settings: Settings, deployment: Deployment, assigned: Collection[TopicPartition], cancelled: threading.Event
) -> None:
    """End what the last owners of partitions have left open, where the group has dropped them."""
    if settings.delivery.mode == "at_least_once" or deployment.embedded:
        return
    client = clients.librdkafka(settings)
    producer: dict[str, Any] = {
        **producer_settings(client),
        "transaction.timeout.ms": round(1000 * settings.delivery.transaction_timeout),
    }
    for gone in end_left_open(client, producer, settings.group, assigned, settings.transactional_id, cancelled):
        _log.info("%s is gone from the group: ended what it had left open", gone)
