"""The page in a headless Chromium, beside topics on which something happens."""

import asyncio
import threading
from contextlib import asynccontextmanager
from itertools import product

import orjson
import pytest
from resonance.pipeline.config.settings import Settings
from resonance.pipeline.kafka.embedded import EmbeddedBroker
from resonance.pipeline.page.run import serve

from tests.brokers.jvm import free_port
from tests.browser import CHROMIUM, chromium, tab
from tests.pipeline.page import outputs
from tests.pipeline.page.test_follower import TOPICS

pytestmark = [
    pytest.mark.skipif(CHROMIUM is None, reason="no Chromium on the PATH (Debian: apt-get install chromium)"),
    pytest.mark.slow,
]


async def change(browser, selector, value):
    """Give a control `s` of the page a value, an expression, as a person would."""
    script = f"const s = document.querySelector('{selector}'); s.value = {value}; s.dispatchEvent(new Event('change'));"
    await browser.value(f"(() => {{ {script} }})()")


class Server:
    """A page in a thread of its own, which can be stopped and started."""

    def __init__(self, broker):
        self.port = free_port()
        self._settings = Settings.of({"name": "shop", "broker.bootstrap": broker, "input.topics": ["orders"]})

    def start(self):
        started = threading.Event()
        self._loop = asyncio.new_event_loop()
        page = serve(self._settings, "127.0.0.1", self.port, lambda _: started.set(), ["http://127.0.0.1:1"])
        self._task = self._loop.create_task(page)
        self._thread = threading.Thread(target=self._run)
        self._thread.start()
        assert started.wait(30)

    def _run(self):
        asyncio.set_event_loop(self._loop)
        try:
            self._loop.run_until_complete(self._task)
        except asyncio.CancelledError:
            self._loop.close()

    def stop(self):
        self._loop.call_soon_threadsafe(self._task.cancel)
        self._thread.join(30)


class Shop:
    chromium: int

    def __init__(self, broker):
        self.broker = broker
        self.server = Server(broker.bootstrap)
        self.address = f"http://127.0.0.1:{self.server.port}"

    def emit(self, topic, value, key=b"k"):
        self.broker.append(TOPICS[topic], 0, orjson.dumps(value), key)
        self.broker.flush()

    def cluster(self, *what, **more):
        key, value = outputs.cluster(*what, **more)
        self.emit("clusters", orjson.loads(value), key)


@pytest.fixture(scope="module", autouse=True)
def _one_chromium():
    with chromium() as Shop.chromium:
        yield


@asynccontextmanager
async def shop():
    """A page with some streams, open in a browser; at the end nothing was wrong in its console."""
    with EmbeddedBroker(TOPICS.values()) as broker:
        made = Shop(broker)
        for number in range(3):
            made.cluster(f"p0/1/{number}", size=100 - number)
        for number in range(300):
            key, value = outputs.cluster(f"shop-{number:03d}/1/0")
            broker.append(TOPICS["clusters"], 1, value, key)
        made.cluster("p0/1/3", since=5, second=30, ended="absorbed", successors=["p0/1/1"])
        for second in range(40):
            broker.append(TOPICS["assignments"], 0, orjson.dumps(outputs.answer("p0", second % 3, second)), b"k")
        made.emit("cluster-events", outputs.event("split", "p0/1/3", 1, 5, other="p0/1/0"))
        made.emit("drift-events", outputs.drift("drift", "p0/1/2", second=20))
        made.emit("alerts", outputs.alert("opened", "p0", second=21))
        made.server.start()
        try:
            async with tab(Shop.chromium) as browser:
                await browser.look()
                await browser.open(f"{made.address}/operations")
                await browser.wait("document.getElementById('live').textContent === 'live'")
                yield made, browser
                assert browser.errors == []
                assert [url for url in browser.requests if not url.startswith(made.address)] == []
        finally:
            made.server.stop()


async def test_all_pages_open_and_are_reached_by_links():
    async with shop() as (made, browser):
        await browser.open(made.address, "document.querySelector('.rows .row a')?.textContent === 'p0'")
        await browser.wait("document.querySelector('.tiles').innerText.includes('303')")
        await browser.value("document.querySelector('.first .entry a').click()")
        await browser.wait("document.querySelectorAll('.entry').length === 2")
        assert "p0: a new kind of records since 2026-01-05 08:00:2" in await browser.text()
        await browser.value("document.querySelector('section a').click()")
        await browser.wait("document.querySelectorAll('.lives a').length === 4")
        assert await browser.value("location.pathname + location.search") == "/stream?name=p0"
        assert await browser.value("document.querySelectorAll('.lives .drift').length") == 1
        text = await browser.text()
        assert "p0: a new kind of records since" in text
        assert "! p0 is unlike what its model knows" not in text
        await browser.value("document.querySelector('details').open = true")
        assert "! p0 is unlike what its model knows" in await browser.text()
        assert "The data are changing: p0/1/2 changed" in text
        assert "latency_ms 100 (others 250)" in text
        await browser.wait("document.querySelector('.chart canvas')")
        await browser.value("document.querySelector('tbody a').click()")
        await browser.wait("document.querySelector('h1').textContent === 'p0/1/0'")
        assert "gave rise to p0/1/3" in (await browser.text()).replace("\n", " ")
        await browser.value("document.querySelector('nav a[href=\"/events\"]').click()")
        await browser.wait("document.querySelectorAll('.entry').length === 3")
        await browser.value("document.querySelector('nav a[href=\"/operations\"]').click()")
        await browser.wait("document.body.innerText.includes('no worker answers at http://127.0.0.1:1')")
        await browser.value("history.back()")
        await browser.wait("location.pathname === '/events' && document.querySelectorAll('.entry').length === 3")


