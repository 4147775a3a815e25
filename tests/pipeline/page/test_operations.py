"""What the operations page says of a group that cannot be described, and how many records wait."""

import asyncio
import threading

import orjson
import pytest
from aiohttp import web
from confluent_kafka import Consumer, Producer, TopicPartition
from resonance.pipeline.kafka.embedded import EmbeddedBroker
from resonance.pipeline.page import operations
from resonance.pipeline.page.operations import Operations
from resonance.pipeline.worker.http import all_workers
from resonance.pipeline.worker.http.all_workers import SHOWN

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


READY = {name: kind() for name, kind in SHOWN.items()}


def visited(answers, seen=None):
    """Return what the page shows of something that gives these answers, each with its status."""

    async def answer(request):
        if seen is not None:
            seen.append((request.path, request.query_string, {**request.headers}))
        status, body = answers[request.path]
        return web.Response(status=status, body=body, headers={"Location": "/elsewhere"} if status == 302 else {})

    async def go():
        runner, port = web.ServerRunner(web.Server(answer)), free_port()
        await runner.setup()
        await web.TCPSite(runner, "127.0.0.1", port).start()
        try:
            return await Operations({}, "shop", [], [], "s3cret")._of_worker(f"http://127.0.0.1:{port}")
        finally:
            await runner.cleanup()

    return asyncio.run(go())


def test_workers_are_sent_no_token_and_lead_nowhere_else():
    seen = []
    visited({"/readyz": (200, orjson.dumps(READY)), "/metrics": (302, b"")}, seen)
    assert [path for path, *_ in seen] == ["/readyz", "/metrics"]
    assert "s3cret" not in str(seen)


def test_the_metrics_of_many_partitions_are_read_to_their_end():
    lines = (f'resonance_lag_records{{topic="orders",partition="{number}"}} {number}\n' for number in range(20_000))
    found = visited({"/readyz": (200, orjson.dumps(READY)), "/metrics": (200, "".join(lines).encode())})
    assert {each["partition"]: each["lag"] for each in found["partitions"]} == {
        f"orders[{number}]": number for number in range(20_000)
    }


async def test_behind_a_common_page_the_metrics_of_each_worker_are_read():
    both = asyncio.Barrier(2)

    async def metrics(request):
        # Both are requested at once: neither waits for the answer of the other.
        await both.wait()
        return web.Response(text=f'resonance_lag_records{{topic="orders",partition="{request.url.port}"}} 1\n')

    runner, ports = web.ServerRunner(web.Server(metrics)), sorted(free_port() for _ in range(2))
    await runner.setup()
    for port in ports:
        await web.TCPSite(runner, "127.0.0.1", port).start()
    workers = {str(n): {"page": f"http://127.0.0.1:{port}", "state": "running"} for n, port in enumerate(ports)}
    try:
        found = await asyncio.to_thread(visited, {"/readyz": (200, orjson.dumps(READY | {"workers": workers}))})
    finally:
        await runner.cleanup()
    assert [each["partition"] for each in found["partitions"]] == [f"orders[{port}]" for port in ports]


@pytest.mark.parametrize(
    ("answer", "said"),
    [
        (None, "Connection refused"),
        (lambda _: asyncio.sleep(1), "no answer within 0.5 s"),
        (lambda _: asyncio.sleep(0, web.Response(body=b"\xff")), "'utf-8' codec can't decode"),
    ],
)
async def test_a_worker_without_metrics_leaves_what_the_others_say(monkeypatch, answer, said):
    monkeypatch.setattr(operations, "PAGE_SECONDS", 0.5)

    async def metrics(request):
        return web.Response(text='resonance_lag_records{topic="orders",partition="0"} 1\n')

    runners, ports = [], [free_port() for _ in range(3)]
    for port, handler in zip(ports, (answer, answer, metrics), strict=True):
        if handler is not None:
            runners.append(web.ServerRunner(web.Server(handler), shutdown_timeout=0))
            await runners[-1].setup()
            await web.TCPSite(runners[-1], "127.0.0.1", port).start()
    workers = {str(n): {"page": f"http://127.0.0.1:{port}", "state": "running"} for n, port in enumerate(ports)}
    ready = READY | {"state": "running", "problems": ["worker 1: late"], "warnings": ["w"], "workers": workers}
    found = await asyncio.to_thread(visited, {"/readyz": (503, orjson.dumps(ready))})
    for runner in runners:
        await runner.cleanup()
    assert found["partitions"] == [{"partition": "orders[0]", "lag": 1.0}]
    assert (found["state"], found["problems"]) == ("running", ["worker 1: late"])
    for port, text in zip(ports[:2], found["problem"].split("; ")[:2], strict=True):
        assert text.startswith(f"the worker at http://127.0.0.1:{port} does not show its metrics ({said}")
    assert found["problem"].endswith("; w")


def test_the_page_answers_while_long_metrics_are_read(monkeypatch):
    threads = []
    monkeypatch.setattr(operations, "partitions_of", lambda _: threads.append(threading.current_thread()) or [])
    assert visited({"/readyz": (200, orjson.dumps(READY)), "/metrics": (200, b"")})["partitions"] == []
    assert threads != [threading.main_thread()]


@pytest.mark.parametrize(
    "ready",
    [
        *(b"[]", b"{}", b"<html>", b"\xff", b"x" * 2_000_000),
        orjson.dumps(READY | {"problems": 5}),
        *(orjson.dumps(READY | {name: [5]}) for name in ("problems", "warnings", "partitions")),
    ],
)
def test_what_is_no_worker_is_said_not_to_answer_as_one(monkeypatch, ready):
    monkeypatch.setattr(all_workers, "ANSWER_BYTES", 1_000_000)
    found = visited({"/readyz": (200, ready), "/metrics": (200, b"")})
    assert found["problem"].startswith("no worker answers at http://127.0.0.1:")


@pytest.mark.parametrize("metrics", [b"resonance_lag_records x y z\n", b"\xff", b"x" * 2_000_000])
def test_metrics_that_are_none_are_said_not_to_be_shown(monkeypatch, metrics):
    monkeypatch.setattr(all_workers, "ANSWER_BYTES", 1_000_000)
    found = visited({"/readyz": (200, orjson.dumps(READY)), "/metrics": (200, metrics)})
    assert " does not show its metrics (" in found["problem"]
    assert found["problems"] == found["partitions"] == []


@pytest.mark.broker
def test_what_an_open_transaction_holds_back_waits_and_an_unknown_lag_is_not_zero(broker):
    topic, group, client = create_topic(broker, partitions=3), topic_name("group"), {"bootstrap.servers": broker}
    produce(broker, topic, [(0, b"k", b"{}"), (1, b"k", b"{}")])
    upstream = Producer({**client, "transactional.id": topic_name("upstream")})
    upstream.init_transactions(20)
    upstream.begin_transaction()
    upstream.produce(topic, b"{}", partition=0)
    upstream.flush(10)
    produce(broker, topic, [(0, b"k", b"{}")] * 5)
    shown, member = Operations(client, group, [topic], []), Consumer({**client, "group.id": group})
    assert asyncio.run(shown.waiting()) is None
    member.commit(offsets=[TopicPartition(topic, 0, 1)], asynchronous=False)
    assert [(each["lag"], each["unstable"]) for each in shown._lags()] == [(6, 6), (None, None), (0, 0)]
    assert asyncio.run(shown.waiting()) is None
    member.commit(offsets=[TopicPartition(topic, 1, 1)], asynchronous=False)
    member.close()
    assert asyncio.run(Operations(client, group, [topic, "not-there"], []).waiting()) == 6
    upstream.abort_transaction(20)
