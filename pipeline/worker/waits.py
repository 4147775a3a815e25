"""Which wait of a worker, of its Kafka clients and of what runs it must be longer than which other one, and why.

The times stay where they are used; here they meet. A test holds every relation, for the smallest and the largest
settings, and that no time of the worker is missing.
"""

from collections.abc import Collection, Iterator, Mapping
from typing import Final, NamedTuple

from resonance.pipeline import logs
from resonance.pipeline.checkpoint import deployment_context
from resonance.pipeline.config import checks
from resonance.pipeline.config.settings import Settings
from resonance.pipeline.kafka import producer
from resonance.pipeline.worker import held_back, processor, progress, shutdown, supervisor, topic_watch, watchdog
from resonance.pipeline.worker.delivery import exactly_once, gone_workers
from resonance.pipeline.worker.http import all_workers, pages, status
from resonance.pipeline.worker.transport import app, client, consumer, log_ends

CLEANUP_SECONDS: Final = 10.0
"""How late a broker may end a transaction whose time is up: it looks for them so often."""

STOPPED_SECONDS: Final = shutdown.STOP_SECONDS + supervisor.STOP_MARGIN + pages.CLOSE_SECONDS + logs.FLUSH_SECONDS
"""From the signal to the end of all processes: what runs them must wait longer before it kills them."""

PROBE_SECONDS: Final = all_workers.ANSWER_SECONDS
"""How long ``/livez``, ``/readyz`` and ``/metrics`` of several workers may take: probes must wait longer."""

UNRELATED: Final[Mapping[str, Collection[str]]] = {
    "a pause before the same call, whose repetition has an end of its own": (
        "exactly_once.RETRY_SECONDS",
        "open_transactions.RETRY_SECONDS",
        "client.ROUND_SECONDS",
        "consumer.RETRY_SECONDS",
        "at_least_once.LINGER_MS",
        "topic_watch.CONFIRM_SECONDS",
        "producer.QUEUE_SECONDS",
        "supervisor.FIRST_PAUSE",
        "supervisor.LONGEST_PAUSE",
    ),
    "a pause between two looks": (
        "watchdog.LOOK_SECONDS",
        "supervisor.LOOK_SECONDS",
        "shutdown.AWAY_LOOK_SECONDS",
        "refresh_topology.LOOK_SECONDS",
        "client.LOOK_SECONDS",
        "rebalance.SERVE_SECONDS",
    ),
    "when something is said, or said once more": (
        "watchdog.OVERDUE_SECONDS",
        "progress.INTERVAL",
        "progress.JOINING",
        "progress.HINT",
        "progress.AFTER_ERROR",
        "held_back.AGAIN_SECONDS",
        "supervisor.WELL_SECONDS",
        "producer.QUOTA_SECONDS",
    ),
    "one answer: the caller repeats it, or goes on without": (
        "consumer.COMMIT_SECONDS",
        "gone_workers.ANSWER_SECONDS",
        "open_transactions.ANSWER_SECONDS",
        "topic_watch.ANSWER_SECONDS",
        "page_client.TIMEOUT",
        "client.ANSWER_SECONDS",
    ),
    "how far two clocks may differ": ("signature.VALID_SECONDS",),
    "a part of the work, no wait": (
        "processor.SLICE_SECONDS",
        "processor.AHEAD_SECONDS",
        "commit_interval.LONGEST_SECONDS",
    ),
}
"""By the reason why no relation holds for them: times as their modules name them."""


class Rule(NamedTuple):
    """A wait that must be longer than another, in seconds; `why` is what happens otherwise."""

    longer: str
    seconds: float
    shorter: str
    than: float
    why: str


