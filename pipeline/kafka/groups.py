"""A consumer group, read without being its member.

Not by librdkafka's admin client: it ends the process where the coordinator of the group goes away meanwhile, or is
another broker than it was (librdkafka issues 4605, 5040, 5397). Members come by the older call that confluent-kafka
deprecates in favour of it; offsets by a consumer, which requests them again.
"""

import struct
import time
import warnings
from collections.abc import Collection, Iterator, Mapping
from typing import Any, Final, NamedTuple

from confluent_kafka import Consumer, KafkaException
from confluent_kafka import TopicPartition as Offset
from confluent_kafka.admin import AdminClient
from resonance.pipeline.kafka.clients import new_client
from resonance.pipeline.kafka.log_reader import is_passing
from resonance.pipeline.records import TopicPartition

PAUSE_SECONDS: Final = 0.1
"""Distance of two requests of offsets."""

_VERSION: Final = struct.Struct(">h")
_LENGTH: Final = struct.Struct(">h")
_COUNT: Final = struct.Struct(">i")


class GroupMember(NamedTuple):
    """A member of a group: its client id, its host, and what the leader has sent to it."""

    client: str
    host: str
    assignment: bytes

    @property
    def partitions(self) -> list[TopicPartition]:
        """The partitions that it has been given; none before that, or where another program's message is no list."""
        try:
            return list(_listed(self.assignment))
        except (ValueError, struct.error):
            return []


def _listed(assignment: bytes) -> Iterator[TopicPartition]:
    """Yield the partitions of an assignment as Kafka's protocol for consumers writes it, behind its version."""
    at = _VERSION.size
    (topics,) = _COUNT.unpack_from(assignment, at)
    at += _COUNT.size
    for _ in range(topics):
        (length,) = _LENGTH.unpack_from(assignment, at)
        at += _LENGTH.size
        topic = assignment[at : at + length].decode()
        at += length
        (count,) = _COUNT.unpack_from(assignment, at)
        at += _COUNT.size
        for number in struct.unpack_from(f">{count}i", assignment, at):
            yield topic, number
        at += _COUNT.size * count


class GroupState(NamedTuple):
    """The state of a group, such as ``Stable``, and its members."""

    state: str
    members: list[GroupMember]


def group_state(admin: AdminClient, group: str, seconds: float) -> GroupState | None:
    """Return the state of a group.

    None where there is no such group, or this user has no right to describe it: the broker leaves it out of its list.
    Raises `KafkaException` where a broker does not answer.
    """
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DeprecationWarning)
        found = next(iter(admin.list_groups(group, seconds)), None)
    if found is None:
        return None
    members = [GroupMember(each.client_id, each.client_host, each.assignment) for each in found.members]
    return GroupState(found.state, members)


class OffsetReader:
    """Reads the offsets of a group over connections that stay open.

    Offsets of open transactions do not hold back those of before.
    """

    def __init__(self, client: Mapping[str, Any], group: str) -> None:
        reads = {"isolation.level": "read_uncommitted", "enable.auto.commit": False}
        self._consumer = new_client(Consumer, {"log_level": 0, **client, "group.id": group, **reads})

    def committed(self, places: Collection[Offset], seconds: float) -> list[Offset]:
        """Return the offset and its metadata of each partition, a negative offset where none is committed.

        Raises `KafkaException` where the group gives none within `seconds`.
        """
        end = time.monotonic() + seconds
        while True:
            try:
                left = max(end - time.monotonic(), 0.1)
                found: list[Offset] = self._consumer.committed(list(places), timeout=left)
                return found
            except KafkaException as error:
                if not is_passing(error.args[0]) or time.monotonic() > end:
                    raise
                time.sleep(PAUSE_SECONDS)

    def close(self) -> None:
        """Close the connections."""
        self._consumer.close()


def group_offsets(client: Mapping[str, Any], group: str, places: Collection[Offset], seconds: float) -> list[Offset]:
    """Return what `OffsetReader.committed` does, once."""
    reader = OffsetReader(client, group)
    try:
        return reader.committed(places, seconds)
    finally:
        reader.close()
