"""Which wait of a worker, of its Kafka clients and of what runs it must be longer than which other one, and why.

The times stay where they are used; here they meet, by the names of their modules. A test holds every relation, for the
smallest and the largest settings.
"""

from typing import Final

CLEANUP_SECONDS: Final = 10.0
"""How late a broker may end a transaction whose time is up: it looks for them so often."""

STOPPED: Final = "shutdown.STOP_SECONDS + supervisor.STOP_MARGIN + pages.CLOSE_SECONDS + logs.FLUSH_SECONDS"
"""From the signal to the end of all processes: what runs them must wait longer before it kills them."""

PROBE: Final = "all_workers.ANSWER_SECONDS"
"""How long ``/livez``, ``/readyz`` and ``/metrics`` of several workers may take: probes must wait longer."""

SESSION, TRANSACTION, INTERVAL = "broker.session_timeout", "delivery.transaction_timeout", "delivery.commit_interval"

STEP: Final = f"commits.broker_seconds({TRANSACTION})"
"""A step that waits for the broker."""

CLOSING: Final = "(shutdown.STOP_SECONDS - shutdown.LEAVE_SECONDS)"
"""The part of a stop before the group is left."""

LONGER: Final = (
    # The group
    (SESSION, f"2 * min(client.HEARTBEAT_SECONDS, {SESSION} / 3)", "one lost request ends the session"),
    (f"app.request_seconds({SESSION})", SESSION, "Faust refuses it"),
    (
        "gone_workers.END_SECONDS",
        "gone_workers.ANSWER_SECONDS",
        "a worker whose transactions are being ended joins, and is fenced in its first one",
    ),
    # Transactions
    (TRANSACTION, INTERVAL, "brokers abort before the commit"),
    (
        f"{TRANSACTION} + deployment_context.BEYOND_TRANSACTION",
        f"{TRANSACTION} + waits.CLEANUP_SECONDS",
        "the restore ends before the offsets are free that it waits for",
    ),
    (
        "exactly_once.GRACE_SECONDS",
        "producer.LOOK_SECONDS + exactly_once.RETRY_SECONDS",
        "a call that gives up by itself counts as one that hangs",
    ),
    ("held_back.held_seconds(settings)", INTERVAL, "the worker warns of its own transactions on the routes"),
    # Steps of the processor
    (STEP, f"2 * {TRANSACTION} + exactly_once.GRACE_SECONDS", "a wait that ends by itself counts as a hang"),
    (STEP, "watchdog.WORK_SECONDS", "see overdue"),
    (
        "watchdog.WORK_SECONDS",
        "registry.GIVEN_UP_SECONDS + processor.LONG_SLICE_SECONDS",
        "a schema registry that is away counts as a hang",
    ),
    ("status.POLL_SECONDS", "2 * client.FETCH_SECONDS", "an idle fetch loop counts as one that hangs"),
    ("topic_watch.SEND_AGE", "topic_watch.INTERVAL", "each batch sent at least once waits for a request of its own"),
    (
        "time_order.SILENT_SECONDS",
        "client.FETCH_WAIT_MS / 1000 + client.FETCH_SECONDS",
        "a partition counts as silent before its first fetch has shown that it is at its end",
    ),
    # The ends of the logs
    (
        "log_ends.QUERY_SECONDS",
        "client.FETCH_WAIT_MS / 1000 + client.FETCH_SECONDS",
        "leaders are queried for what fetches bring",
    ),
    (
        "log_ends.KNOWN_SECONDS",
        "log_ends.QUERY_SECONDS + 2 * log_ends.ANSWER_SECONDS + progress.LOOK",
        "a paused partition is not ready although its leader answers",
    ),
    # The end
    (
        CLOSING,
        "commits.CLOSE_SECONDS + exactly_once.OFFSETS_SECONDS",
        "there is no time left to send the transaction again",
    ),
    (CLOSING, "commits.CLOSE_SECONDS + shutdown.GOODBYE_SECONDS", "a stop that goes well is given up"),
    (CLOSING, "shutdown.AWAY_SECONDS", "a stop without brokers takes all of the time"),
    ("shutdown.LEAVE_SECONDS", "client.LEFT_SECONDS", "the process ends before the group knows"),
    ("consumer.LEAVE_SECONDS", "shutdown.LEAVE_SECONDS", "a failing worker stays a member"),
    (
        "client.GOODBYE_SECONDS",
        "commits.GIVE_UP_SECONDS",
        "the group gives partitions away while their transaction is being aborted",
    ),
    ("commits.GIVE_UP_SECONDS", "producer.ABORT_SECONDS", "the process ends before its transaction is aborted"),
    (
        "supervisor.STOP_MARGIN",
        "pages.CLOSE_SECONDS + logs.FLUSH_SECONDS",
        "a worker that ends in time is killed, and its last line is lost",
    ),
)
"""What must be longer, than what, and what happens otherwise."""
