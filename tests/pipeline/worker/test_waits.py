"""Which wait of a worker, of its Kafka clients and of what runs it must be longer than which other one, and why."""

import ast
import importlib
import re

import pytest
import yaml
from resonance.pipeline.config.settings import Settings
from resonance.pipeline.page import operations

from tests.test_house import ROOT

SOURCES = [*(ROOT / "pipeline" / "worker").rglob("*.py"), ROOT / "pipeline" / "kafka" / "producer.py"]
PIPELINE = ROOT / "pipeline"
MODULES = (*SOURCES, *(PIPELINE / place for place in ("logs.py", "checkpoint/deployment_context.py")))
DOCKER = ROOT / "docker"


CLEANUP_SECONDS = 10.0
"""How late a broker may end a transaction whose time is up: it looks for them so often."""

STOPPED = "shutdown.STOP_SECONDS + supervisor.STOP_MARGIN + pages.CLOSE_SECONDS + logs.FLUSH_SECONDS"
"""From the signal to the end of all processes: what runs them must wait longer before it kills them."""

PROBE = "all_workers.ANSWER_SECONDS"
"""How long ``/livez``, ``/readyz`` and ``/metrics`` of several workers may take: probes must wait longer."""

SESSION, TRANSACTION, INTERVAL = "broker.session_timeout", "delivery.transaction_timeout", "delivery.commit_interval"

STEP = f"commits.broker_seconds({TRANSACTION})"
"""A step that waits for the broker."""

CLOSING = "(shutdown.STOP_SECONDS - shutdown.LEAVE_SECONDS)"
"""The part of a stop before the group is left."""

LONGER = (
    # The group
    (SESSION, f"2 * min(client.HEARTBEAT_SECONDS, {SESSION} / 3)", "one lost request ends the session"),
    (f"app.request_seconds({SESSION})", SESSION, "Faust refuses it"),
    ("gone_workers.END_SECONDS", "gone_workers.ANSWER_SECONDS", "it joins, and is fenced in its first transaction"),
    # Transactions
    (TRANSACTION, INTERVAL, "brokers abort before the commit"),
    (
        f"{TRANSACTION} + deployment_context.BEYOND_TRANSACTION",
        f"{TRANSACTION} + CLEANUP_SECONDS",
        "the restore ends before the offsets are free",
    ),
    (
        "exactly_once.GRACE_SECONDS",
        "producer.LOOK_SECONDS + exactly_once.RETRY_SECONDS",
        "a call that gives up by itself counts as one that hangs",
    ),
    ("exactly_once.START_SECONDS", "2 * producer.LOOK_SECONDS", "a start is given up after one call"),
    ("held_back.held_seconds(settings)", INTERVAL, "the worker warns of its own transactions on the routes"),
    # Steps of the processor
    (STEP, f"2 * {TRANSACTION} + exactly_once.GRACE_SECONDS", "a wait that ends by itself counts as a hang"),
    (STEP, "watchdog.WORK_SECONDS", "see overdue"),
    (
        "watchdog.WORK_SECONDS",
        "registry.GIVEN_UP_SECONDS + processor.LONG_SLICE_SECONDS",
        "a registry that is away counts as a hang",
    ),
    ("status.POLL_SECONDS", "2 * client.FETCH_SECONDS", "an idle fetch loop counts as one that hangs"),
    ("topic_watch.SEND_AGE", "topic_watch.INTERVAL", "each batch sent at least once waits for a request of its own"),
    (
        "time_order.SILENT_SECONDS",
        "client.FETCH_WAIT_MS / 1000 + client.FETCH_SECONDS",
        "it counts as silent before its first fetch",
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
        "a paused partition is not ready",
    ),
    # The end
    (CLOSING, "commits.CLOSE_SECONDS + exactly_once.OFFSETS_SECONDS", "no time is left to send the transaction again"),
    (CLOSING, "commits.CLOSE_SECONDS + shutdown.GOODBYE_SECONDS", "a stop that goes well is given up"),
    (CLOSING, "shutdown.AWAY_SECONDS", "a stop without brokers takes all of the time"),
    ("shutdown.LEAVE_SECONDS", "client.LEFT_SECONDS", "the process ends before the group knows"),
    ("consumer.LEAVE_SECONDS", "shutdown.LEAVE_SECONDS", "a failing worker stays a member"),
    ("client.GOODBYE_SECONDS", "commits.GIVE_UP_SECONDS", "partitions go while their transaction is being aborted"),
    ("commits.GIVE_UP_SECONDS", "producer.ABORT_SECONDS", "the process ends before its transaction is aborted"),
    ("supervisor.STOP_MARGIN", "pages.CLOSE_SECONDS + logs.FLUSH_SECONDS", "a worker that ends in time is killed"),
)
"""What must be longer, than what, and what happens otherwise."""

