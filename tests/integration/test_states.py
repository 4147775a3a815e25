"""Archives, and the commands that look at states and change them, on a real broker."""

import json
from pathlib import Path

import pytest
from resonance.pipeline.checkpoint.archive_reader import Archives
from resonance.pipeline.checkpoint.codec import read_file
from resonance.pipeline.config.settings import Settings
from resonance.pipeline.kafka.log_reader import LogReader
from resonance.pipeline.recovery.entry import open_source
from resonance.pipeline.task.partition_task import PartitionTask

from tests.brokers import create_topic, produce, read_topic
from tests.integration.workers import Deployment, records
from tests.night import at_night
from tests.pipeline.commands import run

pytestmark = [pytest.mark.broker, pytest.mark.timeout(180)]


@pytest.fixture(params=["exactly_once", at_night("at_least_once")])
def deployment(broker, request):
    own = {"delivery.mode": request.param, "snapshots.archive_interval": 0.01, "engine.memory": 100}
    return Deployment(broker, partitions=1, settings=own)


class Shell:
    """The command line, on one deployment."""

    def __init__(self, deployment, monkeypatch, capsys, folder):
        self.options = deployment.options
        self._patch, self._output = monkeypatch, capsys
        monkeypatch.chdir(folder)

    def json(self, *arguments):
        assert run(self._patch, *arguments, *self.options, "--json") == 0
        return json.loads(self._output.readouterr().out)


@pytest.fixture
def shell(deployment, monkeypatch, capsys, tmp_path):
    return Shell(deployment, monkeypatch, capsys, tmp_path)


def work(deployment, first, batches):
    """Let a worker answer batches of records, each of which ends with a commit, and stop."""
    with deployment.worker() as worker:
        for number in range(batches):
            produce(deployment.broker, deployment.input, records(100, 1, first=first + 100 * number))
            worker.wait_for(lambda health, wanted=100 * (number + 1): health["records"] >= wanted)
        assert worker.terminate() == 0


def positions(deployment):
    """Where the archives stand."""
    keys = [json.loads(message.key()) for message in read_topic(deployment.broker, f"{deployment.name}.archive")]
    return [position for _, _, position, _, number in keys if number == 0]


def test_the_past_is_kept_looked_at_and_returned_to(deployment, shell):
    work(deployment, 0, 4)
    found = positions(deployment)
    assert len(found) >= 3
    assert found == sorted(set(found))
    answers = read_topic(deployment.broker, f"{deployment.name}.assignments")

    # A replay from an archive gives what the worker gave.
    settings = Settings.of(deployment.settings)
    source, at = open_source(settings), (deployment.input, 0)
    with LogReader(source.client, source.group, 20) as reader:
        archived = Archives.of(reader, source, at)[0].newest(found[1] + 50)
        assert archived.position in found
        assert archived.position <= found[1] + 50
        task = PartitionTask(settings, *at)
        archived.restore(task)
        log = [record for _, records in reader.read({at: (archived.position, 400)}) for record in records]
    text = task.process(log).assignments
    assert [message.value for message in text] == [message.value() for message in answers[archived.position :]]

    # The clusters of the newest snapshot are those of the whole log.
    inspected = shell.json("inspect")
    task = PartitionTask(settings, *at)
    task.process([*read_all(source, at)])
    assert (inspected["stream"], inspected["next"]) == ("p0", 400)
    assert {cluster["id"]: cluster["size"] for cluster in inspected["clusters"]} == {
        cluster["id"]: cluster["size"] for cluster in task.models.clusters("p0")
    }
    assert [stream["next"] for stream in shell.json("snapshots", "list")] == [400]
    assert shell.json("snapshots", "export", "file")["streams"] == 1
    before = [list(partition.streams) for partition in read_file(Path("file"))]

    # Back to an archive: what was answered since is answered again, the same.
    back = shell.json("reset", "--to-archive", str(found[1]), "--yes")
    assert back["partitions"][0] | {"streams": []} == {
        **{"topic": deployment.input, "partition": 0, "from": 400, "to": found[1], "streams": [], "alerts": []}
    }
    assert deployment.committed() == {0: found[1]}
    deployment.work(400 - found[1])
    again = read_topic(deployment.broker, f"{deployment.name}.assignments")[400:]
    assert [(m.key(), m.value(), m.headers()) for m in again] == [
        (m.key(), m.value(), m.headers()) for m in answers[found[1] :]
    ]
    shell.json("snapshots", "export", "again")
    assert [list(partition.streams) for partition in read_file(Path("again"))] == before

    # A reset forgets the archives, too.
    assert shell.json("reset", "--yes")["partitions"][0]["alerts"] == []
    assert deployment.committed() == {0: 0}
    with LogReader(source.client, source.group, 20) as reader:
        assert Archives.of(reader, source, at)[0].newest(400) is None


def test_a_deployment_that_never_was_is_said_so(deployment, monkeypatch, capsys):
    create_topic(deployment.broker, f"{deployment.name}x.snapshots", exact=True, partitions=1)
    for command in (["inspect"], ["snapshots", "list"], ["reset"]):
        assert run(monkeypatch, *command, *deployment.options) == 69
        text = capsys.readouterr().err
        assert f"there is no topic {deployment.name}.snapshots with the snapshots of {deployment.name} on " in text
        assert f"(did you mean {deployment.name}x.snapshots?)" in text


def read_all(source, at):
    with LogReader(source.client, source.group, 20) as reader:
        for _, found in reader.read(reader.bounds([at])):
            yield from found
