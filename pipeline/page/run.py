"""Runs the page: reads in threads, serves in an event loop, until it is stopped."""

import asyncio
import contextlib
from collections.abc import Callable, Sequence
from typing import Any

from resonance.pipeline.config.settings import Settings
from resonance.pipeline.kafka.clients import librdkafka
from resonance.pipeline.page.follower import Follower
from resonance.pipeline.page.operations import Operations
from resonance.pipeline.page.server import PageServer, check_exposure
from resonance.pipeline.worker.http import page_client
from resonance.pipeline.worker.http.pages import address


async def serve(
    settings: Settings, host: str, port: int, say: Callable[[str], None], workers: Sequence[str] = ()
) -> None:
    """Serve the page until the task is cancelled; `workers` are the addresses of their pages, if not of the settings.

    Raises `ConfigurationError` where others than this machine could see it without a token, or the port is taken.
    """
    token = settings.page.token.get_secret_value() if settings.page.token else ""
    check_exposure(token, host)
    client = librdkafka(settings) | {"client.id": f"{settings.name}-page"}
    loop = asyncio.get_running_loop()

    def publish(entries: Sequence[dict[str, Any]]) -> None:
        with contextlib.suppress(RuntimeError):
            # The loop may have ended.
            loop.call_soon_threadsafe(server.publish, entries)

    follower = Follower(settings, client, publish)
    workers = workers or (address(settings.worker.web_host, settings.worker.web_port),)
    addresses = [page_client.split(worker).geturl().rstrip("/") for worker in workers]
    workers_token = settings.worker.web_token.get_secret_value() if settings.worker.web_token else ""
    operations = Operations(client, settings.group, settings.logs, addresses, workers_token)
    server = PageServer(follower, operations, token)
    await server.start(host, port)
    try:
        follower.start()
        hint = "/?token=TOKEN, once, with page.token" if token else ""
        say(f"{settings.name}: {address(host, port)}{hint} (Ctrl-C ends it)")
        await asyncio.Event().wait()
    finally:
        await server.stop()
        await asyncio.to_thread(follower.stop)
