"""The compacted topic: every cluster by its id, as of the last event, with its end and its tombstone."""

from itertools import pairwise

import orjson
import pytest
from jsonschema import Draft202012Validator
from resonance.pipeline.task.model.lifetimes import CLOCK_OFFSETS, MAX_ENDED, Lifetimes
from resonance.pipeline.timestamps import canonical, later
from resonance.schemas import load_schema

from tests.pipeline.streams import alike, payloads, points, records, run, settings, task
from tests.pipeline.task.test_partition_task import ENGINES, KEYS, changed


def compacted(messages):
    """What a reader of the compacted topic has in the end."""
    table = {}
    for message in messages:
        name = (message.key or b"").decode()
        table.pop(name, None)
        if message.value is not None:
            table[name] = orjson.loads(message.value)
    return table


def there(table, stream):
    return {name for name, cluster in table.items() if cluster["stream"] == stream and "ended" not in cluster}


@pytest.mark.parametrize("engine", ENGINES)
def test_a_cluster_is_emitted_as_its_last_event_describes_it_and_names_what_goes_on(engine):
    # In both streams together every engine joins clusters, too.
    kinds = set()
    for seed in range(2):
        kinds |= described_kinds(run(task(changed(engine)), records(points(1500, seed).tolist())))
    assert {"emerged", "absorbed"} <= kinds


def described_kinds(outputs):
    """Compare the messages of clusters with the events; return the kinds of these."""
    validator = Draft202012Validator(load_schema("cluster"))
    messages = iter(outputs.clusters)
    began = {}
    kinds = set()
    for message, event in zip(outputs.cluster_events, payloads(outputs.cluster_events), strict=True):
        name, kind = event["cluster"], event["kind"]
        kinds.add(kind)
        if kind in ("emerged", "split"):
            began[name] = event["time"]
        ended = [cluster for cluster in event["before"] if cluster["id"] == name]
        for cluster in ended + event["after"]:
            text = next(messages)
            value = orjson.loads(text.value)
            validator.validate(value)
            assert {part: value[part] for part in cluster} == cluster
            assert (text.key or b"").decode() == value["id"]
            stream, version, place = value["id"].rsplit("/", 2)
            assert (value["stream"], value["version"], value["level"]) == (stream, int(version), place.count(".") + 1)
            assert value.get("parent", []) == [int(node) for node in place.split(".")[:-1]]
            assert (value["seq"], value["time"]) == (event["seq"], event["time"])
            assert value["since"] == began[cluster["id"]]
            if cluster in ended:
                assert value["ended"] == kind
                assert value["successors"] == ([event["other"]] if kind == "absorbed" else [])
            else:
                assert "ended" not in value
                assert "successors" not in value
            headers = dict(text.headers)
            assert headers["ce_id"] == (dict(message.headers)["ce_id"] or b"") + b"/" + cluster["id"].encode()
            assert headers["ce_type"] == b"resonance.cluster.v1"
            assert headers["ce_dataschema"] == b"urn:resonance:schema:cluster:1"
            assert headers["ce_time"] == event["time"].encode()
    assert next(messages, None) is None
    return kinds


def test_a_tombstone_follows_when_the_records_say_that_the_grace_period_is_over():
    log = records(points(4500).tolist())
    outputs = run(task(settings(output__clusters_grace=0.2)), log)
    assert outputs.cluster_events == run(task(), log).cluster_events
    ends = {}
    clock = [r for before, r in pairwise(log) if before.offset // CLOCK_OFFSETS != r.offset // CLOCK_OFFSETS]
    for message in outputs.clusters:
        name, headers = (message.key or b"").decode(), dict(message.headers)
        if message.value is None:
            assert (headers["ce_id"] or b"").endswith(f"/removed/{name}".encode())
            due = later(ends.pop(name), 0.2)
            offset = int((headers["ce_id"] or b"").decode().split("/")[0].rpartition("-")[2])
            assert offset == next(record.offset for record in clock if canonical(record.timestamp) >= due)
        elif "ended" in (value := orjson.loads(message.value)):
            ends[name] = value["time"]
    gone = {m.key for m in outputs.clusters if m.value is None}
    assert len(gone) > 3
    assert not gone & {key.encode() for key in compacted(outputs.clusters)}


@pytest.mark.parametrize("stream", ["partition", "key"])
@pytest.mark.parametrize("grace", [0.0, 0.3])
def test_however_the_log_is_cut_and_wherever_it_is_restored_the_topic_is_the_same(stream, grace):
    given = settings(stream=stream, output__clusters_grace=grace)
    log = records(points(1200).tolist(), keys=KEYS[:2])
    # Times that go back and forth.
    log = [record._replace(timestamp=record.timestamp + 700 * (i % 5 == 0)) for i, record in enumerate(log)]
    assert any(message.value is None for message in alike(given, log, stops=(700, 900))[1].clusters)


def test_a_new_version_ends_the_clusters_of_the_old_one():
    log = records(points(900).tolist())
    given = settings(output__clusters_grace=1.0)
    worker = task(given)
    before = run(worker, log[:500]).clusters
    present = {cluster["id"] for cluster in worker.models.clusters("p0")}
    assert there(compacted(before), "p0") == present
    fresh = task(given)
    fresh.restore(worker.models.snapshot("p0"), new_version=True)
    outputs = run(fresh, log[500:])
    ends = [orjson.loads(message.value) for message in outputs.clusters[: len(present)]]
    assert {end["id"] for end in ends} == present
    assert {(end["ended"], *end["successors"]) for end in ends} == {("version_started",)}
    assert all(end["since"] < end["time"] for end in ends)
    table = compacted(before + outputs.clusters)
    assert there(table, "p0") == {cluster["id"] for cluster in fresh.models.clusters("p0")}
    assert not present & set(table)


def test_what_waits_for_its_tombstone_is_bounded():
    lifetimes = Lifetimes()
    for number in range(MAX_ENDED + 3):
        lifetimes.end(f"p0/1/{number}", "2026-01-01T00:00:00.000Z", 60.0)
    assert (lifetimes.overdue(), lifetimes.overdue()) == (["p0/1/0", "p0/1/1", "p0/1/2"], [])
    again = Lifetimes.from_state(orjson.loads(orjson.dumps(lifetimes.state())))
    times = ["2026-01-01T00:00:59.999Z", "2026-01-01T00:01:00.000Z", "2026-01-01T00:01:00.000Z"]
    offsets = [CLOCK_OFFSETS - 2, CLOCK_OFFSETS - 1, 2 * CLOCK_OFFSETS + 5]
    assert again.due(times, offsets, range(2), -1) == []
    assert again.due(times, offsets, [2], 2 * CLOCK_OFFSETS) == []
    assert again.due(times, offsets, range(3), -1) == [(2, f"p0/1/{number}") for number in range(3, MAX_ENDED + 3)]
    assert len(again) == 0