async def test_names_and_typical_records_are_shown():
    async with shop() as (made, browser):
        made.emit("names", {"cluster": "p0/1/0", "name": "night batch", "time": outputs.time_of(9)}, b"p0/1/0")
        example = {"id": "o-7", "source": {"topic": "orders", "partition": 0, "offset": 7}, "score": 0.9}
        made.cluster("p0/1/0", examples=[example])
        await browser.open(f"{made.address}/?search=night")
        await browser.wait("document.querySelector('.rows .called')?.textContent.trim() === 'night batch'")
        await browser.open(f"{made.address}/stream?name=p0")
        await browser.wait("document.querySelector('tbody .called')?.textContent === 'night batch'")
        await browser.wait("document.querySelector('.lives').textContent.includes('from night batch')")
        await browser.open(f"{made.address}/cluster?id=p0/1/0")
        await browser.wait("document.querySelector('code')?.textContent === 'resonance inspect p0/1/0 --records'")
        text = " ".join((await browser.text()).split())
        assert "orders[0]@7 o-7 0.9" in text
        assert "p0/1/3 (from night batch) split from p0/1/0 (night batch)" in text


async def test_the_slider_goes_back_and_its_address_can_be_shared():
    async with shop() as (made, browser):
        made.emit("cluster-events", outputs.event("emerged", "p0/1/0", 0, 2))
        await browser.open(f"{made.address}/stream?name=p0", "document.querySelectorAll('.lives a').length === 4")
        await change(browser, "input[type=range]", "Number(s.min) + 2500")
        await browser.wait("document.querySelectorAll('.lives a').length === 1")
        address = await browser.value("location.href")
        assert "&at=" in address
        await browser.open(f"{made.address}/events")
        await browser.open(address, "document.querySelectorAll('.lives a').length === 1")
        assert await browser.value("document.querySelector('output').textContent") == "2026-01-05 08:00:02 UTC"
        await browser.value("document.querySelector('.time button').click()")
        await browser.wait("document.querySelectorAll('.lives a').length === 4")
        assert "at=" not in await browser.value("location.href")


async def test_an_event_appears_and_is_counted_where_one_does_not_look():
    async with shop() as (made, browser):
        await browser.open(f"{made.address}/events", "document.querySelectorAll('.entry').length === 3")
        made.emit("cluster-events", outputs.event("emerged", "p0/1/4", 2, 50))
        await browser.wait("document.querySelector('.entry .text').textContent.startsWith('cluster p0/1/4 emerged')")
        assert await browser.value("document.querySelector('.entry .text a').getAttribute('href')") == (
            "/cluster?id=p0%2F1%2F4"
        )
        # One with an earlier time, as from a partition that is read later, comes below it.
        made.emit("cluster-events", outputs.event("emerged", "p1/1/0", 0, 40))
        await browser.wait("document.querySelectorAll('.entry').length === 5")
        assert "p1/1/0 emerged" in await browser.value("document.querySelectorAll('.entry .text')[1].textContent")
        await browser.act("document.querySelector('.brand').click()", "location.pathname === '/'")
        made.emit("cluster-events", outputs.event("emerged", "p0/1/5", 3, 60))
        await browser.wait("document.getElementById('unseen').textContent === '1'")
        await browser.open(f"{made.address}/events", "document.body.innerText.includes('1 since you last looked')")
        assert await browser.value("document.querySelectorAll('.entry.fresh').length") == 1


async def test_filters_and_sorting_stand_in_the_address():
    async with shop() as (made, browser):
        await browser.open(f"{made.address}/events", "document.querySelectorAll('.entry').length === 3")
        await change(browser, "select", "'drift'")
        await browser.wait("document.querySelectorAll('.entry').length === 1")
        address = await browser.value("location.href")
        assert address == f"{made.address}/events?kind=drift"
        made.emit("cluster-events", outputs.event("emerged", "p0/1/4", 2, 50))
        made.emit("drift-events", outputs.drift("settled", "p0/1/2", 1, 51))
        await browser.wait("document.querySelectorAll('.entry').length === 2")
        await browser.open(f"{made.address}/?search=shop-2&order=stream&ascending=1")
        await browser.wait("document.querySelector('.rows .row a')?.textContent === 'shop-200'")
        assert "100 of 301 streams" in await browser.text()
        await browser.value("document.querySelector('.scroller').scrollTop = 1e6")
        await browser.wait("[...document.querySelectorAll('.rows a')].at(-1)?.textContent === 'shop-299'")
        assert await browser.value("document.querySelectorAll('.rows .row').length") < 60


