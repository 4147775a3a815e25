"""What a reset may not use again: the ids of clusters that were told before; without a broker."""

from collections.abc import Callable
from typing import Any

import orjson
import pytest
from resonance.pipeline.checkpoint import archive_writer
from resonance.pipeline.checkpoint.changelog_records import manifest_key, partition_key
from resonance.pipeline.checkpoint.deployment_context import DeploymentContext
from resonance.pipeline.checkpoint.restore import restore_partitions
from resonance.pipeline.kafka.topology import Deployment
from resonance.pipeline.records import Message, Outputs
from resonance.pipeline.recovery import new_version, recovery, reset
from resonance.pipeline.recovery import rewrite as changes
from resonance.pipeline.task.partition_task import PartitionTask

from tests.pipeline.checkpoint.test_restore import Log
from tests.pipeline.streams import TOPIC, payloads, points, records, settings

AT = (TOPIC, 0)


class Bus(Log):
    """A log of records that become clusters soon, and a worker in two lines."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        super().__init__(monkeypatch)
        for module in (recovery, reset, changes, archive_writer, new_version):
            monkeypatch.setattr(module, "LogReader", lambda *given: self.open(*given, None))
        for module in (recovery, reset, new_version):
            monkeypatch.setattr(module, "write", self.write)
        monkeypatch.setattr(reset, "forget_archives", lambda source: self.archived.clear())
        self.archived: list[Message] = []
        self.given = settings(topics__snapshots="snap", stream="key")
        self.source = DeploymentContext.of(self.given, {}, Deployment(1, {TOPIC: "id-1"}))
        self.log = records(points(600).tolist(), keys=(b"a",))
        self.end = self.log[-1].offset + 1

    def record(self, offset: int) -> Any:
        return next((record for record in self.log if record.offset == offset), self.log[0]._replace(offset=offset))

    def write(self, source: DeploymentContext, changes: Any, *, atomic: bool) -> None:
        for change in changes:
            self.snapshots += change.messages
            self.archived += change.archive
            self.committed_offset = change.offset

    def has(self, partition: Any) -> bool:
        return True

    def task(self, topic: str, partition: int) -> PartitionTask:
        return PartitionTask(self.given, topic, partition)

    def work(self, until: int) -> Outputs:
        part = restore_partitions(self.source, [AT], self.task)[AT]
        outputs = part.task.process([self.record(offset) for offset in range(part.start, until)])
        self.snapshots += part.writer.messages(part.task, until, until, everything=True)
        self.committed_offset = until
        return outputs


@pytest.fixture
def bus(monkeypatch: pytest.MonkeyPatch) -> Bus:
    return Bus(monkeypatch)


def ids(outputs: Outputs) -> set[str]:
    return {event["cluster"] for event in payloads(outputs.cluster_events) if event["cluster"]}


def lose_the_snapshots(bus: Bus) -> None:
    bus.snapshots = []


def damage_the_record(bus: Bus) -> None:
    entry = next(message for message in reversed(bus.snapshots) if message.key == partition_key(TOPIC))
    bus.snapshots.append(entry._replace(value=b"?"))


def delete_records(bus: Bus) -> None:
    bus.first = 7


def lose_records(bus: Bus) -> None:
    bus.end = 300


def make_the_topic_again(bus: Bus) -> None:
    bus.source = DeploymentContext.of(bus.given, {}, Deployment(1, {TOPIC: "id-2"}))


def change_the_settings(bus: Bus) -> None:
    bus.given = settings(topics__snapshots="snap", stream="key", engine__memory=101)
    bus.source = DeploymentContext.of(bus.given, {}, Deployment(1, {TOPIC: "id-1"}))


def change_a_limit_on_the_way(bus: Bus) -> None:
    whole = bus.source
    bus.source = DeploymentContext.of(
        settings(topics__snapshots="snap", stream="key", limits__streams=9), {}, whole.deployment
    )
    bus.work(410)
    bus.source = whole
    bus.work(420)


@pytest.mark.parametrize(
    "change",
    [
        lose_the_snapshots,
        damage_the_record,
        delete_records,
        lose_records,
        make_the_topic_again,
        change_the_settings,
        change_a_limit_on_the_way,
    ],
)
def test_ids_are_never_used_again_after_a_reset(bus: Bus, change: Callable[[Bus], None]) -> None:
    first = bus.work(400)
    change(bus)
    assert recovery.reset(bus.source, bus.task) == 1
    second = bus.work(400)
    started = payloads(second.cluster_events)[0]
    assert (started["kind"], started["version"], started["seq"]) == ("version_started", 2, 0)
    assert payloads(second.assignments)[0]["source"]["offset"] == bus.first
    assert ids(first)
    assert ids(second)
    assert not ids(first) & ids(second)


def test_where_nothing_changed_a_reset_tells_everything_again_with_the_same_bytes(bus: Bus) -> None:
    first = [bus.work(until) for until in (200, 400)]
    entry = next(message for message in bus.snapshots if message.key == manifest_key("p0:a"))
    bus.snapshots.append(entry._replace(value=b"?"))
    recovery.reset(bus.source, bus.task)
    assert [bus.work(until) for until in (200, 400)] == first
    bus.snapshots = []
    recovery.reset(bus.source, bus.task)
    second = bus.work(400)
    recovery.reset(bus.source, bus.task)
    assert bus.work(400) == second
    assert payloads(second.assignments)[0]["version"] == 2


def test_models_that_began_on_the_way_are_not_told_again(bus: Bus, caplog: pytest.LogCaptureFixture) -> None:
    bus.work(400)
    change_the_settings(bus)
    caplog.set_level("INFO", "resonance.pipeline.recovery.new_version")
    recovery.begin_versions(bus.given, bus.source, PartitionTask)
    assert "new models, because features[0]: the models were learned with other settings: " in caplog.text
    assert "stop every worker" not in caplog.text
    assert orjson.loads(bus.archived[-1].key or b"")[:3] == ["archive", TOPIC, 400]
    assert payloads(bus.work(410).assignments)[0]["version"] == 2
    recovery.reset(bus.source, bus.task)
    assert payloads(bus.work(400).assignments)[0]["version"] == 3


def test_a_reset_goes_beyond_every_version_that_stands_there(bus: Bus) -> None:
    bus.work(100)
    entry = next(message for message in reversed(bus.snapshots) if message.key == manifest_key("p0:a"))
    manifest = orjson.loads(entry.value or b"")
    manifest["current"]["header"]["version"] = 7
    bus.snapshots.append(entry._replace(value=orjson.dumps(manifest)))
    delete_records(bus)
    recovery.reset(bus.source, bus.task)
    assert {payload["version"] for payload in payloads(bus.work(100).assignments)} == {8}


def test_a_reset_of_nothing_begins_with_the_first_version(bus: Bus) -> None:
    recovery.reset(bus.source, bus.task)
    assert {payload["version"] for payload in payloads(bus.work(100).assignments)} == {1}
