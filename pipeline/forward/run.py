"""Runs the consumer and the delivery until they are stopped, and says over HTTP whether alerts get out."""

import asyncio
import logging
import os
import signal
from typing import Any, Final

import aiohttp
import orjson
from aiohttp import web
from resonance.pipeline.config.settings import Settings
from resonance.pipeline.errors import ConfigurationError
from resonance.pipeline.forward.consumer import AlertConsumer
from resonance.pipeline.forward.delivery import AlertDelivery
from resonance.pipeline.forward.receivers import Receiver
from resonance.pipeline.worker.http.pages import foreign_host

POLL_SECONDS: Final = 0.5
"""How long an alert may wait for others that go with it."""

HOST: Final = "127.0.0.1"

_log = logging.getLogger(__name__)


async def forward(settings: Settings, receiver: Receiver, group: str, port: int | None = None) -> None:
    """Send the alerts until SIGTERM or Ctrl-C; with a `port`, serve ``/readyz`` there.

    Raises `BrokerError` where the topic cannot be read, and `ConfigurationError` where the port is taken.
    """
    stopped = asyncio.Event()
    for number in (signal.SIGTERM, signal.SIGINT):
        asyncio.get_running_loop().add_signal_handler(number, stopped.set)
    # Through a proxy that the environment names, as other programs do.
    async with aiohttp.ClientSession(trust_env=True) as session:
        consumer, delivery = AlertConsumer(settings, group), AlertDelivery(receiver, session)
        page = web.AppRunner(_application(consumer, delivery), access_log=None, shutdown_timeout=1.0)
        try:
            if port is not None:
                await _serve(page, port)
            _log.info("alerts of %s go to %s, by the group %s", consumer.topic, receiver.shown, group)
            while not stopped.is_set():
                await asyncio.to_thread(consumer.poll, POLL_SECONDS)
                await delivery.run(consumer)
                await asyncio.to_thread(consumer.commit)
        finally:
            await asyncio.to_thread(consumer.close)
            await page.cleanup()
    _log.info("stopped: %d sent, %d left out", delivery.sent, delivery.refused)


def readiness(consumer: AlertConsumer, delivery: AlertDelivery) -> dict[str, Any]:
    """Return what ``/readyz`` shows."""
    problems = [
        *([] if consumer.joined else ["waiting for the consumer group to assign partitions"]),
        *([consumer.trouble] if consumer.trouble else []),
        *([f"{delivery.receiver.shown} takes no alerts: {delivery.trouble}"] if delivery.trouble else []),
    ]
    counts = {"waiting": len(consumer.waiting), "sent": delivery.sent, "refused": delivery.refused}
    return {"ready": not problems, "problems": problems, "partitions": len(consumer.tables), **counts}


def _application(consumer: AlertConsumer, delivery: AlertDelivery) -> web.Application:
    async def answer(request: web.Request) -> web.Response:
        error, shown = foreign_host(request, HOST), readiness(consumer, delivery)
        status = 403 if error else 200 if shown["ready"] else 503
        body = orjson.dumps({"error": error} if error else shown)
        return web.Response(body=body, status=status, content_type="application/json")

    app = web.Application(client_max_size=1024)
    app.router.add_get("/readyz", answer)
    return app


async def _serve(page: web.AppRunner, port: int) -> None:
    await page.setup()
    try:
        await web.TCPSite(page, HOST, port).start()
    except OSError as error:
        reason = os.strerror(error.errno) if error.errno and error.errno > 0 else str(error)
        raise ConfigurationError(f"--port {port}: cannot listen on {HOST} ({reason}); choose another port") from error
