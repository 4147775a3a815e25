"""One page for several workers."""

import asyncio
import re
import time
from contextlib import asynccontextmanager

import aiohttp
import pytest
from aiohttp import web
from pydantic import SecretStr
from resonance.pipeline.worker.http import all_workers
from resonance.pipeline.worker.http.all_workers import LIVE, SHOWN, AllWorkers
from resonance.pipeline.worker.http.pages import Pages

from tests.brokers.jvm import free_port

TOKEN = "s3cret"  # noqa: S105


class Worker:
    """Pages that say what a test wants."""

    own_page = "/metrics"

    def __init__(self, partition):
        self.port = free_port()
        self.pages = None
        self.partition = partition
        self.problems = []
        self.warnings = []
        self.waiting = 3
        self.hangs = False

    async def live(self):
        await self.answers()
        return not self.problems, {"live": not self.problems, "problems": self.problems}

    async def ready(self):
        await self.answers()
        return not self.problems, {
            "ready": not self.problems,
            "state": "joining" if self.problems else "running",
            "problems": self.problems,
            "warnings": self.warnings,
            "waiting": self.waiting,
            "unstable": 1,
            "partitions": [self.partition],
            "records": 5,
            "send_seconds": 0.25,
            "seen": {self.partition: {"records": 5}},
        }

    async def page(self, request):
        return b"", "text/plain; version=0.0.4"

    async def resume(self, partition):
        return [self.partition] if partition in (None, self.partition) else []

    async def answers(self):
        while self.hangs:
            await asyncio.sleep(0.02)

    async def start(self):
        self.pages = Pages(self, SecretStr(TOKEN))
        await self.pages.start("127.0.0.1", self.port)

    async def stop(self):
        await self.pages.stop()


@pytest.fixture(autouse=True)
def impatient(monkeypatch):
    monkeypatch.setattr(all_workers, "ANSWER_SECONDS", 0.5)


def with_two(what):
    """Let a test have the pages of two workers, and both workers."""

    async def go():
        first, second = (Worker(f"in[{n}]") for n in (0, 1))
        places = {str(n): f"http://127.0.0.1:{each.port}" for n, each in enumerate((first, second), 1)}
        await first.start()
        await second.start()
        try:
            return await what(AllWorkers(places, TOKEN), first, second)
        finally:
            await first.stop()
            await second.stop()

    return lambda: asyncio.run(go())


@with_two
async def test_both_pages_are_of_all_workers(pages, first, second):
    ready, shown = await pages.ready()
    assert ready
    assert shown["state"] == "running"
    assert shown["partitions"] == ["in[0]", "in[1]"]
    assert (shown["records"], shown["send_seconds"]) == (10, 0.5)
    assert set(shown["seen"]) == set(shown["partitions"])
    assert set(shown["workers"]) == {"1", "2"}
    second.problems = ["waiting for the consumer group to assign partitions"]
    ready, shown = await pages.ready()
    assert not ready
    assert shown["state"] == "joining"
    assert shown["problems"] == ["worker 2: waiting for the consumer group to assign partitions"]
    assert await pages.live() == (False, {"live": False, "problems": shown["problems"]})


@with_two
async def test_a_worker_that_is_away_is_said_with_its_reason(pages, first, second):
    await second.stop()
    assert (await pages.ready())[1]["problems"] == ["worker 2: it does not answer"]
    pages.absent["2"] = "it ended, and starts again in 4 s"
    ready, shown = await pages.ready()
    assert not ready
    assert shown["problems"] == ["worker 2: it ended, and starts again in 4 s"]
    assert shown["partitions"] == ["in[0]"]
    # The one that starts workers starts it again: no reason to restart all.
    assert (await pages.live())[0]


@with_two
async def test_what_waits_is_known_where_every_worker_knows_it(pages, first, second):
    second.warnings = ["in[1]@7: an open transaction"]
    shown = (await pages.ready())[1]
    assert (shown["waiting"], shown["unstable"]) == (6, 2)
    assert shown["warnings"] == ["worker 2: in[1]@7: an open transaction"]
    first.waiting = None
    shown = (await pages.ready())[1]
    assert (shown["waiting"], shown["unstable"]) == (None, 2)
    await second.stop()
    shown = (await pages.ready())[1]
    assert (shown["waiting"], shown["unstable"], shown["records"]) == (None, None, 5)


