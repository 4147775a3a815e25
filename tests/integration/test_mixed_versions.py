"""A rolling restart from another version to this one, and back: ``MIXED_WITH=COMMIT`` names the other one."""

import os
import subprocess
import threading

import pytest

from tests.brokers import produce
from tests.chaos import judges
from tests.integration.chaos_records import values
from tests.integration.workers import ROOT, Deployment, wait_until

BEFORE = os.environ.get("MIXED_WITH", "")
PACKAGES = ("engine", "pipeline", "schemas")
PART = 40

pytestmark = [
    pytest.mark.broker,
    pytest.mark.slow,
    pytest.mark.timeout(1800),
    pytest.mark.skipif(not BEFORE, reason="the long form: MIXED_WITH=COMMIT"),
]


@pytest.fixture
def before(tmp_path):
    """The environment in which a worker of the other version runs, with the libraries of this one."""
    tree, packages = tmp_path / "tree", tmp_path / "packages" / "resonance"
    subprocess.run(["git", "worktree", "add", "--detach", tree, BEFORE], cwd=ROOT, check=True, capture_output=True)
    packages.mkdir(parents=True)
    for name in PACKAGES:
        (packages / name).symlink_to(tree / name)
    yield {"PYTHONPATH": str(packages.parent)}
    subprocess.run(["git", "worktree", "remove", "--force", tree], cwd=ROOT, check=True, capture_output=True)


class Load:
    """Records, a part at a time, until it is over."""

    def __init__(self, deployment):
        self._deployment, self._over = deployment, threading.Event()
        self._thread = threading.Thread(target=self._run)

    def __enter__(self):
        self._thread.start()
        return self

    def __exit__(self, *error):
        self._over.set()
        self._thread.join()

    def _run(self):
        records = values(0, 10**9, self._deployment.partitions, 50)
        while not self._over.wait(0.2):
            part = [(partition, key, value) for partition, key, value in (next(records) for _ in range(PART))]
            produce(self._deployment.broker, self._deployment.input, part)


def answered(deployment):
    return sum(max(offset, 0) for offset in deployment.committed().values())


def test_workers_of_two_versions_share_a_group_and_answer_every_record_once(broker, before):
    deployment = Deployment(broker, settings={"engine.name": "caea", "snapshots.records": 500})
    now: dict[str, str] = {}
    running = []

    def start(number, environment):
        how = {"settings": {"worker.id": f"w{number}"}, "environment": environment, "forked": False}
        worker = deployment.worker(**how)
        running.append(worker)
        worker.ready(600)
        return worker

    try:
        workers = [start(number, before) for number in range(2)]
        with Load(deployment):
            for environments in ((now, now), (before, now)):
                for number, environment in enumerate(environments):
                    here = answered(deployment)
                    assert workers[number].terminate() == 0, workers[number].log()
                    workers[number] = start(number, environment)
                    wait_until(lambda here=here: answered(deployment) >= here + 4 * PART, 120)
        wait_until(lambda: deployment.committed() == deployment.ends(), 120)
        for worker in workers:
            assert worker.terminate() == 0, worker.log()
        assert judges.books(deployment) > 20 * PART
        judges.verify(deployment)
    finally:
        for worker in running:
            worker.__exit__(None, None, None)