TIMES = re.compile(r"(SECONDS|TIMEOUT|MARGIN|PAUSE|_MS|_AGE|INTERVAL|JOINING|HINT|AFTER_ERROR|\bLOOK)$")
UNRELATED = """
    at_least_once.LINGER_MS before_joining.LOOK_SECONDS client.ANSWER_SECONDS client.LOOK_SECONDS client.ROUND_SECONDS
    commits.AHEAD_SECONDS commits.LONGEST_SECONDS consumer.COMMIT_SECONDS consumer.RETRY_SECONDS
    held_back.AGAIN_SECONDS held_back.HELD_SECONDS open_transactions.ANSWER_SECONDS open_transactions.RETRY_SECONDS
    page_client.TIMEOUT page_client.VALID_SECONDS processor.SLICE_SECONDS producer.QUEUE_SECONDS
    producer.QUOTA_SECONDS progress.AFTER_ERROR progress.HINT progress.INTERVAL progress.JOINING
    rebalance.SERVE_SECONDS shutdown.AWAY_LOOK_SECONDS supervisor.FIRST_PAUSE supervisor.LONGEST_PAUSE
    supervisor.LOOK_SECONDS supervisor.WELL_SECONDS time_order.STEP_SECONDS topic_watch.ANSWER_SECONDS
    topic_watch.CONFIRM_SECONDS watchdog.LOOK_SECONDS watchdog.OVERDUE_SECONDS
"""
"""Times without a relation: pauses, looks, when something is said, one answer, a part of the work."""
CALLS = {"sleep", "wait", "wait_for", "join", "result", "poll", "get", "consume", "flush", "settimeout", "list_topics"}


def seconds(text, settings=None):
    """What a time of the table is in seconds."""
    modules = {path.stem: ".".join(path.relative_to(ROOT).with_suffix("").parts) for path in MODULES}
    modules["registry"] = "pipeline.registry.client"
    named = {
        name: importlib.import_module(f"resonance.{modules[name]}")
        for name in modules.keys() & re.findall(r"\w+", text)
    }
    named["CLEANUP_SECONDS"] = CLEANUP_SECONDS
    return float(eval(text, named | dict(settings or ()) | {"settings": settings}))  # noqa: S307 - a table of ours


@pytest.mark.parametrize(
    "changed",
    [
        {},
        {"broker.session_timeout": 1.0, "delivery.transaction_timeout": 1.0},
        {"broker.session_timeout": 1800.0, "delivery.transaction_timeout": 900.0, "delivery.commit_interval": 60.0},
    ],
)
def test_what_must_be_longer_is_longer(changed):
    settings = Settings.of({"input.topics": ["in"], **changed})
    assert [rule for rule in LONGER if seconds(rule[0], settings) <= seconds(rule[1], settings)] == []


def defined(path):
    """The times that a module defines, with its name."""
    made = [each for each in ast.parse(path.read_text()).body if isinstance(each, ast.Assign | ast.AnnAssign)]
    names = {getattr(each, "target", None) or each.targets[0] for each in made}
    return {f"{path.stem}.{each.id}" for each in names if isinstance(each, ast.Name) and TIMES.search(each.id)}


def test_every_time_of_the_worker_has_its_place():
    table = " ".join(text for rule in (*LONGER, (STOPPED, PROBE)) for text in rule[:2])
    found = set().union(*map(defined, SOURCES))
    assert {name for name in found if not re.search(rf"\b{re.escape(name)}\b", table)} == {*UNRELATED.split()}


def test_no_wait_of_a_second_or_more_is_without_a_name():
    found = set()
    for path in (*(PIPELINE / "worker").rglob("*.py"), *(PIPELINE / "kafka").rglob("*.py")):
        for call in (each for each in ast.walk(ast.parse(path.read_text())) if isinstance(each, ast.Call)):
            name = getattr(call.func, "attr", "")
            given = [key.value for key in call.keywords if key.arg == "timeout"] + call.args * (name in CALLS)
            values = [each.value for each in given if isinstance(each, ast.Constant)]
            found |= {(path.stem, name, each) for each in values if isinstance(each, int | float) and each >= 1}
    # The end of a thread that has nothing left to do, a number of records, and a broker in the same process.
    known = {("processor", "join", 5.0), ("intake", "consume", 1)}
    assert found == known | {("embedded", "list_topics", seconds) for seconds in (10, 5)}


def test_what_runs_a_worker_waits_longer_than_its_end_and_its_pages_take():
    pod = next(
        each["spec"]["template"]["spec"]
        for each in yaml.safe_load_all((DOCKER / "kubernetes" / "resonance.yaml").read_text())
        if each["kind"] == "StatefulSet"
    )
    assert pod["terminationGracePeriodSeconds"] > seconds(STOPPED)
    probes = [pod["containers"][0][f"{kind}Probe"] for kind in ("startup", "liveness", "readiness")]
    assert all(probe["timeoutSeconds"] > seconds(PROBE) for probe in probes)
    services = yaml.safe_load((DOCKER / "compose.yaml").read_text())["services"].values()
    graces = [float(each["stop_grace_period"].removesuffix("s")) for each in services if "stop_grace_period" in each]
    assert graces
    assert min(graces) > seconds(STOPPED)
    health = re.search(r"HEALTHCHECK .*--timeout=(\d+)s .*timeout=(\d+)\)", (DOCKER / "Dockerfile").read_text())
    assert float(health[1]) > float(health[2]) > seconds(PROBE)
    prometheus = yaml.safe_load((DOCKER / "prometheus.yml").read_text())["global"]
    assert float(prometheus["scrape_interval"].removesuffix("s")) > seconds(PROBE)
    assert seconds(PROBE) < operations.PAGE_SECONDS
