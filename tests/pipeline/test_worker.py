"""What a worker decides without a broker."""

import pytest
from confluent_kafka import Producer
from resonance.pipeline.delivery import producer_settings
from resonance.pipeline.errors import ConfigurationError
from resonance.pipeline.settings import Settings
from resonance.pipeline.snapshots import CHUNK_BYTES
from resonance.pipeline.topics import Deployment
from resonance.pipeline.worker import check_limits

SETTINGS = Settings.of({"input.topics": ["in"], "name": "shop"})


@pytest.mark.parametrize("topic", ["shop.snapshots", "shop.dead-letters"])
def test_a_topic_that_takes_too_little_is_refused_at_the_start(topic):
    check_limits(SETTINGS, Deployment(1, {}, {topic: 1_048_588}))
    with pytest.raises(ConfigurationError, match=rf"topic {topic} takes messages of {CHUNK_BYTES} bytes"):
        check_limits(SETTINGS, Deployment(1, {}, {topic: CHUNK_BYTES}))


@pytest.mark.parametrize("taken", [1, 1_048_588, 2**31 - 1])
def test_whatever_a_topic_takes_a_producer_can_be_made(taken):
    Producer(producer_settings({"bootstrap.servers": "127.0.0.1:9", "log_level": 0}, message_bytes={"out": taken}))
