"""A broker that gives an address for itself which this machine cannot reach: named at once, by every kind of client."""

import time

import pytest
from resonance.pipeline.errors import BrokerError
from resonance.pipeline.kafka.admin import ClusterAdmin
from resonance.pipeline.kafka.log_reader import LogReader

from tests.brokers import create_topic
from tests.brokers.jvm import free_port
from tests.brokers.misnamed import UNKNOWN, misnamed

pytestmark = pytest.mark.broker

PATIENCE = 60.0


def admin(servers, topic):
    ClusterAdmin({"bootstrap.servers": servers}, PATIENCE).find([topic])


def ends(servers, topic):
    with LogReader({"bootstrap.servers": servers}, "group", PATIENCE) as reader:
        reader.bounds([(topic, 0)])


def offsets(servers, topic):
    with LogReader({"bootstrap.servers": servers}, "group", PATIENCE) as reader:
        reader.committed([(topic, 0)])


@pytest.mark.parametrize(("request_of", "known"), [(admin, False), (ends, True), (ends, False), (offsets, True)])
def test_the_address_that_the_broker_gives_is_named_with_the_setting(broker, request_of, known):
    topic = create_topic(broker, "in", partitions=1)
    place = ("127.0.0.1", free_port()) if known else (UNKNOWN, 9092)
    began = time.monotonic()
    with misnamed(broker, *place) as servers, pytest.raises(BrokerError) as caught:
        request_of(servers, topic)
    reason = "Connection refused" if known else ""
    assert f"{servers} answers, and gives {place[0]}:{place[1]} ({reason}" in str(caught.value)
    assert "(advertised.listeners of server.properties" in str(caught.value)
    assert time.monotonic() - began < PATIENCE / 3
