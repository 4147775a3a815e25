"""The ends of logs, of brokers that answer and of one that is away."""

import ctypes

import pytest
from confluent_kafka import IsolationLevel, KafkaException, Producer
from confluent_kafka.admin import AdminClient
from resonance.pipeline.kafka import librdkafka
from resonance.pipeline.kafka.admin import latest_offsets
from resonance.pipeline.kafka.errors import reason_of

PLACES = [("in", number) for number in range(4)]


@pytest.fixture
def cluster():
    """A cluster of two brokers inside librdkafka, the second of which leads the odd partitions, and its library."""
    library, host = librdkafka.load(), Producer({"bootstrap.servers": "none", "test.mock.num.brokers": 2})
    library.rd_kafka_handle_mock_cluster.restype = ctypes.c_void_p
    library.rd_kafka_mock_cluster_bootstraps.restype = ctypes.c_char_p
    cluster = ctypes.c_void_p(library.rd_kafka_handle_mock_cluster(ctypes.c_void_p(librdkafka.handle_of(host))))
    library.rd_kafka_mock_topic_create(cluster, b"in", len(PLACES), 1)
    for topic, number in PLACES:
        library.rd_kafka_mock_partition_set_leader(cluster, topic.encode(), number, number % 2 + 1)
    admin = AdminClient({"bootstrap.servers": library.rd_kafka_mock_cluster_bootstraps(cluster).decode()})
    yield admin, lambda: library.rd_kafka_mock_broker_set_down(cluster, 2)
    del admin, host


def test_a_broker_that_is_away_is_an_error_or_left_out(cluster):
    admin, end_second = cluster
    level = IsolationLevel.READ_COMMITTED
    assert latest_offsets(admin, PLACES, level, 20) == dict.fromkeys(PLACES, 0)
    end_second()
    with pytest.raises(KafkaException) as refused:
        latest_offsets(admin, PLACES, level, 1)
    assert "in[1]: its leader gave no end within 1 s" in reason_of(refused.value)
    # Those of the other broker are known all the same.
    assert latest_offsets(admin, PLACES, level, 1, some=True) == {("in", 0): 0, ("in", 2): 0}


def test_nothing_is_requested_of_no_partitions():
    assert latest_offsets(None, [], IsolationLevel.READ_COMMITTED, 1) == {}
