"""A worker's memory stays within its budget, whatever its input becomes when it is unpacked."""

import pytest
from resonance.pipeline.memory_budget import LEAST, MIB, PEAK

from tests.integration.backlog import compressed, peak
from tests.integration.workers import Deployment, wait_until

pytestmark = [pytest.mark.broker, pytest.mark.timeout(240)]


def answer_all(deployment, count):
    """Let a worker answer so many records within the least budget."""
    with deployment.worker() as worker:
        worker.wait_for(lambda health: health["records"] == count, 120)
        wait_until(lambda: deployment.committed() == deployment.ends())
        most = peak(worker.process)
        assert worker.terminate() == 0
    assert most <= PEAK * LEAST


@pytest.mark.nightly
def test_a_compressed_backlog_is_answered_within_the_least_budget(broker):
    deployment = Deployment(broker, partitions=24, settings={"limits.memory": LEAST})
    count = compressed(deployment, 15, "zstd")
    answer_all(deployment, count)
    answers = deployment.answers()
    assert len(answers) == len(set(answers)) == count


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
