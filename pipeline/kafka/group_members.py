"""The members of a consumer group, read without being one of them.

Not by `describe_consumer_groups`, which ends the process where the coordinator of the group goes away meanwhile
(librdkafka 4605, 5397), but by the older call that confluent-kafka deprecates in favour of it.
"""

import struct
import warnings
from collections.abc import Iterator
from typing import Final, NamedTuple

from confluent_kafka.admin import AdminClient
from resonance.pipeline.records import TopicPartition

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