LATE = """
const plain = window.fetch;
window.answered = 0;
window.fetch = async (url) => {
  const answer = await plain(url);
  if (!new URL(url).searchParams.get("kind")) await new Promise((resolve) => setTimeout(resolve, 500));
  window.answered += 1;
  return answer;
};
document.dispatchEvent(new Event("visibilitychange"));
"""
"""Answers without a filter come late, and one was just requested."""


async def test_of_two_answers_the_one_to_the_later_request_counts():
    async with shop() as (made, browser):
        await browser.open(f"{made.address}/events", "document.querySelectorAll('.entry').length === 3")
        await browser.value(f"(() => {{ {LATE} }})()")
        await change(browser, "select", "'drift'")
        await browser.wait("document.querySelectorAll('.entry').length === 1")
        await browser.wait("window.answered >= 2")
        await asyncio.sleep(0.1)
        assert await browser.value("document.querySelectorAll('.entry').length") == 1


async def test_every_page_fits_a_phone_light_and_dark():
    pages = ("/", "/stream?name=p0", "/cluster?id=p0/1/0", "/incident?key=p0/1/drift/0", "/events", "/operations")

    async with shop() as (made, browser):
        for path, dark in product(pages, (False, True)):
            await browser.look(400, 800, dark)
            await browser.open(made.address + path)
            await browser.wait("document.querySelector('#main h1') && document.querySelector('#live').className")
            assert await browser.value("document.documentElement.scrollWidth") <= 400, path
            colours = "getComputedStyle(document.documentElement)"
            ground = await browser.value(f"{colours}.backgroundColor")
            assert (ground == "rgb(255, 255, 255)") is not dark


async def test_it_comes_back_when_its_server_does_and_says_so_meanwhile():
    async with shop() as (made, browser):
        await browser.open(f"{made.address}/events", "document.querySelectorAll('.entry').length === 3")
        await asyncio.to_thread(made.server.stop)
        await browser.wait("document.querySelector('#live').textContent.startsWith('no connection')")
        made.emit("cluster-events", outputs.event("emerged", "p0/1/4", 2, 50))
        await asyncio.to_thread(made.server.start)
        await browser.wait("document.querySelector('#live').textContent === 'live'", 40)
        made.emit("cluster-events", outputs.event("emerged", "p0/1/5", 3, 60))
        await browser.wait("document.querySelector('.entry .text').textContent.startsWith('cluster p0/1/5')")
        # The browser reports a server that does not answer.
        browser.errors.clear()


async def test_an_unknown_stream_and_the_keyboard():
    async with shop() as (made, browser):
        await browser.open(f"{made.address}/stream?name=shop-00")
        await browser.wait("document.body.innerText.includes('did you mean shop-')")
        await browser.open(made.address, "document.querySelector('.rows .row a')")
        unnamed = "[...document.querySelectorAll('a, button, input, select, svg[role], canvas')].filter(e =>"
        unnamed += " !e.closest('[aria-label]') && !e.textContent.trim() && !e.closest('[aria-hidden]')).length"
        assert await browser.value(unnamed) == 0
        names = []
        for _ in range(5):
            await browser.press("Tab")
            names.append(await browser.value("document.activeElement.textContent.trim()"))
        assert names == ["Skip to the content", "shop", "Overview", "Events", "Operations"]
        # Chromium reports an answer with 404 at any time after it.
        browser.errors[:] = [error for error in browser.errors if "name=shop-00" not in error.get("url", "")]


async def test_a_tab_that_is_not_seen_holds_no_connection_and_gets_what_it_missed():
    async with shop() as (made, browser):
        # A browser opens six connections to a server, and keeps pages that one has left.
        for _ in range(4):
            for path in ("/", "/events", "/operations"):
                await browser.open(made.address + path, "document.getElementById('live').textContent === 'live'")
        await browser.open(made.address, "document.getElementById('live').textContent === 'live'")
        made.emit("cluster-events", outputs.event("emerged", "p0/1/4", 2, 50))
        await browser.wait("document.getElementById('unseen').textContent === '1'")
        see = "Object.defineProperty(document, 'hidden', {value: %s, configurable: true});"
        see += "document.dispatchEvent(new Event('visibilitychange'))"
        requested = len(browser.requests)
        await browser.value(see % "true")
        made.emit("cluster-events", outputs.event("emerged", "p0/1/5", 3, 60))
        await asyncio.sleep(1.5)
        assert await browser.value("document.getElementById('unseen').textContent") == "1"
        await browser.act(see % "false", "document.getElementById('unseen').textContent === '2'")
        lives = [url for url in browser.requests[requested:] if "/api/live" in url]
        assert lives == [f"{made.address}/api/live?after=4"]
