"""What a reset may not use again: the ids of clusters that were emitted before; without a broker."""

import orjson
import pytest
from resonance.pipeline import mismatches
from resonance.pipeline.checkpoint.changelog_records import archives_key, manifest_key, partition_key
from resonance.pipeline.checkpoint.deployment_context import DeploymentContext
from resonance.pipeline.errors import MismatchError
from resonance.pipeline.kafka.topology import Deployment
from resonance.pipeline.records import Message
from resonance.pipeline.recovery import recovery
from resonance.pipeline.recovery.rewrite import read_stored

from tests.pipeline.memory_deployment import MemoryDeployment
from tests.pipeline.streams import TOPIC, payloads, points, records, settings

AT = (TOPIC, 0)


@pytest.fixture
def bus(monkeypatch):
    """A log of records that become clusters soon."""
    made = MemoryDeployment(monkeypatch, records=0)
    made.logs[AT] = records(points(600).tolist(), keys=(b"a",))
    return made


def snapshots(bus):
    return bus.logs[bus.source.snapshots, 0]


def damage(bus, key, value=b"?"):
    """Write another value under a key of the snapshots."""
    bus.append((bus.source.snapshots, 0), Message(key, value, []))


def ids(outputs):
    return {event["cluster"] for event in payloads(outputs.cluster_events) if event["cluster"]}


def lose_the_snapshots(bus):
    snapshots(bus).clear()


def damage_the_record(bus):
    damage(bus, partition_key(TOPIC))


def write_other_keys(bus):
    for key in (b'["manifest",', b'["partition",7]'):
        damage(bus, key)


def delete_records(bus):
    bus.expire(TOPIC, 7)


def lose_records(bus):
    bus.logs[AT] = [record for record in bus.logs[AT] if record.offset < 300]


def make_the_topic_again(bus):
    bus.source = DeploymentContext.of(bus.given, {}, Deployment(1, {TOPIC: "id-2"}))


def change_the_settings(bus):
    bus.take_settings(settings(stream="key", engine__memory=101))


def change_a_limit_on_the_way(bus):
    whole = bus.given
    bus.take_settings(settings(stream="key", limits__streams=9))
    bus.work(410, everything=True)
    bus.take_settings(whole)
    bus.work(420, everything=True)


@pytest.mark.parametrize(
    "change",
    [
        *(lose_the_snapshots, damage_the_record, delete_records, lose_records, make_the_topic_again),
        *(write_other_keys, change_the_settings, change_a_limit_on_the_way),
    ],
)
def test_ids_are_never_used_again_after_a_reset(bus, change):
    first = bus.work(400, everything=True)
    change(bus)
    if change is write_other_keys:
        delete_records(bus)
    assert recovery.reset(bus.source) == 1
    second = bus.work(400, everything=True)
    started = payloads(second.cluster_events)[0]
    assert (started["kind"], started["seq"]) == ("version_started", 0)
    # Where nothing shows what was used it is a number that no count has reached.
    unknown = change in (lose_the_snapshots, damage_the_record)
    assert started["version"] > 10**12 if unknown else started["version"] == 2
    assert payloads(second.assignments)[0]["source"]["offset"] == bus.firsts.get(AT, 0)
    assert ids(first)
    assert ids(second)
    assert not ids(first) & ids(second)


def test_where_nothing_changed_a_reset_emits_everything_again_with_the_same_bytes(bus):
    first = [bus.work(until, everything=True) for until in (200, 400)]
    damage(bus, manifest_key("p0:a"))
    recovery.reset(bus.source)
    assert [bus.work(until, everything=True) for until in (200, 400)] == first
    lose_the_snapshots(bus)
    recovery.reset(bus.source)
    second = bus.work(400, everything=True)
    recovery.reset(bus.source)
    assert bus.work(400, everything=True) == second
    assert payloads(second.assignments)[0]["version"] > 10**12


def damage_the_manifest(bus):
    damage(bus, manifest_key("p0:a"))


def damage_the_list_of_archives(bus):
    damage(bus, archives_key(TOPIC))


def write_another_format(bus):
    damage(bus, manifest_key("p0:a"), b'{"format": 99}')


def list_archives_in_another_format(bus):
    damage(bus, archives_key(TOPIC), b'{"format": 1, "topic_id": "id-1", "partition": 0, "archives": []}')


@pytest.mark.parametrize(
    "change",
    [
        damage_the_manifest,
        list_archives_in_another_format,
        damage_the_list_of_archives,
        write_another_format,
        damage_the_record,
    ],
)
def test_what_cannot_be_read_may_have_used_any_version(bus, change):
    bus.work(400, everything=True)
    change(bus)
    # Otherwise the log gives every output again, under the same version.
    delete_records(bus)
    recovery.reset(bus.source)
    assert {payload["version"] > 10**12 for payload in payloads(bus.work(500).assignments)} == {True}


def test_models_that_began_on_the_way_are_not_emitted_again(bus, caplog):
    bus.work(400, everything=True)
    change_the_settings(bus)
    caplog.set_level("INFO", "resonance.pipeline.recovery.new_version")
    recovery.begin_versions(bus.source)
    assert "new models, because features[0]: the models were learned with other settings: " in caplog.text
    assert "stop every worker" not in caplog.text
    assert orjson.loads(bus.logs[bus.source.archive, 0][-1].key or b"")[:3] == ["archive", TOPIC, 400]
    assert payloads(bus.work(410, everything=True).assignments)[0]["version"] == 2
    recovery.reset(bus.source)
    assert payloads(bus.work(400, everything=True).assignments)[0]["version"] == 3


def test_a_reset_goes_beyond_every_version_that_stands_there(bus):
    bus.work(100, everything=True)
    entry = next(record for record in reversed(snapshots(bus)) if record.key == manifest_key("p0:a"))
    manifest = orjson.loads(entry.value)
    manifest["header"]["version"] = 7
    damage(bus, manifest_key("p0:a"), orjson.dumps(manifest))
    delete_records(bus)
    recovery.reset(bus.source)
    assert {payload["version"] for payload in payloads(bus.work(100, everything=True).assignments)} == {8}


def test_a_reset_of_nothing_begins_with_the_first_version(bus):
    recovery.reset(bus.source)
    assert {payload["version"] for payload in payloads(bus.work(100, everything=True).assignments)} == {1}


@pytest.mark.parametrize("command", [mismatches.RESUME, mismatches.NEW_VERSION])
def test_a_command_says_what_it_did_and_that_nothing_needed_it(bus, command):
    bus.work(600, everything=True)
    assert recovery.recover(command, bus.source) == 0
    assert mismatches.done(command, 0) == f"{command} changed nothing, because nothing needs it"
    further = {
        mismatches.RESUME: " to where the snapshots end",
        mismatches.NEW_VERSION: ", which learn what comes from now on, not the history again; for that use another "
        "name, or --reset",
    }
    assert mismatches.done(command, 1).endswith(f" 1 partition{further[command]}")
    assert "2 partitions" in mismatches.done(command, 2)


def test_a_reset_reads_no_state_into_memory(bus):
    bus.work(400, everything=True)
    (stored,) = read_stored(bus, bus.source).values()
    written = {record.key: record.value for record in snapshots(bus)}
    assert stored.keys == {key for key, value in written.items() if value is not None}
    assert stored.streams(TOPIC)
    for stream in stored.streams(TOPIC):
        with pytest.raises(MismatchError, match="its checksum is wrong"):
            stored.newest(stream)
