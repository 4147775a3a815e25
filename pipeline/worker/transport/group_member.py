"""A worker as a member of its consumer group: what it does through the coordinator of aiokafka's consumer.

A consumer that has not started is None. What is awaited runs in the thread of the consumer.
"""

import asyncio
import logging
from collections.abc import Mapping
from typing import Any

from aiokafka import TopicPartition
from aiokafka.errors import UnknownMemberIdError
from aiokafka.protocol.group import LeaveGroupRequest
from aiokafka.structs import OffsetAndMetadata
from faust.types import TP
from resonance.pipeline.worker.transport.chunk import Membership
from resonance.pipeline.worker.transport.connections import WATCH

LOOK_SECONDS = 0.02

_log = logging.getLogger(__name__)


def has_coordinator(consumer: Any) -> bool:
    """Return whether the group's coordinator is known; it is lost while no broker answers."""
    return consumer is not None and consumer._coordinator.coordinator_id is not None


def missing_topics(consumer: Any) -> list[str]:
    """Return the topics of the group that no broker has described: none of their partitions is assigned."""
    if consumer is None or consumer._coordinator.generation <= 0:
        return []
    # One look at a table that is replaced as a whole: this is also called outside aiokafka's thread.
    known = consumer._client.cluster.topics(exclude_internal_topics=False)
    return sorted(consumer.subscription() - known)


async def is_member(consumer: Any, membership: Membership) -> bool:
    """Return whether the coordinator still has `membership`, with no rebalance pending."""
    coordinator = consumer._coordinator
    return _is_now(coordinator, membership) and not coordinator._rejoin_needed_fut.done()


def _is_now(coordinator: Any, membership: Membership) -> bool:
    return (coordinator.generation, coordinator.member_id) == membership[:2]


async def commit(consumer: Any, membership: Membership, offsets: Mapping[TP, int], notes: Mapping[TP, str]) -> None:
    """Commit as `membership` and leave any error to the caller; Faust's own method crashes the app.

    aiokafka commits as what it is at that moment, also with a later try. Once the group has dropped this worker
    that is no member, and a group without members takes such offsets from anyone.

    Notes end with a zero byte, as confluent-kafka's do: its reader knows no other end, and would return what is in
    memory behind them.
    """
    coordinator = consumer._coordinator
    send = type(coordinator)._do_commit_offsets

    async def send_as_member(*what: Any) -> None:
        # In one step with the request that names the member.
        if not _is_now(coordinator, membership):
            raise UnknownMemberIdError(coordinator.group_id)
        await send(coordinator, *what)

    coordinator._do_commit_offsets = send_as_member
    await consumer.commit(
        {
            TopicPartition(tp.topic, tp.partition): OffsetAndMetadata(at, f"{notes.get(tp, '')}\0")
            for tp, at in offsets.items()
        }
    )


async def check_coordinator(consumer: Any) -> None:
    """Raise the error that aiokafka keeps until it is read, and ask for topics that are missing.

    Until then its coordinator waits, and the worker stays without partitions for ever. aiokafka's own `getmany`
    reads it; Faust bypasses that.
    """
    if (refusal := WATCH.refusal()) is not None:
        raise refusal
    # It is cancelled once the group is left.
    if consumer is not None and not consumer._coordinator._coordination_task.cancelled():
        consumer._coordinator.check_errors()
        if missing := missing_topics(consumer):
            # A broker that has just begun may not know them yet; aiokafka would not ask again for five minutes.
            _log.info("no broker describes %s yet; asking again", ", ".join(missing))
            consumer._coordinator._client.force_metadata_update()


async def leave_group(consumer: Any) -> None:
    """Leave at once, so that the other members need not wait for the session's timeout.

    A join may wait for those members; who waits is a member already, and has its id with the first answer. Repeated
    behind the leave, it would make a new member; and on its connection the broker takes no other request before its
    answer.
    """
    if consumer is not None:
        coordinator = consumer._coordinator
        while coordinator._performed_join_prepare and not coordinator.member_id:
            await asyncio.sleep(LOOK_SECONDS)
        coordinator._coordination_task.cancel()
        if not coordinator.member_id:
            return
        request = LeaveGroupRequest(coordinator.group_id, coordinator.member_id)
        # No heartbeat of a member that has left, and no second goodbye.
        coordinator.reset_generation()
        await coordinator._client.send(coordinator.coordinator_id, request)
