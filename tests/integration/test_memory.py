"""A worker's memory stays within its budget, whatever its input becomes when it is unpacked.

The long form has 24 partitions that are a few MB on disk and 5 GB in memory.
"""

import pytest
from resonance.pipeline.memory_budget import LEAST, MIB, PEAK

from tests import LONG
from tests.integration.backlog import compressed, peak
from tests.integration.workers import Deployment, wait_until

pytestmark = [pytest.mark.broker, pytest.mark.timeout(1800 if LONG else 240)]

BUDGET, MEGABYTES = (1024 * MIB, 140) if LONG else (LEAST, 15)
"""Of a backlog: the memory of its worker, and what each partition is, unpacked."""


def answer_all(deployment, count):
    """Let a worker answer so many records within the least budget."""
    with deployment.worker() as worker:
        worker.wait_for(lambda health: health["records"] == count, 120)
        wait_until(lambda: deployment.committed() == deployment.ends())
        most = peak(worker.process)
        assert worker.terminate() == 0
    assert most <= PEAK * LEAST


@pytest.mark.nightly
@pytest.mark.parametrize(
    ("codec", "mode"), [("zstd", "exactly_once"), ("gzip", "at_least_once"), ("lz4", "exactly_once")]
)
def test_a_compressed_backlog_is_answered_within_the_budget_though_the_worker_is_killed(broker, codec, mode):
    deployment = Deployment(broker, partitions=24, settings={"limits.memory": BUDGET, "delivery.mode": mode})
    count = compressed(deployment, MEGABYTES, codec)
    # What a producer sends that looks at the size of a batch once it is compressed.
    count += compressed(deployment, MEGABYTES // 2, codec, batch=40_000_000, first=1)
    for share in (0.3, 1.0):
        # A new process: it takes no memory that another one has loaded.
        with deployment.worker(forked=False) as worker:
            wait_until(lambda wanted=share * count: sum(deployment.committed().values()) >= wanted, 600)
            assert peak(worker.process) <= PEAK * BUDGET
            worker.kill() if share < 1 else worker.terminate()
    answers = deployment.answers()
    assert {*answers} == {(partition, at) for partition, end in deployment.ends().items() for at in range(end)}
    assert len({*answers}) == count
    assert mode == "at_least_once" or len(answers) == count


def test_a_batch_that_is_larger_than_all_that_waits_is_answered(broker):
    deployment = Deployment(broker, partitions=1, settings={"limits.memory": LEAST})
    count = compressed(deployment, 100, "gzip", batch=120_000_000)
    answer_all(deployment, count)
    assert len(set(deployment.answers())) == count


def test_a_batch_that_does_not_fit_is_named(broker):
    deployment = Deployment(broker, partitions=1, settings={"limits.memory": LEAST})
    small = compressed(deployment, 1, "zstd")
    compressed(deployment, 100, "zstd", batch=120_000_000)
    with deployment.worker() as worker:
        last = worker.last_line(71, 60)
    assert f"{deployment.input}[0]@{small}: a batch cannot be unpacked to" in last
    assert f"limits.memory = {LEAST:,} allows; raise it" in last
    with deployment.worker(settings={"limits.memory": 1024 * MIB}) as worker:
        worker.wait_for(lambda health: health["ready"] and deployment.committed() == deployment.ends())
        assert peak(worker.process) <= PEAK * 1024 * MIB
        assert worker.terminate() == 0
    assert len(deployment.answers()) == sum(deployment.ends().values())
