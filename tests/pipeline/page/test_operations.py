"""What the operations page says of a group that cannot be described."""

import asyncio

from resonance.pipeline.kafka.embedded import EmbeddedBroker
from resonance.pipeline.page import operations
from resonance.pipeline.page.operations import Operations


def test_a_broker_that_knows_no_groups_is_said_to_be_one():
    with EmbeddedBroker(["orders"]) as broker:
        found = asyncio.run(Operations(broker.client_settings(), "shop", ["orders"], []).report())
    assert found["group"]["problem"].startswith("this broker does not describe group shop, as the one inside")
    assert found["group"]["members"] == found["group"]["partitions"] == []


def test_a_broker_that_does_not_answer_is_said_not_to(monkeypatch):
    monkeypatch.setattr(operations, "ANSWER_SECONDS", 0.2)
    found = asyncio.run(Operations({"bootstrap.servers": "127.0.0.1:1"}, "shop", ["orders"], []).report())
    assert found["group"]["problem"].startswith("group shop: the broker does not give its offsets (")
