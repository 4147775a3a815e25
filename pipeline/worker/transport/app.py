"""The Faust app of a worker: membership, rebalances and flow control, but no commit of its own."""

import logging
from collections.abc import Awaitable, Callable
from importlib.metadata import PackageNotFoundError, version
from typing import TYPE_CHECKING

import faust
from faust.tables import TableManager
from resonance.pipeline.config.settings import Settings
from resonance.pipeline.errors import ConfigurationError
from resonance.pipeline.worker.transport import consumer
from resonance.pipeline.worker.transport.chunk import RawSchema
from resonance.pipeline.worker.transport.client import TransportOptions

if TYPE_CHECKING:
    from resonance.pipeline.worker.worker import Worker

PINNED = {"faust-streaming": "0.15.3", "mode-streaming": "0.7.1"}
"""Versions whose internals this was written for; pyproject.toml pins the same."""


class NoTables(TableManager):  # type: ignore[misc]
    """Faust's manager of tables, of which there are none: the stock one waits a second before the group is joined."""

    # Its lines are those of Faust, which users do not know.
    logger = logging.getLogger("faust.tables")

    async def on_start(self) -> None:
        """Begin without a wait."""
        await self._update_channels()
        await self.recovery.start()


class WorkerApp(faust.App):  # type: ignore[misc] # Faust's modules are untyped for mypy
    """Faust's app without the parts that a worker does not use."""

    logger = logging.getLogger("faust.app")
    before_stop: Callable[[], Awaitable[None]]

    async def _stop_consumer(self) -> None:
        # Faust's `on_stop` calls this first; what follows throws away what the last commit needs.
        await self.before_stop()
        await super()._stop_consumer()

    def _create_directories(self) -> None:
        """Create none: there are no tables, and the working folder is the user's."""


def check_versions(installed: Callable[[str], str] = version) -> None:
    """Raise `ConfigurationError`, with each package that differs, on other versions than the pinned ones."""
    differing = []
    for package, wanted in PINNED.items():
        try:
            found = installed(package)
        except PackageNotFoundError:
            found = "none"
        if found != wanted:
            differing.append(f"{package} {wanted} (installed: {found})")
    if differing:
        raise ConfigurationError(
            f"the transport works with exactly {', '.join(differing)}; install the versions of requirements/lock.txt"
        )


def request_seconds(session: float) -> float:
    """Return how long a request may take; Faust refuses a session that is longer."""
    return max(90.0, session + 5)


def make_app(settings: Settings, worker: "Worker", options: TransportOptions) -> WorkerApp:
    """Return the app, with an agent for each input topic; must be called in the event loop that runs it."""
    session = settings.broker.session_timeout
    app = WorkerApp(
        settings.group,
        # Faust's settings can be overridden by environment variables as general as WEB_PORT: none is read.
        env={},
        # Of these Faust uses only the times, with which it is patient.
        broker=[f"kafka://{server}" for server in settings.broker.bootstrap.split(",")],
        broker_session_timeout=session,
        broker_request_timeout=request_seconds(session),
        # It has nothing to commit.
        broker_commit_interval=24 * 3600.0,
        topic_allow_declare=False,
        topic_disable_leader=True,
        TableManager=NoTables,
        # The worker has pages of its own (`pages`), which answer before there is an app.
        web_enabled=False,
    )
    app.before_stop = worker.before_stop
    consumer.install(app, options)
    for topic in settings.logs:
        app.agent(app.topic(topic, schema=RawSchema()), name=f"resonance.{topic}")(worker.consume)
    app.on_rebalance_complete.connect(worker.restore)
    return app