@with_two
async def test_another_program_on_the_port_of_a_worker_is_no_answer(pages, first, second):
    class Other(Worker):
        async def live(self):
            return False, {"detail": "Not Found"}

        async def ready(self):
            return True, self.shown

    await second.stop()
    other = Other("in[1]")
    other.port = second.port
    await other.start()
    try:
        mixed = {name: kind() for name, kind in SHOWN.items()} | {"partitions": [5]}
        for shown in ({"detail": "Not Found"}, dict.fromkeys(SHOWN), {"problems": 5}, mixed):
            other.shown = shown
            ready, found = await pages.ready()
            assert not ready
            assert found["problems"] == ["worker 2: it does not answer"]
            assert found["records"] == 5
        assert (await pages.live())[0]
    finally:
        await other.stop()


@asynccontextmanager
async def impostor(worker, answer):
    """Let something else listen where a worker was."""
    await worker.stop()
    other = web.ServerRunner(web.Server(answer))
    await other.setup()
    await web.TCPSite(other, "127.0.0.1", worker.port).start()
    try:
        yield
    finally:
        await other.cleanup()


def as_of_a_worker():
    return web.json_response({name: kind() for name, kind in (SHOWN | LIVE).items()})


@with_two
async def test_no_token_is_sent_to_what_listens_where_a_worker_was(pages, first, second):
    seen = []

    async def answer(request):
        seen.append((request.path, {**request.headers}))
        return as_of_a_worker()

    async with impostor(second, answer):
        await pages.live()
        await pages.ready()
        assert await pages.resume(None) == ["in[0]"]
    assert {path for path, _ in seen} == {"/livez", "/readyz", "/dlq/resume"}
    assert TOKEN not in str(seen)
    assert {"Authorization" in headers for path, headers in seen if path in ("/livez", "/readyz")} == {False}


@with_two
async def test_what_listens_where_a_worker_was_cannot_send_its_requests_on(pages, first, second):
    answers = []

    async def pass_on(request):
        if "Authorization" in request.headers:
            async with aiohttp.ClientSession() as session:
                at = f"http://127.0.0.1:{first.port}{request.path}"
                body = await request.read()
                async with session.request(request.method, at, headers=request.headers, data=body) as answer:
                    answers.append((request.path, answer.status))
        return as_of_a_worker()

    async with impostor(second, pass_on):
        assert await pages.resume(None) == ["in[0]"]
    assert answers == [("/dlq/resume", 401)]


@with_two
async def test_a_worker_that_hangs_is_not_live(pages, first, second):
    second.hangs = True
    assert (await pages.ready())[1]["problems"] == ["worker 2: it does not answer"]
    assert (await pages.live())[0], "it may be starting, or about to be started again"
    pages.running["2"] = time.monotonic() - 1000
    assert (await pages.live())[0], "not for long"
    pages.silent["2"] -= 61
    live, shown = await pages.live()
    assert not live
    assert re.fullmatch(r"worker 2: it has not answered for 6\d s \(at most 60 s are fine\)", *shown["problems"])
    pages.running["2"] = time.monotonic()
    assert (await pages.live())[0], "another process, which has just started"
    second.hangs = False
    pages.running["2"] = time.monotonic() - 1000
    assert (await pages.live())[0]
    assert "2" not in pages.silent


@with_two
async def test_a_worker_that_hangs_holds_up_no_other_that_resumes(pages, first, second):
    second.hangs = True
    assert await pages.resume(None) == ["in[0]"]


@with_two
async def test_a_paused_partition_is_resumed_wherever_it_is(pages, first, second):
    assert await pages.resume("in[1]") == ["in[1]"]
    assert await pages.resume(None) == ["in[0]", "in[1]"]
    assert await pages.resume("in[7]") == []
    await first.stop()
    assert await pages.resume(None) == ["in[1]"]


@pytest.mark.parametrize("host", ["127.0.0.1", "localhost"])
async def test_prometheus_finds_the_metrics_of_each_worker_on_the_host_that_it_asks(host):
    port, places = free_port(), {"1": "http://127.0.0.1:6067", "2": "http://127.0.0.1:6068"}
    served = Pages(AllWorkers(places))
    await served.start("127.0.0.1", port)
    try:
        async with aiohttp.ClientSession() as session, session.get(f"http://{host}:{port}/workers") as answer:
            assert answer.content_type == "application/json"
            assert await answer.json() == [{"targets": [f"{host}:6067", f"{host}:6068"]}]
        async with aiohttp.ClientSession() as session, session.get(f"http://{host}:{port}/metrics") as answer:
            assert answer.status == 404
    finally:
        await served.stop()
