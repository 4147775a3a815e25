"""What librdkafka calls in a rebalance, within a poll of the consumer's thread: it goes on when these return."""

import asyncio
import re
import struct
import time
from collections.abc import Callable, Coroutine, Iterable
from typing import TYPE_CHECKING, Any, Final

from confluent_kafka import Consumer
from confluent_kafka import TopicPartition as Place
from faust.types import TP
from resonance.pipeline.errors import ConfigurationError, DeliveryError
from resonance.pipeline.worker.transport.chunk import Membership

if TYPE_CHECKING:
    from resonance.pipeline.worker.transport.client import ClientThread


# librdkafka's own, undocumented serialisation (version 2): generation, group, member id, and a static member's name.
_FORMAT: Final = re.compile(rb"CGMDv2:(.{4})[^\0]*\0([^\0]*)\0(?:\x01|\0[^\0]*\0)", re.DOTALL)


def membership_of(metadata: bytes, partitions: Iterable[TP]) -> Membership:
    """Return the membership that `Consumer.consumer_group_metadata` describes, with the partitions assigned to it.

    Raises `ConfigurationError` where the installed confluent-kafka writes them in another way.
    """
    found = _FORMAT.fullmatch(metadata)
    if found is None:
        raise ConfigurationError(
            "the installed confluent-kafka writes group metadata in a way that this version does not know, so that "
            "transactions could not be fenced; install the version of requirements/lock.txt"
        )
    (generation,) = struct.unpack("<i", found[1])
    return Membership(generation, found[2].decode(), frozenset(partitions), metadata)


def of_no_member(group: str) -> bytes:
    """Return the metadata of a consumer that has not joined its group: Kafka accepts what comes with them unfenced."""
    # Never connects: they come from its configuration alone.
    consumer = Consumer({"group.id": group, "bootstrap.servers": "127.0.0.1:9", "log_level": 0})
    try:
        return bytes(consumer.consumer_group_metadata())
    finally:
        consumer.close()


SERVE_SECONDS = 0.01


class Rebalances:
    """Lets the event loop do what a rebalance needs, and waits for it, `seconds` at most.

    `assigned` gets a new membership, behind which restores begin, `revoked` the partitions that are given up, and
    whether they are lost already.
    """

    def __init__(
        self,
        loop: Callable[[], asyncio.AbstractEventLoop],
        assigned: Callable[[Membership], Coroutine[Any, Any, None]],
        revoked: Callable[[set[TP], bool], Coroutine[Any, Any, None]],
        seconds: float,
    ) -> None:
        self._loop, self._assigned, self._revoked = loop, assigned, revoked
        self._seconds = seconds
        self.generation = -1

    def callbacks(self, thread: "ClientThread") -> dict[str, Callable[[Consumer, list[Place]], None]]:
        """Return the callbacks for the subscription of a thread's consumer."""

        def assigned(consumer: Consumer, places: list[Place]) -> None:
            membership = membership_of(consumer.consumer_group_metadata(), _partitions(places))
            # Nothing is fetched before the restore has said from where.
            consumer.assign([])
            thread.void()
            self.generation = membership.generation
            self._wait(thread, self._assigned, membership)

        def revoked(consumer: Consumer, places: list[Place], *, lost: bool = False) -> None:
            # No seek of this membership comes behind this.
            self.generation = -1
            thread.void()
            self._wait(thread, self._revoked, set(_partitions(places)), lost)
            consumer.unassign()

        def lost(consumer: Consumer, places: list[Place]) -> None:
            revoked(consumer, places, lost=True)

        return {"on_assign": assigned, "on_revoke": revoked, "on_lost": lost}

    def _wait(self, thread: "ClientThread", do: Callable[..., Coroutine[Any, Any, None]], *given: Any) -> None:
        if thread.leaving.is_set():
            return
        future = asyncio.run_coroutine_threadsafe(do(*given), self._loop())
        end = time.monotonic() + self._seconds
        while not future.done():
            # The last commit may be one of this thread, the only one that may call the consumer.
            thread.serve(SERVE_SECONDS)
            if thread.leaving.is_set():
                return
            if time.monotonic() > end:
                future.cancel()
                raise DeliveryError(
                    f"what was open was not closed within {self._seconds:g} s of a rebalance: it does not count; "
                    "start again"
                )
        future.result()

    @staticmethod
    def is_member(consumer: Consumer) -> bool:
        """Return whether the group may have the consumer as a member."""
        metadata = consumer.consumer_group_metadata()
        return metadata is not None and bool(membership_of(metadata, ()).member_id)


def _partitions(places: list[Place]) -> list[TP]:
    return [TP(place.topic, place.partition) for place in places]
