"""The page over HTTP: who may ask, what is compressed, what a tab gets."""

import asyncio
import gzip
from contextlib import asynccontextmanager

import aiohttp
import orjson
import pytest
from resonance.pipeline.config.settings import Settings
from resonance.pipeline.errors import ConfigurationError
from resonance.pipeline.page import server as pages
from resonance.pipeline.page.follower import Follower
from resonance.pipeline.page.operations import Operations
from resonance.pipeline.page.run import Place, serve
from resonance.pipeline.page.server import HEADERS, PAGES, PageServer

from tests.brokers.jvm import free_port
from tests.pipeline.page import outputs

TOKEN = "a secret"  # noqa: S105
SETTINGS = {"name": "shop", "broker.bootstrap": "127.0.0.1:1", "input.topics": ["orders"]}


class Group(Operations):
    """A group in which seven records wait; now and then that cannot be read."""

    faults = 0

    async def waiting(self):
        if self.faults:
            self.faults -= 1
            raise OSError
        return 7


class Shop:
    """A page of a deployment with some streams, without a broker."""

    def __init__(self, token=""):
        self.follower = Follower(Settings.of(SETTINGS), {"bootstrap.servers": "127.0.0.1:1"}, print)
        for number in range(60):
            self.follower.view.apply_cluster(*outputs.cluster(f"stream-{number}/1/0"))
        self.follower.loaded = 1.0
        self.server = PageServer(self.follower, Group({}, "shop", [], []), token)
        self.port = free_port()

    def happen(self, kind, value):
        entry = self.follower.view.read_output(kind, outputs.record(value), peers=False)
        self.server.publish([self.follower.view.add(entry)])

    def get(self, session, path, **how):
        return session.get(f"http://127.0.0.1:{self.port}{path}", **how)


@asynccontextmanager
async def opened(token="", **session):
    shop = Shop(token)
    await shop.server.start("127.0.0.1", shop.port)
    try:
        async with aiohttp.ClientSession(cookie_jar=aiohttp.CookieJar(unsafe=True), **session) as client:
            yield shop, client
    finally:
        await shop.server.stop()


def test_every_address_of_the_page_is_served_with_a_strict_policy():
    async def go():
        async with opened() as (shop, session):
            for path in (*PAGES, "/static/app.js", "/static/app.css", "/api/overview", "/nowhere", "/static/nothing"):
                async with shop.get(session, path) as answer:
                    assert answer.status == (404 if "no" in path else 200), path
                    assert HEADERS.items() <= answer.headers.items()
            assert "'unsafe" not in HEADERS["Content-Security-Policy"]
            async with shop.get(session, "/") as answer:
                text = await answer.text()
            assert "<style" not in text
            assert "style=" not in text
            assert text.count("<script") == text.count('<script type="module" src=')

    asyncio.run(go())


def test_files_and_answers_are_compressed_and_not_sent_again():
    async def go():
        async with opened(auto_decompress=False) as (shop, session):
            for path in ("/static/app.js", "/api/overview?order=stream"):
                async with shop.get(session, path, headers={"Accept-Encoding": "gzip"}) as answer:
                    assert answer.headers["Content-Encoding"] == "gzip"
                    content, known = gzip.decompress(await answer.read()), {"If-None-Match": answer.headers["ETag"]}
                async with shop.get(session, path, headers={"Accept-Encoding": "identity"}) as answer:
                    assert await answer.read() == content
                async with shop.get(session, path, headers=known) as answer:
                    assert (answer.status, await answer.read()) == (304, b"")

    asyncio.run(go())


def test_answers_are_about_what_is_asked_for_and_errors_are_sentences():
    async def go():
        async with opened() as (shop, session):

            async def ask(path):
                async with shop.get(session, f"/api/{path}") as answer:
                    return answer.status, await answer.json()

            assert (await ask("overview?search=stream-5&most=3"))[1]["found"] == 11
            assert (await ask("stream?name=stream-7"))[1]["table"][0]["id"] == "stream-7/1/0"
            assert (await ask("cluster?id=stream-7/1/0"))[1]["present"] is True
            status, found = await ask("stream?name=steam-7")
            assert (status, "did you mean stream-7" in found["error"]) == (404, True)
            assert (await ask("overview?start=x"))[0] == 400
            shop.happen("drift", outputs.drift("drift", "stream-7/1/0"))
            shop.happen("events", outputs.event("emerged", "stream-7/1/1"))
            entries = (await ask("events?kind=drift,alerts"))[1]["entries"]
            assert [entry["what"] for entry in entries] == ["drift"]
            assert (await ask("events?severity=critical"))[1]["entries"] == []
            first, second = (await ask("events"))[1]["entries"]
            older = f"events?before={first['number']}&before_time={first['time']}"
            assert (await ask(older))[1]["entries"] == [second]
            shop.follower.troubles |= {"broker": "no broker", "outputs": "no broker either"}
            assert (await ask("overview"))[1]["troubles"] == ["no broker"]

    asyncio.run(go())


async def message(answer):
    """The next message of a stream of events."""
    found = {}
    while (line := (await answer.content.readline()).decode().rstrip("\n")) or not found:
        name, _, value = line.partition(": ")
        found |= {name: value} if line else {}
    return found["event"], found.get("id"), orjson.loads(found["data"])


