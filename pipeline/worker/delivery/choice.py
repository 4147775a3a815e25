"""The delivery that the settings choose, and what it needs of the workers that were there before."""

import logging
import threading
from collections.abc import Collection
from typing import Any

from resonance.pipeline.config.settings import Settings
from resonance.pipeline.kafka import clients
from resonance.pipeline.kafka.producer import producer_settings
from resonance.pipeline.kafka.topology import Deployment
from resonance.pipeline.memory_budget import MemoryBudget
from resonance.pipeline.records import TopicPartition
from resonance.pipeline.worker.delivery.at_least_once import AtLeastOnce, CommitOffsets
from resonance.pipeline.worker.delivery.delivery import Delivery
from resonance.pipeline.worker.delivery.exactly_once import ExactlyOnce
from resonance.pipeline.worker.delivery.gone_workers import end_left_open
from resonance.pipeline.worker.delivery.open_transactions import left_open

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
