"""What is emitted behind records that were learned without output: a list, then the bytes of a run that emitted all."""

from dataclasses import replace

import orjson
import pytest
from jsonschema import Draft202012Validator
from resonance.pipeline.records import Outputs, Record
from resonance.pipeline.task.encode import message_sizes as sizes
from resonance.pipeline.timestamps import canonical
from resonance.pipeline.verify.output_refs import assignment_ref
from resonance.schemas import load_schema

from tests.pipeline.streams import (
    STAMP,
    TOPIC,
    payloads,
    points,
    records,
    restored,
    run,
    settings,
    states,
    stored,
    task,
)
from tests.pipeline.task.test_clusters import compacted, there
from tests.pipeline.task.test_partition_task import KEYS, ONE_AND_A_TREE, array_settings, changed


def offset_of(message):
    """Offset of an output's source record."""
    headers = dict(message.headers)
    if "ce_id" in headers:
        return int((headers["ce_id"] or b"").decode().split("/")[0].rpartition("-")[2])
    if (ref := assignment_ref(message)) is not None:
        return ref.offset
    return int(next(value or b"" for name, value in message.headers if name.endswith(".error.offset")))


def is_listing(message):
    return message.value is not None and b'"kind":"version_started"' in message.value


def split(outputs):
    """Return outputs without lists and what these say of clusters, and the lists."""
    lists = [payload for payload in payloads(outputs.cluster_events) if payload["kind"] == "version_started"]
    events = [message for message in outputs.cluster_events if not is_listing(message)]
    clusters = [m for m in outputs.clusters if "/version/" not in (dict(m.headers)["ce_id"] or b"").decode()]
    return Outputs(outputs.assignments, events, outputs.dead_letters, clusters), lists


def later_part(whole, offset):
    """Return the outputs of the records from an offset on."""
    kinds = (whole.assignments, whole.cluster_events, whole.dead_letters, whole.clusters)
    return Outputs(*([message for message in kind if offset_of(message) >= offset] for kind in kinds))


def unusual(log):
    """Return a log with dead letters, a null value, and times that go back."""
    log = list(log)
    for i in (40, 333, 702, 1100):
        log[i] = log[i]._replace(value=b"{")
    log[701] = log[701]._replace(value=None)
    for i in range(710, 1200, 9):
        log[i] = log[i]._replace(timestamp=STAMP)
    return log


def silently(given, log, size=100):
    """Return a task that has learned a log without output."""
    worker = task(given)
    for start in range(0, len(log), size):
        worker.catch_up(log[start : start + size])
    worker.announce()
    return worker


@pytest.mark.parametrize("engine", ONE_AND_A_TREE)
@pytest.mark.parametrize(("stream", "choice"), [("partition", "all"), ("key", "changes")])
def test_behind_a_silent_past_everything_has_the_bytes_of_a_run_that_emitted_all(engine, stream, choice):
    log = unusual(records(points(1500).tolist(), keys=KEYS[:2]))
    own = {"stream": stream, "output__assignments": choice, "output__clusters_grace": 1.0, "input__id_path": "id"}
    loud = task(changed(engine, **own))
    expected = later_part(run(loud, log), log[700].offset)
    whole = silently(changed(engine, **own), log[:700], 13)
    before = {name: whole.models.clusters(name) for name in whole.models.names}
    outputs = run(whole, log[700:], 13)
    found, lists = split(outputs)
    # Of the past no dead letter was written that could be an example.
    (examples,) = whole.counts.dead_letter_examples.values()
    assert [each.source[2] for each in examples] == [log[702].offset, log[1100].offset]
    counts = [replace(each.counts, dead_letter_examples={}) for each in (whole, loud)]
    assert (found, states(whole), counts[0]) == (expected, states(loud), counts[1])
    validator = Draft202012Validator(load_schema("cluster_event"))
    assert [entry["stream"] for entry in lists] == list(before)
    for entry in lists:
        validator.validate(entry)
        assert (entry["before"], entry["cluster"], entry["version"]) == ([], None, 1)
        assert entry["after"] == before[entry["stream"]]
        assert entry["after"]
        following = [event["seq"] for event in payloads(found.cluster_events) if event["stream"] == entry["stream"]]
        assert not following or following[0] == entry["seq"] + 1
    table = compacted(outputs.clusters)
    for name in whole.models.names:
        assert there(table, name) == {cluster["id"] for cluster in whole.models.clusters(name)}


