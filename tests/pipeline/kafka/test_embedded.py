"""The embedded broker keeps what it accepts and refuses what it would lose."""

import os
from contextlib import suppress

import pytest
from confluent_kafka import Consumer, TopicPartition
from resonance.pipeline.errors import BrokerError
from resonance.pipeline.kafka.embedded import BUDGET, PARTITIONS, BudgetError, EmbeddedBroker, is_embedded


def consumer(broker):
    return Consumer(broker.client_settings() | {"group.id": "test", "enable.auto.commit": False})


def test_topics_are_made_with_four_partitions_on_a_loopback_port():
    with EmbeddedBroker(["a"]) as broker:
        broker.create(["b"])
        reader = consumer(broker)
        metadata = reader.list_topics(timeout=5)
        assert {name: len(topic.partitions) for name, topic in metadata.topics.items()} == {
            "a": PARTITIONS,
            "b": PARTITIONS,
        }
        assert broker.bootstrap.startswith("127.0.0.1:")
        assert is_embedded(metadata.cluster_id)
        reader.close()


def test_a_real_cluster_is_not_taken_for_an_embedded_one():
    assert not is_embedded("MkU3OEVBNTcwNTJENDM2Qk")
    assert not is_embedded(None)


@pytest.mark.parametrize("size", [1, 300, 300_000])
def test_everything_that_the_budget_accepts_is_still_there(size):
    value = os.urandom(size)
    limit = 20_000
    with EmbeddedBroker(["a"]) as broker:
        accepted = 0
        for _ in range(limit):
            try:
                broker.append("a", 0, value)
            except BudgetError as error:
                assert f"{size + 72:,} bytes does not fit" in str(error)
                break
            accepted += 1
        broker.flush()
        reader = consumer(broker)
        assert reader.get_watermark_offsets(TopicPartition("a", 0), timeout=5) == (0, accepted)
        broker.append("a", 1, value)
        broker.flush()
        of_other = reader.get_watermark_offsets(TopicPartition("a", 1), timeout=5)
        assert of_other == (0, 1), "each partition has its own budget"
        reader.close()
    assert accepted == limit or accepted * (size + 72) > BUDGET - size - 72


def test_single_record_batches_fit_the_budget_too():
    """The dearest way to store a record is a batch of its own; the estimate covers it."""
    with EmbeddedBroker(["a"]) as broker:
        accepted = 0
        with suppress(BudgetError):
            while True:
                broker.append("a", 0, bytes(2000))
                broker.flush()
                accepted += 1
        reader = consumer(broker)
        assert reader.get_watermark_offsets(TopicPartition("a", 0), timeout=5) == (0, accepted)
        reader.close()


def test_mistakes_are_reported():
    broker = EmbeddedBroker()
    with pytest.raises(BrokerError, match="inside its `with` block"):
        broker.append("a", 0, b"")
    with broker, pytest.raises(BrokerError, match=r"a\[4\].*partitions 0\.\.3"):
        broker.append("a", 4, b"")
