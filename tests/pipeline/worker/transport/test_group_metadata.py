"""What the installed confluent-kafka says of a membership is read, and what is made by hand is the same."""

import pytest
from confluent_kafka import Consumer
from faust.types import TP
from resonance.pipeline.errors import ConfigurationError
from resonance.pipeline.worker.transport.chunk import Membership
from resonance.pipeline.worker.transport.rebalance import membership_of, of_no_member

from tests.group_metadata import group_metadata

PLACES = frozenset({TP("in", 0), TP("in", 7)})


@pytest.mark.parametrize("own", [{}, {"group.instance.id": "worker-1"}], ids=["dynamic", "static"])
def test_the_library_s_metadata_are_a_membership(own):
    consumer = Consumer({"bootstrap.servers": "127.0.0.1:9", "log_level": 0, "group.id": "größe", **own})
    metadata = consumer.consumer_group_metadata()
    consumer.close()
    assert membership_of(metadata, PLACES) == Membership(-1, "", PLACES, metadata)
    assert (metadata == group_metadata("größe", -1, "")) is (not own)


def test_generations_of_all_sizes_and_static_members_are_read():
    for generation in (-1, 0, 1, 10, 256, 2**31 - 1):
        made = group_metadata("shop", generation, "rdkafka-1-ä")
        assert membership_of(made, PLACES) == Membership(generation, "rdkafka-1-ä", PLACES, made)
        static = made.removesuffix(b"\1") + b"\0worker-1\0"
        assert membership_of(static, ()) == Membership(generation, "rdkafka-1-ä", frozenset(), static)


@pytest.mark.parametrize(
    "metadata", [b"", b"CGMDv3:\1\0\0\0shop\0m\0\1", b"CGMDv2:\1\0\0", b"CGMDv2:\1\0\0\0shop\0m\0\1more"]
)
def test_metadata_of_another_library_are_refused(metadata):
    with pytest.raises(ConfigurationError, match=r"in a way that this version does not know, .* requirements/lock.txt"):
        membership_of(metadata, PLACES)


def test_metadata_of_no_member_are_not_fenced():
    assert not membership_of(of_no_member("shop"), PLACES).fenced
