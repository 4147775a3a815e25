"""Workers that come and go while there is more to do than they can."""

import re
import time

import pytest

from tests.brokers import produce
from tests.integration.workers import Deployment, records, wait_until
from tests.night import at_night

pytestmark = [pytest.mark.broker, pytest.mark.timeout(240)]

SLOW = ("tests.integration.paced_worker", "0.0004", "worker")
PATIENT = {"broker.session_timeout": 60, "delivery.transaction_timeout": 60}
"""What waits for one of these takes a minute; what takes a third of it waited for neither."""
BACKLOG = 100_000
"""Forty seconds of work at 400 microseconds a record."""


@pytest.fixture
def deployment(broker):
    made = Deployment(broker)
    produce(broker, made.input, records(BACKLOG), compression_type="lz4")
    return made


def partitions_of(*workers):
    return sorted(name for worker in workers for name in worker.health().get("partitions", []))


def wait_for_share(worker, count, timeout):
    began = time.monotonic()
    worker.wait_for(lambda health: health["ready"] and len(health["partitions"]) == count, timeout)
    return time.monotonic() - began


@pytest.mark.parametrize("mode", ["exactly_once", at_night("at_least_once")])
def test_joining_and_stopping_under_full_backlog_takes_seconds(deployment, mode):
    mode = {"delivery.mode": mode, **PATIENT}
    with deployment.worker(command=SLOW, settings=mode) as first:
        first.wait_for(lambda health: health["records"] > 1500, 90)
        with deployment.worker(command=SLOW, settings=mode) as second:
            # From the moment it can join: interpreter, imports and kernels come before.
            second.wait_for(lambda health: health["state"] in ("joining", "restoring", "running"), 60)
            joined = wait_for_share(second, 2, 40)
            wait_for_share(first, 2, 40)
            assert partitions_of(first, second) == [f"{deployment.input}[{p}]" for p in range(4)]
            before = [worker.health()["records"] for worker in (first, second)]
            first.wait_for(lambda health: health["records"] > before[0] + 500)
            second.wait_for(lambda health: health["records"] > before[1] + 500)
            began = time.monotonic()
            assert first.terminate() == 0
            stopped = time.monotonic() - began
            left = wait_for_share(second, 4, 40)
            assert second.terminate() == 0
        assert "Traceback" not in first.log() + second.log()
    assert max(joined, stopped, left) < 20, (joined, stopped, left)
    answers = deployment.answers()
    assert len(answers) > 2_500
    for offsets in {p: [offset for q, offset in answers if q == p] for p in range(4)}.values():
        assert offsets == list(range(len(offsets)))


def test_a_worker_whose_id_is_taken_over_says_so_and_not_by_one_whose_port_is_taken(deployment):
    same = {"worker.id": "the-same"}
    with deployment.worker(command=SLOW, settings=same) as first:
        first.wait_for(lambda health: health["records"] > 1500, 90)
        with deployment.worker(settings={**same, "worker.web_port": first.port}) as second:
            assert second.ended() == 2
            assert f"worker.web_port = {first.port}: something listens on" in second.log().splitlines()[-1]
        count = first.health()["records"]
        first.wait_for(lambda health: health["records"] > count)
        with deployment.worker(settings=same) as second:
            assert first.ended() == 71
            last = first.log().splitlines()[-1]
            assert "exit code 71" in last
            # Of its transactions or of its group, whichever comes first.
            assert re.search(
                r"another worker has (begun with it|joined as .*); give each worker its own worker\.id", last
            )
            second.wait_for(lambda health: len(health["partitions"]) == 4, 30)
            assert second.terminate() == 0
    answers = deployment.answers()
    assert len(answers) == len(set(answers))


def test_more_workers_than_partitions_wait(broker):
    deployment = Deployment(broker, partitions=1)
    produce(broker, deployment.input, records(1000, 1))
    with deployment.worker() as first, deployment.worker() as second:
        first.ready()
        second.ready()
        wait_until(lambda: first.health()["records"] + second.health()["records"] >= 1000)
        idle = first if not first.health()["partitions"] else second
        busy = second if idle is first else first
        assert busy.terminate() == 0
        idle.wait_for(lambda health: len(health["partitions"]) == 1, 20)
        assert idle.terminate() == 0
    assert deployment.answers() == [(0, offset) for offset in range(1000)]


@pytest.mark.nightly
def test_a_killed_worker_s_open_transaction_is_ended_by_who_takes_over(broker):
    deployment = Deployment(broker, settings={"delivery.transaction_timeout": 600})
    dies = {"RESONANCE_FAULT_POINT": "after-offsets:40"}
    with (
        deployment.worker(settings={"worker.id": "stays"}) as stays,
        deployment.worker(settings={"worker.id": "dies"}, environment=dies) as gone,
    ):
        for worker in (stays, gone):
            worker.wait_for(lambda health: health["ready"] and len(health["partitions"]) == 2, 90)
        sent = 0
        while gone.process.poll() is None:
            produce(broker, deployment.input, records(400))
            sent += 400
            time.sleep(0.05)
        wait_for_share(stays, 4, 60)
        wait_until(lambda: len(deployment.answers()) >= sent, 60)
        assert "-dies is gone from the group: ended what it had left open" in stays.log()
        assert stays.terminate() == 0
    answers = deployment.answers()
    assert len(answers) == len(set(answers)) == sent