def rules(settings: Settings) -> Iterator[Rule]:
    """Yield every relation under some settings."""
    session, transaction = settings.broker.session_timeout, settings.delivery.transaction_timeout
    heartbeat = min(client.HEARTBEAT_SECONDS, session / 3)
    request = app.request_seconds(session)
    step = processor.broker_seconds(transaction)
    closing = shutdown.STOP_SECONDS - shutdown.LEAVE_SECONDS

    # The group
    yield Rule("broker.session_timeout", session, "two heartbeats", 2 * heartbeat, "one lost request ends the session")
    yield Rule("a request", request, "broker.session_timeout", session, "Faust refuses it")
    yield Rule(
        "gone_workers.END_SECONDS",
        gone_workers.END_SECONDS,
        "one answer of the broker",
        gone_workers.ANSWER_SECONDS,
        "a worker whose transactions are being ended joins, and is fenced in its first one",
    )

    # Transactions
    yield Rule(
        "delivery.transaction_timeout",
        transaction,
        "delivery.commit_interval",
        settings.delivery.commit_interval,
        "brokers abort before the commit",
    )
    yield Rule(
        "a restore's patience",
        transaction + deployment_context.BEYOND_TRANSACTION,
        "the end of a dead worker's transaction",
        transaction + CLEANUP_SECONDS,
        "the restore ends before the offsets are free that it waits for",
    )
    yield Rule(
        "exactly_once.GRACE_SECONDS",
        exactly_once.GRACE_SECONDS,
        "a look at the connection",
        producer.LOOK_SECONDS + exactly_once.RETRY_SECONDS,
        "a call that gives up by itself counts as one that hangs",
    )
    yield Rule(
        "held_back.HELD_SECONDS, or some intervals",
        held_back.held_seconds(settings),
        "delivery.commit_interval",
        settings.delivery.commit_interval,
        "the worker warns of its own transactions on the routes",
    )

    # Steps of the processor
    yield Rule(
        "a step that waits for the broker",
        step,
        "topics, transaction and grace",
        2 * transaction + exactly_once.GRACE_SECONDS,
        "a wait that ends by itself counts as a hang",
    )
    yield Rule("a step that waits for the broker", step, "watchdog.WORK_SECONDS", watchdog.WORK_SECONDS, "see overdue")
    yield Rule(
        "watchdog.WORK_SECONDS",
        watchdog.WORK_SECONDS,
        "checks.REGISTRY_SECONDS",
        checks.REGISTRY_SECONDS + processor.LONG_SLICE_SECONDS,
        "a schema registry that is away counts as a hang",
    )
    yield Rule(
        "status.POLL_SECONDS",
        status.POLL_SECONDS,
        "two fetches",
        2 * client.FETCH_SECONDS,
        "an idle fetch loop counts as one that hangs",
    )
    yield Rule(
        "topic_watch.SEND_AGE",
        topic_watch.SEND_AGE,
        "topic_watch.INTERVAL",
        topic_watch.INTERVAL,
        "each batch that is sent at least once waits for a request of its own",
    )

    # The ends of the logs
    yield Rule(
        "log_ends.QUERY_SECONDS",
        log_ends.QUERY_SECONDS,
        "an idle fetch",
        client.FETCH_WAIT_MS / 1000 + client.FETCH_SECONDS,
        "leaders are queried for what fetches bring",
    )
    yield Rule(
        "log_ends.KNOWN_SECONDS",
        log_ends.KNOWN_SECONDS,
        "a query and its answers",
        log_ends.QUERY_SECONDS + 2 * log_ends.ANSWER_SECONDS + progress.LOOK,
        "a paused partition is not ready although its leader answers",
    )

    # The end
    yield Rule(
        "the part of a stop before the group is left",
        closing,
        "snapshots and an offsets call that hangs",
        processor.CLOSE_SECONDS + exactly_once.OFFSETS_SECONDS,
        "there is no time left to send the transaction again",
    )
    yield Rule(
        "the part of a stop before the group is left",
        closing,
        "snapshots and Faust's end",
        processor.CLOSE_SECONDS + shutdown.GOODBYE_SECONDS,
        "a stop that goes well is given up",
    )
    yield Rule(
        "the part of a stop before the group is left",
        closing,
        "shutdown.AWAY_SECONDS",
        shutdown.AWAY_SECONDS,
        "a stop without brokers takes all of the time",
    )
    yield Rule(
        "shutdown.LEAVE_SECONDS",
        shutdown.LEAVE_SECONDS,
        "client.LEFT_SECONDS",
        client.LEFT_SECONDS,
        "the process ends before the group knows",
    )
    yield Rule(
        "consumer.LEAVE_SECONDS",
        consumer.LEAVE_SECONDS,
        "shutdown.LEAVE_SECONDS",
        shutdown.LEAVE_SECONDS,
        "a failing worker stays a member",
    )
    yield Rule(
        "client.GOODBYE_SECONDS",
        client.GOODBYE_SECONDS,
        "processor.GIVE_UP_SECONDS",
        processor.GIVE_UP_SECONDS,
        "the group gives partitions away while their transaction is being aborted",
    )
    yield Rule(
        "processor.GIVE_UP_SECONDS",
        processor.GIVE_UP_SECONDS,
        "producer.ABORT_SECONDS",
        producer.ABORT_SECONDS,
        "the process ends before its transaction is aborted",
    )
    yield Rule(
        "supervisor.STOP_MARGIN",
        supervisor.STOP_MARGIN,
        "pages and log",
        pages.CLOSE_SECONDS + logs.FLUSH_SECONDS,
        "a worker that ends in time is killed, and its last line is lost",
    )
