"""Of several processes that publish incidents one does, and the next one when it ends."""

import time

import pytest
from resonance.pipeline.config.settings import Settings
from resonance.pipeline.forward.publisher import PublishingTurn

from tests.brokers import create_topic

pytestmark = pytest.mark.broker


def test_of_several_processes_one_publishes_and_then_the_next(broker):
    topic = create_topic(broker, "shop.incidents", partitions=1)
    given = Settings.of({"name": topic, "broker.bootstrap": broker, "input.topics": ["t"]})
    turns = [PublishingTurn(given, topic) for _ in range(2)]
    while turns:
        end = time.monotonic() + 60
        while not (all(each.joined for each in turns) and any(each.mine for each in turns)):
            assert time.monotonic() < end
            for each in turns:
                each.poll()
            time.sleep(0.02)
        (one,) = (each for each in turns if each.mine)
        turns.remove(one)
        one.close()
