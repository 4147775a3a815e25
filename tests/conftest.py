"""Real brokers, one of each kind for the whole run, and which tests run, in what order."""

import ctypes
import gc
import os
from collections import Counter, defaultdict
from contextlib import contextmanager
from itertools import islice

import pytest
from resonance.pipeline.kafka import librdkafka
from resonance.pipeline.kafka.embedded import EmbeddedBroker
from resonance.pipeline.task import expiry

from tests import LONG
from tests.brokers import NoBrokerError, jvm, required, running_broker
from tests.brokers.proxy import proxied_broker
from tests.brokers.secured import Secured
from tests.brokers.secured import running as running_secured
from tests.brokers.sharing import shared

jvm.options += jvm.QUICK
# Commands of the tests have buffers as those of users do.
os.environ.pop("PYTHONUNBUFFERED", None)


@pytest.fixture(scope="session", autouse=True)
def _quick_groups():
    """Let groups of embedded brokers wait for no further members: three seconds by default."""
    library, enter = librdkafka.load(), EmbeddedBroker.__enter__
    cluster_of, delay = library.rd_kafka_handle_mock_cluster, library.rd_kafka_mock_group_initial_rebalance_delay_ms
    cluster_of.argtypes, cluster_of.restype = [ctypes.c_void_p], ctypes.c_void_p
    delay.argtypes = [ctypes.c_void_p, ctypes.c_int32]

    def entered(broker):
        enter(broker)
        delay(cluster_of(librdkafka.handle_of(broker._cluster)), 0)
        return broker

    EmbeddedBroker.__enter__ = entered
    yield
    EmbeddedBroker.__enter__ = enter


@pytest.fixture
def blocks_of_one(monkeypatch):
    """Let streams end at any record, and not only where a block of offsets begins."""
    monkeypatch.setattr(expiry, "BLOCK", 1)


@pytest.fixture(scope="session")
def run_folder(tmp_path_factory, request):
    """Return a folder that all processes of this run share: with ``-n`` each has its own temporary folder below it."""
    own = tmp_path_factory.getbasetemp()
    return own.parent if hasattr(request.config, "workerinput") else own


@pytest.fixture(scope="session")
def broker(run_folder):
    """Bootstrap servers of a real Apache Kafka; started by the first test that asks, stopped at the end of the run."""
    with or_skipped(shared(run_folder, "broker", running_broker)) as bootstrap:
        yield bootstrap


@pytest.fixture(scope="session")
def secured(run_folder):
    """Return a broker with TLS, log-ins and ACLs; started by the first test that asks."""
    with or_skipped(shared(run_folder, "secured", running_secured)) as text:
        yield Secured.parse(text)


@pytest.fixture(scope="session")
def proxied():
    """Return the address of a broker and a proxy in front of it that loses requests, for this process alone."""
    with or_skipped(proxied_broker()) as both:
        yield both


@contextmanager
def or_skipped(started):
    """Skip the tests that want a broker where there is none, unless that is a failure."""
    try:
        with started as given:
            yield given
    except NoBrokerError as reason:
        if required():
            pytest.fail(f"REQUIRE_BROKER is set, and there is {reason}", pytrace=False)
        pytest.skip(str(reason))


@pytest.hookimpl(wrapper=True)
def pytest_collection():
    """Keep the garbage collector from going through modules and tests again and again: they stay to the end."""
    gc.disable()
    try:
        return (yield)
    finally:
        gc.freeze()
        gc.enable()


@pytest.hookimpl(trylast=True)
def pytest_collection_modifyitems(config, items):
    """Leave out what runs at night, unless it is named, and begin with what takes long."""
    named = LONG or "nightly" in config.option.markexpr or any("::" in given for given in config.args)
    night = [] if named else [item for item in items if item.get_closest_marker("nightly")]
    if night:
        config.hook.pytest_deselected(items=night)
        items[:] = [item for item in items if not item.get_closest_marker("nightly")]
    items[:] = long_first(items, getattr(config, "workerinput", {}).get("workercount", 1))


WEIGHTS = {"nightly": 10, "slow": 5, "broker": 2}
"""How long a test with a mark takes, by experience; the others take no time."""


def long_first(items, processes):
    """Return tests so that each process begins with long ones: each has a part of the order, and steals others' ends.

    A file stays together, because its tests share what they prepare.
    """
    files, weights = defaultdict(list), Counter()
    for item in items:
        if weight := max((WEIGHTS.get(mark.name, 0) for mark in item.iter_markers()), default=0):
            files[item.path].append(item)
            weights[item.path] += weight
    parts, loads = [[] for _ in range(processes)], [0] * processes
    for path, weight in weights.most_common():
        least = loads.index(min(loads))
        parts[least] += files[path]
        loads[least] += weight
    long = {item for part in parts for item in part}
    short = iter([item for item in items if item not in long])
    size = -(-len(items) // processes)
    for part in parts:
        part.extend(islice(short, max(0, size - len(part))))
    return [item for part in parts for item in part] + list(short)


def pytest_terminal_summary(terminalreporter, config):
    """Show the files whose tests took longest, where pytest shows the tests that did."""
    if not config.option.durations:
        return
    seconds, tests = Counter(), defaultdict(set)
    for report in (each for kind in terminalreporter.stats.values() for each in kind):
        if isinstance(report, pytest.TestReport):
            file = report.nodeid.partition("::")[0]
            seconds[file] += report.duration
            tests[file].add(report.nodeid)
    terminalreporter.section(f"slowest files of {sum(seconds.values()):,.0f} s")
    for file, took in seconds.most_common(config.option.durations):
        terminalreporter.write_line(f"{took:8.1f} s {len(tests[file]):5} tests  {file}")
