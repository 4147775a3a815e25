"""A group membership as librdkafka's transactions take it, and the check that the installed library agrees."""

import struct
from collections.abc import Callable

from confluent_kafka import Consumer
from resonance.pipeline.errors import ConfigurationError


def group_metadata(group: str, generation: int, member_id: str) -> bytes:
    """Return a group membership as confluent-kafka's `send_offsets_to_transaction` takes it.

    This is librdkafka's own, undocumented serialisation (version 2; the last byte means no static membership);
    `check_group_metadata` compares it with the installed library.
    """
    return b"".join((b"CGMDv2:", struct.pack("<i", generation), group.encode(), b"\0", member_id.encode(), b"\0\1"))


def check_group_metadata(metadata: Callable[[str], bytes] | None = None) -> None:
    """Compare `group_metadata` with what the installed confluent-kafka makes.

    Raises `ConfigurationError` where they differ: fencing cannot be relied on.
    """
    group = "resonance-check"
    theirs = (metadata or _library_metadata)(group)
    if theirs != group_metadata(group, -1, ""):
        raise ConfigurationError(
            "the installed confluent-kafka writes group metadata in a way that this version does not know, so that "
            "transactions could not be fenced; install the version of requirements/lock.txt"
        )


def _library_metadata(group: str) -> bytes:
    # Never connects: the metadata of a consumer that has not joined come from its configuration alone.
    consumer = Consumer({"group.id": group, "bootstrap.servers": "127.0.0.1:9", "log_level": 0})
    try:
        return bytes(consumer.consumer_group_metadata())
    finally:
        consumer.close()
