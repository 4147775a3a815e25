"""A page of a deployment with some streams, without a broker."""

from contextlib import asynccontextmanager

import aiohttp
from resonance.pipeline.config.settings import Settings
from resonance.pipeline.page.follower import Follower
from resonance.pipeline.page.operations import Operations
from resonance.pipeline.page.server import PageServer
from resonance.pipeline.page.timeline import as_json

from tests.brokers.jvm import free_port
from tests.pipeline.page import outputs

SETTINGS = {"name": "shop", "broker.bootstrap": "127.0.0.1:1", "input.topics": ["orders"]}


class Group(Operations):
    """A group in which seven records wait; now and then that cannot be read."""

    faults = 0

    async def report(self):
        return {"group": {"name": "shop"}, "workers": []}

    async def waiting(self):
        if self.faults:
            self.faults -= 1
            raise OSError
        return 7


class Shop:
    """The page, its follower, and what happens in the deployment."""

    def __init__(self, token=""):
        self.follower = Follower(Settings.of(SETTINGS), {"bootstrap.servers": "127.0.0.1:1"}, print)
        for number in range(60):
            self.follower.view.apply_cluster(*outputs.cluster(f"stream-{number}/1/0"))
        self.follower.loaded = 1.0
        self.server = PageServer(self.follower, Group({}, "shop", [], []), token)
        self.port = free_port()

    def happen(self, kind, value):
        entry = self.follower.view.read_output(kind, outputs.record(value), peers=False)
        self.server.publish(as_json([self.follower.view.add(entry)], self.follower.view.names))

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