def test_a_list_says_since_when_the_clusters_are_there():
    log = records(points(900).tolist())
    loud = run(task(), log[:700])
    began = {event["cluster"]: event["time"] for event in payloads(loud.cluster_events) if event["kind"] != "absorbed"}
    listed = payloads(run(silently(settings(), log[:700]), log[700:701]).clusters)
    assert listed
    assert {cluster["id"]: cluster["since"] for cluster in listed} == {c["id"]: began[c["id"]] for c in listed}
    assert {cluster["time"] for cluster in listed} == {canonical(log[700].timestamp)}


def test_a_restart_lists_once_and_a_crash_before_its_first_snapshot_changes_nothing():
    log = unusual(records(points(1500).tolist(), keys=KEYS[:2]))
    given = settings(stream="key")
    boot = silently(given, log[:800])
    state, snapshots = stored(boot)
    assert boot.models.recovery_offset is None
    outputs = run(restored(given, state, snapshots), log[800:])
    text, lists = split(outputs)
    assert text == later_part(run(task(given), log), log[800].offset)
    assert [len(entry["after"]) for entry in lists] == [
        len(boot.models.clusters(stream)) for stream in boot.models.names
    ]
    again = restored(given, state, snapshots)
    again.catch_up(log[800:1000])
    assert run(again, log[1000:]) == later_part(outputs, log[1000].offset)


def test_a_new_version_ends_only_what_was_emitted():
    log = records(points(1200).tolist())
    worker = silently(settings(), log[:600])
    fresh = task()
    fresh.restore_partition(worker.partition_state())
    fresh.restore(worker.models.snapshot("p0"), new_version=True)
    started, *_ = payloads(run(fresh, log[600:]).cluster_events)
    assert (started["kind"], started["version"], started["before"]) == ("version_started", 2, [])
    # What was never emitted is in no state for ever.
    assert set(fresh.models.named("p0").lifetimes.since) == {cluster["id"] for cluster in fresh.models.clusters("p0")}


def test_what_was_learned_from_a_file_goes_on_at_any_offset():
    rows = points(900).tolist()
    file = [Record(TOPIC, 0, i, STAMP + i, None, orjson.dumps({"features": row})) for i, row in enumerate(rows)]
    boot = silently(array_settings(), file[:600])
    boot.go_on_at(7)
    live = restored(array_settings(), boot.partition_state(), [boot.models.snapshot("p0")])
    emitted, lists = split(run(live, [record._replace(offset=record.offset - 593) for record in file[600:]]))
    assert len(lists) == 1
    expected = later_part(run(task(array_settings()), file), 600)
    found, wanted = ([e["seq"] for e in payloads(outputs.cluster_events)] for outputs in (emitted, expected))
    assert found == wanted
    for found, wanted in zip(payloads(emitted.assignments), payloads(expected.assignments), strict=True):
        assert {**found, "source": None} == {**wanted, "source": None}


def test_a_list_that_no_message_would_hold_describes_no_centres(monkeypatch):
    log = records(points(700).tolist())
    monkeypatch.setattr(sizes, "event_bytes", lambda columns: 400)
    monkeypatch.setattr(sizes, "check_events", lambda *args: None)
    outputs = run(silently(settings(), log[:650]), log[650:])
    parts = split(outputs)[1]
    assert len(parts) > 1
    assert {tuple(cluster["centre"]) for part in parts for cluster in part["after"]} == {()}
    assert all(cluster["centre"] for cluster in payloads(outputs.clusters))
