"""What the page shows is read with the lock of the view that it is read from, and never in the thread of the server."""

import threading

import orjson
import pytest
from resonance.pipeline.config.settings import Settings
from resonance.pipeline.page import server as pages
from resonance.pipeline.page.follower import Follower
from resonance.pipeline.page.view import DeploymentView
from resonance.pipeline.records import Record

from tests.pipeline.page import outputs
from tests.pipeline.page.shop import SETTINGS, opened

ROUTES = (
    "overview?search=a",
    "stream?name=stream-7",
    "cluster?id=stream-7/1/0",
    "events?search=a",
    "operations",
    "live",
)
FREE = {"lock", "name"}
"""What may be read without the lock, because it is never changed."""


class Lock:
    """A lock that knows who has it."""

    def __init__(self):
        self.lock, self.owner, self.takers = threading.Lock(), None, set()
        self.before = lambda: None

    def __enter__(self):
        before, self.before = self.before, lambda: None
        before()
        self.takers.add(threading.get_ident())
        self.lock.acquire()
        self.owner = threading.get_ident()

    def __exit__(self, *_):
        self.owner = None
        self.lock.release()


class Watched(DeploymentView):
    """A view that is read with its lock alone, once it is watched."""

    def __init__(self, name="shop"):
        super().__init__(name)
        self.lock = Lock()
        self.apply_cluster(*outputs.cluster("stream-7/1/0"))
        self.add(self.read_output("events", outputs.record(outputs.event("emerged", "stream-7/1/0")), peers=False))
        self.misread = set()

    def __getattribute__(self, name):
        found = super().__getattribute__(name)
        if name not in FREE and name != "misread" and "misread" in super().__getattribute__("__dict__"):
            lock = super().__getattribute__("lock")
            if lock.owner != threading.get_ident():
                super().__getattribute__("misread").add(name)
        return found


async def visit(shop, session):
    """Visit every address while events come and a second passes; return the statuses."""
    found = {}
    async with shop.get(session, "/api/live?after=0") as tab:
        for route in ROUTES:
            async with shop.get(session, f"/api/{route}") as answer:
                found[route] = answer.status
        while b"tick" not in await tab.content.readline():
            pass
        # One that the clock sent.
        while b"tick" not in await tab.content.readline():
            pass
    return found


async def test_no_lock_is_taken_in_the_loop_and_nothing_is_read_without_it(monkeypatch):
    monkeypatch.setattr(pages, "TICK_SECONDS", 0.05)

    async with opened() as (shop, session):
        view = shop.follower.view = Watched()
        entry = {**outputs.event("emerged", "stream-7/1/1"), "number": 2}
        shop.server.publish([entry])
        assert set((await visit(shop, session)).values()) == {200}
        assert view.misread == set()
        assert view.lock.takers
        assert threading.get_ident() not in view.lock.takers


@pytest.mark.parametrize("route", ROUTES)
async def test_a_view_that_is_replaced_before_its_lock_is_there_is_not_read(route):
    """Answers once read the new view with the lock of the old one."""

    async with opened() as (shop, session):
        old, new = Watched(), Watched()
        shop.follower.view = old

        def replace():
            shop.follower.view = new

        old.lock.before = replace
        async with shop.get(session, f"/api/{route}") as answer:
            assert answer.status == 200
        assert (old.misread, new.misread) == (set(), set())
        assert new.lock.takers


def test_samples_are_taken_into_the_present_view():
    """Views share what was counted: with the lock of an old one it would change while others read it."""
    shop = Follower(Settings.of(SETTINGS), {}, print)
    old, new = Watched(), Watched()
    shop.view = old

    def replace():
        shop.view = new

    old.lock.before = replace
    partitions = {("shop.assignments", 0): "assignments"}
    record = Record("shop.assignments", 0, 0, 0, b"k", orjson.dumps(outputs.answer("stream-7", 0)))
    shop._read_newest(Records([record]), partitions, {}, {"assignments": 10.0})
    assert (old.misread, new.misread) == (set(), set())
    with new.lock:
        assert sum(new.streams["stream-7"].history.as_json()["total"]) == 1


class Records:
    """A reader of a partition."""

    def __init__(self, records):
        self.records = records

    def bounds(self, partitions):
        return {at: (0, len(self.records)) for at in partitions}

    def read(self, ranges, at_once):
        for at in ranges:
            yield at, self.records