def test_a_tab_gets_what_happens_and_what_it_missed():
    async def go():
        async with opened() as (shop, session):
            async with shop.get(session, "/api/live") as answer:
                kind, _, headline = await message(answer)
                assert (kind, headline["deployment"], headline["streams"]) == ("tick", "shop", 60)
                shop.happen("events", outputs.event("emerged", "stream-7/1/1"))
                kind, number, entry = await message(answer)
                assert (kind, number, entry["cluster"]) == ("entry", "1", "stream-7/1/1")
            shop.happen("events", outputs.event("emerged", "stream-7/1/2"))
            shop.happen("events", outputs.event("emerged", "stream-7/1/3"))
            async with shop.get(session, "/api/live", headers={"Last-Event-ID": "2"}) as answer:
                assert (await message(answer))[1] == "3"
                assert (await message(answer))[0] == "tick"
            async with shop.get(session, "/api/live?after=1") as answer:
                assert [(await message(answer))[1] for _ in range(2)] == ["2", "3"]

    asyncio.run(go())


def test_a_tab_gets_how_many_records_wait(monkeypatch):
    monkeypatch.setattr(pages, "TICK_SECONDS", 0.05)

    async def go():
        async with opened() as (shop, session):
            async with shop.get(session, "/api/overview") as answer:
                assert (await answer.json())["waiting"] is None
            async with shop.get(session, "/api/live") as answer:
                waiting = [(await message(answer))[2]["waiting"] for _ in range(5)]
            assert (waiting[0], waiting[-1]) == (None, 7)

    asyncio.run(go())


def test_a_fault_hides_how_many_records_wait_until_it_is_over(monkeypatch):
    monkeypatch.setattr(pages, "TICK_SECONDS", 0.02)
    monkeypatch.setattr(pages, "ASK_SECONDS", 0.1)

    async def go():
        async with opened() as (shop, session), shop.get(session, "/api/live") as answer:
            seen = []
            while seen[-1:] != [7]:
                seen.append((await message(answer))[2]["waiting"])
            shop.server._operations.faults = 1
            while seen[-1] == 7:
                seen.append((await message(answer))[2]["waiting"])
            assert seen[-1] is None
            while seen[-1] is None:
                seen.append((await message(answer))[2]["waiting"])
            assert seen[-1] == 7

    asyncio.run(go())


def test_a_tab_that_does_not_read_is_let_go(monkeypatch):
    monkeypatch.setattr(pages, "WAITING", 3)

    async def go():
        async with opened() as (shop, session), shop.get(session, "/api/live") as answer:
            await message(answer)
            for number in range(200):
                shop.happen("events", outputs.event("emerged", f"stream-7/1/{number}"))
            assert not shop.server._tabs
            rest = await answer.content.read()
            assert rest.count(b"event: entry") < 200

    asyncio.run(go())


def test_tabs_are_limited(monkeypatch):
    monkeypatch.setattr(pages, "MOST_TABS", 1)

    async def go():
        async with opened() as (shop, session), shop.get(session, "/api/live") as first:
            await message(first)
            async with shop.get(session, "/api/live") as answer:
                assert (answer.status, "close some" in (await answer.json())["error"]) == (503, True)

    asyncio.run(go())


def test_with_a_token_every_request_needs_it():
    async def go():
        async with opened(TOKEN) as (shop, session):
            for path in ("/", "/static/app.js", "/api/overview", "/api/live", "/?token=wrong"):
                async with shop.get(session, path) as answer:
                    assert answer.status == 401, path
                    assert "token=TOKEN" in await answer.text()
            bearer = {"Authorization": f"Bearer {TOKEN}"}
            async with shop.get(session, "/api/overview", headers=bearer) as answer:
                assert answer.status == 200
            opening = {"token": TOKEN, "name": "p0"}
            async with shop.get(session, "/stream", params=opening, allow_redirects=False) as answer:
                assert (answer.status, answer.headers["Location"]) == (303, "/stream?name=p0")
                cookie = answer.headers["Set-Cookie"]
                assert "HttpOnly" in cookie
                assert "SameSite=Strict" in cookie
            async with shop.get(session, "/api/overview") as answer:
                assert answer.status == 200

    asyncio.run(go())


@pytest.mark.parametrize(("host", "status"), [("127.0.0.1", 200), ("localhost:80", 200), ("evil.example", 403)])
def test_without_a_token_only_names_of_this_machine_are_answered(host, status):
    async def go():
        async with opened() as (shop, session), shop.get(session, "/api/overview", headers={"Host": host}) as answer:
            assert answer.status == status

    asyncio.run(go())


def test_a_second_page_on_the_port_is_refused_with_a_way_out():
    async def go():
        async with opened() as (shop, _):
            with pytest.raises(ConfigurationError, match=r"cannot be served on .*Address already in use.*--port"):
                await Shop().server.start("127.0.0.1", shop.port)

    asyncio.run(go())


def test_beyond_this_machine_it_needs_a_token():
    with pytest.raises(ConfigurationError, match=r"--host = 0.0.0.0: others .* could see the page; set RESONANCE_WORK"):
        asyncio.run(serve(Settings.of(SETTINGS), Place("0.0.0.0", 6060), print))  # noqa: S104 - refused
