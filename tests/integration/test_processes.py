"""``resonance worker --processes``: several workers of one machine, behind one page."""

import json
import os
import random
import resource
import signal
import socket
import urllib.request
from pathlib import Path

import pytest
from prometheus_client import parser

from tests.brokers import produce
from tests.integration.workers import Deployment, records, wait_until

pytestmark = [pytest.mark.broker, pytest.mark.timeout(240)]


def free_ports(count):
    """The first of so many free ports in a row, below those that outgoing connections take."""
    while True:
        first = random.randrange(20_000, 30_000)
        try:
            for port in range(first, first + count):
                with socket.socket() as probe:
                    probe.bind(("127.0.0.1", port))
        except OSError:
            continue
        return first


def processes(deployment, count=2, **how):
    settings = {"worker.web_port": free_ports(count + 1), **how.pop("settings", {})}
    return deployment.worker(settings=settings, arguments=("--processes", str(count)), forked=False, **how)


def value(worker, name):
    """The sum of a metric over the workers that the page of all names."""
    with urllib.request.urlopen(f"http://127.0.0.1:{worker.port}/workers", timeout=5) as answer:
        (group,) = json.load(answer)
    found = 0
    for target in group["targets"]:
        with urllib.request.urlopen(f"http://{target}/metrics", timeout=5) as answer:
            families = parser.text_string_to_metric_families(answer.read().decode())
        found += sum(sample.value for family in families for sample in family.samples if sample.name == name)
    return found


def pids(worker):
    """The worker processes, by their start: process ids begin again at 1 behind the greatest."""
    found = []
    for path in Path("/proc").glob("[0-9]*"):
        try:
            stat, line = (path / "stat").read_text().rpartition(") ")[2].split(), (path / "cmdline").read_text()
        except OSError:
            continue
        if int(stat[1]) == worker.process.pid and "spawn_main" in line:
            found.append((int(stat[19]), int(path.name)))
    return [pid for _, pid in sorted(found)]


def is_there(pid):
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(") ")[2][0] != "Z"
    except OSError:
        return False


def test_they_share_the_partitions_and_one_that_is_killed_comes_back(broker):
    deployment = Deployment(broker)
    produce(broker, deployment.input, records(400))
    with processes(deployment) as worker:
        shown = worker.wait_for(lambda health: health["ready"] and health["records"] == 400, 90)
        wait_until(lambda: all(is_owner(worker.port + n) for n in (1, 2)))
        shown = worker.ready()
        assert shown["partitions"] == [f"{deployment.input}[{p}]" for p in range(4)]
        pages = [{"page": f"http://127.0.0.1:{worker.port + n}", "state": "running"} for n in (1, 2)]
        assert shown["workers"] == {"1": pages[0], "2": pages[1]}
        assert value(worker, "resonance_assigned_partitions") == 4
        old = pids(worker)
        os.kill(old[1], signal.SIGKILL)
        worker.wait_for(lambda health: not health["ready"])
        produce(broker, deployment.input, records(400, first=400))
        wait_until(lambda: len(deployment.answers()) == 800)
        worker.ready()
        assert len(pids(worker)) == 2
        assert pids(worker) != old
        assert worker.terminate() == 0
        assert not pids(worker)
    log = worker.log()
    assert "ended with exit code -9; it starts again in 1 s" in log
    assert "[1] assigned: " in log
    assert "[2] assigned: " in log
    assert log.rstrip().splitlines()[-1].endswith("all workers have ended")
    assert "Traceback" not in log
    assert len(set(deployment.answers())) == len(deployment.answers()) == 800


def is_owner(port, count=2):
    try:
        with urllib.request.urlopen(f"http://127.0.0.1:{port}/readyz", timeout=2) as answer:
            return len(json.load(answer)["partitions"]) == count
    except OSError:
        return False


def test_what_none_of_them_can_use_is_said_once(broker):
    deployment = Deployment(broker, settings={"input.topics": "none-such"})
    with processes(deployment, 3) as worker:
        assert "all workers end: the last line of worker 1, code 69, says why" in worker.last_line(69)
    assert worker.log().count("exit code 69") == 1


@pytest.mark.nightly
def test_one_that_cannot_start_again_takes_no_other_along_and_all_end_with_the_process_that_started_them(broker):
    deployment = Deployment(broker)
    with processes(deployment) as worker:
        worker.ready(90)
        wait_until(lambda: all(is_owner(worker.port + n) for n in (1, 2)))
        first, second = pids(worker)
        before = resource.prlimit(worker.process.pid, resource.RLIMIT_NOFILE)
        resource.prlimit(worker.process.pid, resource.RLIMIT_NOFILE, (8, before[1]))
        os.kill(second, signal.SIGKILL)
        wait_until(lambda: "worker 2 cannot start (" in worker.log())
        resource.prlimit(worker.process.pid, resource.RLIMIT_NOFILE, before)
        wait_until(lambda: len(pids(worker)) == 2)
        children = pids(worker)
        assert children[0] == first
        worker.kill()
        wait_until(lambda: not any(map(is_there, children)))
