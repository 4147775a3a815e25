"""A shadow beside a live deployment on a real broker: compared, promoted over it whatever the kills, and undone."""

import copy
import json
import os
import signal
import subprocess
import sys
from collections import Counter
from functools import partial

import pytest
from resonance.schemas import ClusterTable

from tests.brokers import produce
from tests.integration.workers import ROOT, Deployment, records, wait_until
from tests.pipeline.commands import run

pytestmark = [pytest.mark.broker, pytest.mark.timeout(400)]

POINTS = (
    *("during-restore", "after-begin", "between-snapshot-chunks", "between-snapshot-chunks:2"),
    *("after-produce", "after-offsets", "during-commit"),
)
"""Where a promotion can die, in their order."""

SHARED = {
    "engine.min_cluster_records": 5,
    "prepare.scale": "warmup",
    "prepare.warmup_records": 50,
    "snapshots.archive_interval": 0.01,
}


def command(patch, output, deployment, *arguments, code=0):
    """Run a command for a deployment, which ends with a code; return what it printed."""
    found, shown = run(patch, *arguments, *deployment.options), output.readouterr()
    assert found == code, shown.out + shown.err
    return shown


class Pair:
    """A live deployment and its shadow, with another engine; both have answered the first records."""

    def __init__(self, broker, monkeypatch, capsys):
        self._patch, self._output = monkeypatch, capsys
        self.live = Deployment(broker, partitions=2, settings={**SHARED, "engine.memory": 100})
        self.shadow = copy.copy(self.live)
        self.shadow.name = f"{self.live.name}-shadow"
        self.changed = {"engine.name": "caea", "engine.lambda": 20}
        own = {name: value for name, value in self.live.settings.items() if name != "engine.memory"}
        self.shadow.settings = {**own, **self.changed, "name": self.shadow.name, "shadow_of": self.live.name}
        self.send(0, 300)
        with self.live.worker() as worker:
            worker.wait_for(lambda health: health["records"] == 300)
            # However quick it is: one of them comes with each commit.
            wait_until(lambda: all(f"[{number}]@150: archived" in worker.log() for number in range(2)))
            assert worker.terminate() == 0
        self.send(300, 600)
        self.live.work(300)
        self.shadow.work(600)

    def send(self, first, end):
        produce(self.live.broker, self.live.input, records(end - first, 2, first=first))

    def command(self, deployment, *arguments, code=0):
        return command(self._patch, self._output, deployment, *arguments, code=code)

    def promote(self, *further, code=0):
        return self.command(self.live, "promote", self.shadow.name, "--over", self.live.name, *further, code=code)

    def killed(self, point):
        """Let a promotion of its own process die at a fault point."""
        line = (sys.executable, "-m", "resonance.pipeline.cli.main", "promote", self.shadow.name)
        done = subprocess.run(
            [*line, "--over", self.live.name, "--yes", *self.live.options],
            cwd=ROOT,
            env=os.environ | {"RESONANCE_FAULT_POINT": point},
            capture_output=True,
            text=True,
            check=False,
        )
        assert done.returncode == -signal.SIGKILL, done.stderr

    def verified(self, deployment):
        return json.loads(self.command(deployment, "verify", "--json").out)

    def check_ids(self, deployment):
        """Every id began once, and the events give the clusters that the newest snapshots have."""
        begun, table = Counter(), ClusterTable()
        for event in deployment.payloads("cluster-events"):
            table.apply(event)
            if event["kind"] in ("emerged", "split"):
                begun[event["cluster"]] += 1
            elif event["kind"] == "version_started":
                begun.update(cluster["id"] for cluster in event["after"])
        assert set(begun.values()) == {1}
        for stream in ("p0", "p1"):
            shown = json.loads(self.command(deployment, "inspect", "--stream", stream, "--stored", "--json").out)
            assert {cluster["id"] for cluster in shown["clusters"]} == set(table.clusters(stream))

    def promoted(self):
        """Let the live one go on with the settings of the shadow."""
        self.live = copy.copy(self.live)
        own = {name: value for name, value in self.shadow.settings.items() if name != "shadow_of"}
        self.live.settings = {**own, "name": self.live.name}


@pytest.fixture
def pair(broker, monkeypatch, capsys):
    return Pair(broker, monkeypatch, capsys)


@pytest.mark.nightly
def test_killed_at_each_step_the_same_command_completes_it(pair):
    compared = json.loads(pair.command(pair.live, "compare", pair.live.name, pair.shadow.name, "--json").out)
    assert compared["records"] == compared["compared"] == 600
    before = pair.verified(pair.live)
    assert before["identical"]
    assert before["records"] == 600
    for point in POINTS:
        pair.killed(point)
    pair.promote("--yes")
    assert json.loads(pair.promote("--yes", "--json").out)["partitions"] == []
    pair.promoted()
    pair.send(600, 900)
    pair.live.work(300)
    after = pair.verified(pair.live)
    assert after["identical"]
    assert after["records"] == 300
    assert after["events"] >= 2
    later = [one for one in pair.live.payloads() if one["source"]["offset"] >= 300]
    assert {one["version"] for one in later} == {2}
    pair.check_ids(pair.live)


@pytest.mark.nightly
def test_workers_must_be_stopped(pair):
    with pair.shadow.worker() as worker:
        worker.ready()
        assert f"{pair.shadow.name} is a shadow of {pair.live.name}: it raises no alerts" in worker.log()
        assert "stop every worker of the group first" in pair.promote("--yes", code=69).err
        pair.promote()
        worker.terminate()


def test_what_cannot_be_promoted_is_one_sentence(broker, monkeypatch, capsys):
    deployment = Deployment(broker, partitions=2)
    refused = partial(command, monkeypatch, capsys, deployment, code=69)
    for line in (("promote", "missing", "--over", deployment.name), ("compare", "missing", deployment.name)):
        assert "there is no deployment missing" in refused(*line).err
    deployment.settings |= {"broker.bootstrap": "127.0.0.1:1", "broker.answer_timeout": 0.5}
    for line in (("compare", "a", "b"), ("promote", "a", "--over", "b")):
        assert "127.0.0.1:1" in refused(*line).err
