"""What the operations page says of a group that cannot be described, and how many records wait."""

import asyncio

import pytest
from aiohttp import web
from confluent_kafka import Consumer, TopicPartition
from resonance.pipeline.kafka.embedded import EmbeddedBroker
from resonance.pipeline.page import operations
from resonance.pipeline.page.operations import Operations

from tests.brokers import create_topic, produce, topic_name
from tests.brokers.jvm import free_port


def test_a_broker_that_knows_no_groups_is_said_to_be_one():
    with EmbeddedBroker(["orders"]) as broker:
        found = asyncio.run(Operations(broker.client_settings(), "shop", ["orders"], []).report())
    assert found["group"]["problem"].startswith("this broker does not describe group shop, as the one inside")
    assert found["group"]["members"] == found["group"]["partitions"] == []


def test_a_broker_that_does_not_answer_is_said_not_to(monkeypatch):
    monkeypatch.setattr(operations, "ANSWER_SECONDS", 0.2)
    found = asyncio.run(Operations({"bootstrap.servers": "127.0.0.1:1"}, "shop", ["orders"], []).report())
    assert found["group"]["problem"].startswith("group shop: the broker does not give its offsets (")
    assert asyncio.run(Operations({"bootstrap.servers": "127.0.0.1:1"}, "shop", ["orders"], []).waiting()) is None


def test_workers_are_sent_no_token_and_lead_nowhere_else():
    seen = []

    async def answer(request):
        seen.append((request.path, request.query_string, {**request.headers}))
        moved = request.path == "/metrics"
        return web.json_response({"ready": True}, status=302 if moved else 200, headers={"Location": "/elsewhere"})

    async def go():
        runner, port = web.ServerRunner(web.Server(answer)), free_port()
        await runner.setup()
        await web.TCPSite(runner, "127.0.0.1", port).start()
        try:
            await Operations({}, "shop", [], [], "s3cret")._of_worker(f"http://127.0.0.1:{port}")
        finally:
            await runner.cleanup()

    asyncio.run(go())
    assert [path for path, *_ in seen] == ["/readyz", "/metrics"]
    assert "s3cret" not in str(seen)


@pytest.mark.broker
def test_records_behind_the_committed_offsets_wait(broker):
    topic, group, client = create_topic(broker, partitions=2), topic_name("group"), {"bootstrap.servers": broker}
    produce(broker, topic, [(at % 2, b"k", b"{}") for at in range(10)])
    shown = Operations(client, group, [topic], [])
    assert asyncio.run(shown.waiting()) is None
    member = Consumer({**client, "group.id": group})
    member.commit(offsets=[TopicPartition(topic, 0, 5), TopicPartition(topic, 1, 2)], asynchronous=False)
    member.close()
    assert asyncio.run(Operations(client, group, [topic, "not-there"], []).waiting()) == 3
