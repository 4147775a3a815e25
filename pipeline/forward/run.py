"""Runs the consumer and the delivery until they are stopped, and says over HTTP whether alerts get out."""

import asyncio
import logging
import signal
from contextlib import suppress
from typing import Any, Final

import aiohttp
from aiohttp import web
from resonance.pipeline.config.settings import Settings
from resonance.pipeline.errors import ConfigurationError, system_reason
from resonance.pipeline.forward.consumer import AlertConsumer
from resonance.pipeline.forward.delivery import AlertDelivery
from resonance.pipeline.forward.publisher import IncidentPublisher, PublishingTurn
from resonance.pipeline.forward.receivers import Receiver
from resonance.pipeline.worker.http.pages import foreign_host, json_response, listen

POLL_SECONDS: Final = 0.5
"""How long an alert may wait for others that go with it."""

PUBLISH_SECONDS: Final = 1.0
"""Pause between two looks at the outputs."""

HOST: Final = "127.0.0.1"

Sender = tuple[AlertConsumer, AlertDelivery]

_log = logging.getLogger(__name__)


async def forward(
    settings: Settings, receiver: Receiver | None, group: str, port: int | None = None, *, publishes: bool = False
) -> None:
    """Send the alerts to a receiver until SIGTERM or Ctrl-C; with a `port`, serve ``/readyz`` there.

    With `publishes` the incidents are published, and they, not the alerts, are what a receiver gets. Raises
    `BrokerError` where a topic cannot be used, and `ConfigurationError` where the port is taken.
    """
    stopped = asyncio.Event()
    for number in (signal.SIGTERM, signal.SIGINT):
        asyncio.get_running_loop().add_signal_handler(number, stopped.set)
    publisher = await asyncio.to_thread(IncidentPublisher, settings) if publishes else None
    turn = PublishingTurn(settings, publisher.topic) if publisher else None
    # Through a proxy that the environment names, as other programs do.
    async with aiohttp.ClientSession(trust_env=True) as session:
        sender = None
        if receiver is not None:
            consumer = AlertConsumer(settings, group, "incidents" if publishes else "alerts")
            sender = consumer, AlertDelivery(receiver, session)
        page = web.AppRunner(_application(sender, publisher), access_log=None, shutdown_timeout=1.0)
        try:
            if port is not None:
                await _serve(page, port)
            running = [asyncio.create_task(_publish(publisher, turn, stopped))] if publisher and turn else []
            running += [asyncio.create_task(_send(*sender, group, stopped))] if sender else []
            await asyncio.wait(running, return_when=asyncio.FIRST_COMPLETED)
            stopped.set()
            # One that fails must not cut short the other, whose thread may be at work.
            await asyncio.wait(running)
            await asyncio.gather(*running)
        finally:
            await page.cleanup()


async def _send(consumer: AlertConsumer, delivery: AlertDelivery, group: str, stopped: asyncio.Event) -> None:
    _log.info("what %s has goes to %s, by the group %s", consumer.topic, delivery.receiver.shown, group)
    try:
        while not stopped.is_set():
            await asyncio.to_thread(consumer.poll, POLL_SECONDS)
            await delivery.run(consumer)
            await asyncio.to_thread(consumer.commit)
    finally:
        await asyncio.to_thread(consumer.close)
    _log.info("stopped: %d sent, %d left out", delivery.sent, delivery.refused)


async def _publish(publisher: IncidentPublisher, turn: PublishingTurn, stopped: asyncio.Event) -> None:
    _log.info("the incidents go to %s", publisher.topic)
    try:
        while not stopped.is_set():
            before = publisher.trouble, publisher.is_standby
            turn.poll()
            if turn.mine:
                await asyncio.to_thread(publisher.run)
            else:
                publisher.trouble = "" if turn.joined else "waiting for the group to say who publishes"
            publisher.is_standby = turn.joined and not turn.mine
            if (publisher.trouble, publisher.is_standby) != before:
                read = "another process publishes them" if publisher.is_standby else "all outputs are read"
                _log.info("incidents: %s", publisher.trouble or read)
            with suppress(TimeoutError):
                await asyncio.wait_for(stopped.wait(), PUBLISH_SECONDS)
    finally:
        await asyncio.to_thread(publisher.close)
        await asyncio.to_thread(turn.close)
    _log.info("stopped: %d messages on incidents", publisher.published)


def readiness(sender: Sender | None, publisher: IncidentPublisher | None = None) -> dict[str, Any]:
    """Return what ``/readyz`` shows."""
    problems, shown = [], dict[str, Any]()
    if sender is not None:
        consumer, delivery = sender
        problems = [
            *([] if consumer.joined else ["waiting for the consumer group to assign partitions"]),
            *([consumer.trouble] if consumer.trouble else []),
            *([f"{delivery.receiver.shown} takes no alerts: {delivery.trouble}"] if delivery.trouble else []),
        ]
        shown = {"partitions": len(consumer.open), "waiting": len(consumer.waiting)}
        shown |= {"sent": delivery.sent, "refused": delivery.refused}
    if publisher is not None:
        problems += [publisher.trouble] if publisher.trouble else []
        shown |= {"published": publisher.published, "standby": publisher.is_standby}
    return {"ready": not problems, "problems": problems, **shown}


def _application(sender: Sender | None, publisher: IncidentPublisher | None) -> web.Application:
    async def answer(request: web.Request) -> web.Response:
        error, shown = foreign_host(request, HOST), readiness(sender, publisher)
        status = 403 if error else 200 if shown["ready"] else 503
        return json_response({"error": error} if error else shown, status)

    app = web.Application(client_max_size=1024)
    app.router.add_get("/readyz", answer)
    return app


async def _serve(page: web.AppRunner, port: int) -> None:
    try:
        await listen(page, HOST, port)
    except OSError as error:
        raise ConfigurationError(
            f"--port {port}: cannot listen on {HOST} ({system_reason(error)}); choose another port"
        ) from error
