"""End the transactions of workers that are no longer in the group: killed, or silent for too long.

A transaction holds back the offsets that a restore waits for, and every reader of committed records behind it. Left
alone it ends `delivery.transaction_timeout` after its beginning; a producer that begins with its id ends it at once.
"""

import logging
import threading
from collections.abc import Collection, Mapping
from typing import Any, Final

from confluent_kafka import KafkaException, Producer
from confluent_kafka import TopicPartition as Place
from confluent_kafka.admin import AdminClient
from resonance.pipeline.checkpoint.offset_metadata import CommittedOffset, OffsetMetadata
from resonance.pipeline.kafka.clients import new_client
from resonance.pipeline.kafka.errors import reason_of
from resonance.pipeline.kafka.groups import group_offsets, group_state
from resonance.pipeline.kafka.log_reader import NO_OFFSET
from resonance.pipeline.records import TopicPartition

ANSWER_SECONDS: Final = 5.0
END_SECONDS: Final = ANSWER_SECONDS + 1.0
"""How long what goes on here may take after a cancellation: one answer of the broker."""

_log = logging.getLogger(__name__)


def end_left_open(
    client: Mapping[str, Any],
    producer: Mapping[str, Any],
    group: str,
    assigned: Collection[TopicPartition],
    transactional_id: str,
    cancelled: threading.Event,
) -> list[str]:
    """End what the last owners of partitions have left open, and return their transactional ids.

    Only of owners that the group has dropped. One that starts again ends its transactions itself, once it is a member;
    it cannot become one before the members that run this have joined again. Where the broker does not answer nothing is
    done: the transactions end later. The calling worker's `transactional_id` is its client id in the group, too, as
    with every worker. Once `cancelled` is set nothing more is begun: after this worker has joined again the others may
    be members.
    """
    admin = new_client(AdminClient, {"log_level": 0, **client})
    ended = []
    try:
        owners = _last_owners(client, group, assigned) - {"", transactional_id}
        members = _members(admin, group) if owners and not cancelled.is_set() else set()
        if transactional_id not in members:
            # The next rebalance has begun, or no other worker was there.
            return []
        for gone in sorted(owners - members):
            if cancelled.is_set():
                break
            beginning = new_client(Producer, {"log_level": 0, **producer, "transactional.id": gone})
            beginning.init_transactions(ANSWER_SECONDS)
            beginning.close()
            ended.append(gone)
    except KafkaException as error:
        _log.warning("what a worker that is gone has left open was not ended: %s", reason_of(error))
    return ended


def _last_owners(client: Mapping[str, Any], group: str, assigned: Collection[TopicPartition]) -> set[str]:
    """Return who committed last in each partition."""
    found = group_offsets(client, group, [Place(*at) for at in assigned], ANSWER_SECONDS)
    committed = [CommittedOffset(max(at.offset, NO_OFFSET), at.metadata or "") for at in found]
    return {note.owner for note in map(OffsetMetadata.read, committed) if note is not None}


def _members(admin: AdminClient, group: str) -> set[str]:
    """Return the client ids of the members of a group; none while it rebalances."""
    found = group_state(admin, group, ANSWER_SECONDS)
    return {member.client for member in found.members} if found is not None and found.state == "Stable" else set()
