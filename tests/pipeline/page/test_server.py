"""The page over HTTP: what is compressed, what a tab gets."""

import gzip

import orjson
import pytest
from resonance.pipeline.errors import ConfigurationError
from resonance.pipeline.page import server as pages
from resonance.pipeline.page.server import HEADERS, PAGES
from resonance.pipeline.page.timeline import as_json

from tests.pipeline.page import outputs
from tests.pipeline.page.shop import Shop, opened


async def test_every_address_of_the_page_is_served_with_a_strict_policy():
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


async def test_answers_are_compressed_and_files_are_not_sent_again():
    async with opened(auto_decompress=False) as (shop, session):
        path = "/api/overview?order=stream"
        async with shop.get(session, path, headers={"Accept-Encoding": "gzip"}) as answer:
            assert answer.headers["Content-Encoding"] == "gzip"
            content = gzip.decompress(await answer.read())
        async with shop.get(session, path, headers={"Accept-Encoding": "identity"}) as answer:
            assert await answer.read() == content
        for path in ("/", "/static/app.js"):
            async with shop.get(session, path) as answer:
                assert (answer.status, len(await answer.read()) > 900) == (200, True)
            async with shop.get(session, path, headers={"If-None-Match": answer.headers["ETag"]}) as answer:
                assert (answer.status, await answer.read()) == (304, b"")


async def test_answers_are_about_what_is_asked_for_and_errors_are_sentences():
    async with opened() as (shop, session):

        async def ask(path):
            async with shop.get(session, f"/api/{path}") as answer:
                return answer.status, await answer.json()

        assert (await ask("overview?search=stream-5&most=3"))[1]["found"] == 11
        assert (await ask("stream?name=stream-7"))[1]["table"][0]["id"] == "stream-7/1/0"
        assert (await ask("cluster?id=stream-7/1/0"))[1]["present"] is True
        status, found = await ask("stream?name=steam-7")
        assert (status, "did you mean stream-7" in found["error"]) == (404, True)
        shop.happen("drift", outputs.drift("drift", "stream-7/1/0"))
        shop.happen("events", outputs.event("emerged", "stream-7/1/1"))
        entries = (await ask("events?kind=drift,alerts"))[1]["entries"]
        assert [entry["what"] for entry in entries] == ["drift"]
        assert (await ask("events?severity=critical"))[1]["entries"] == []
        (happened,) = (await ask("overview"))[1]["incidents"]
        assert (await ask(f"incident?key={happened['key']}"))[1]["streams"] == ["stream-7"]
        assert (await ask("incident?key=none"))[0] == 404
        first, second = (await ask("events"))[1]["entries"]
        older = f"events?before={first['number']}&before_time={first['time']}"
        assert (await ask(older))[1]["entries"] == [second]
        shop.follower.troubles |= {"broker": "no broker", "outputs": "no broker either"}
        assert (await ask("overview"))[1]["troubles"] == ["no broker"]


async def message(answer):
    """The next message of a stream of events."""
    found = {}
    while (line := (await answer.content.readline()).decode().rstrip("\n")) or not found:
        name, _, value = line.partition(": ")
        found |= {name: value} if line else {}
    return found["event"], found.get("id"), orjson.loads(found["data"])


async def test_a_tab_gets_what_happens_and_what_it_missed():
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


async def test_what_comes_while_a_tab_opens_is_sent_once():
    async with opened() as (shop, session):
        shop.happen("events", outputs.event("emerged", "stream-7/1/1"))
        view = shop.follower.view
        since, late = view.timeline.since, []

        def happens_meanwhile(number):
            # Entries are in the timeline before they are published.
            for at in (2, 3):
                value = outputs.event("emerged", f"stream-7/1/{at}")
                late.append(view.add(view.read_output("events", outputs.record(value), peers=False)))
            return since(number)

        view.timeline.since = happens_meanwhile
        async with shop.get(session, "/api/live?after=1") as answer:
            shop.server.publish(as_json(late, view.names))
            shop.happen("events", outputs.event("emerged", "stream-7/1/4"))
            found = [await message(answer) for _ in range(4)]
        assert [number for kind, number, _ in found if kind == "entry"] == ["2", "3", "4"]


async def test_a_tab_gets_how_many_records_wait(monkeypatch):
    monkeypatch.setattr(pages, "TICK_SECONDS", 0.05)

    async with opened() as (shop, session):
        async with shop.get(session, "/api/overview") as answer:
            assert (await answer.json())["waiting"] is None
        async with shop.get(session, "/api/live") as answer:
            waiting = [(await message(answer))[2]["waiting"] for _ in range(5)]
        assert (waiting[0], waiting[-1]) == (None, 7)


async def test_a_fault_hides_how_many_records_wait_until_it_is_over(monkeypatch):
    monkeypatch.setattr(pages, "TICK_SECONDS", 0.02)
    monkeypatch.setattr(pages, "ASK_SECONDS", 0.1)

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


async def test_a_tab_that_does_not_read_is_let_go(monkeypatch):
    monkeypatch.setattr(pages, "WAITING", 3)

    async with opened() as (shop, session), shop.get(session, "/api/live") as answer:
        await message(answer)
        for number in range(200):
            shop.happen("events", outputs.event("emerged", f"stream-7/1/{number}"))
        assert not shop.server._tabs
        rest = await answer.content.read()
        assert rest.count(b"event: entry") < 200


async def test_the_page_closes_although_a_tab_has_not_read_all(monkeypatch):
    monkeypatch.setattr(pages, "WAITING", 3)

    async with opened() as (shop, session), shop.get(session, "/api/live") as answer:
        await message(answer)
        for number in range(3):
            shop.happen("events", outputs.event("emerged", f"stream-7/1/{number}"))
        assert [tab.full() for tab in shop.server._tabs] == [True]
        await shop.server.stop()
        assert b"event: entry" not in await answer.content.read()


async def test_tabs_are_limited(monkeypatch):
    monkeypatch.setattr(pages, "MOST_TABS", 1)

    async with opened() as (shop, session), shop.get(session, "/api/live") as first:
        await message(first)
        async with shop.get(session, "/api/live") as answer:
            assert (answer.status, "close some" in (await answer.json())["error"]) == (503, True)


async def test_a_second_page_on_the_port_is_refused_with_a_way_out():
    async with opened() as (shop, _):
        with pytest.raises(ConfigurationError, match=r"cannot be served on .*Address already in use.*--port"):
            await Shop().server.start("127.0.0.1", shop.port)
