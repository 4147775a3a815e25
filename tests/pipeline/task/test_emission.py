"""Silence before `emit_from`: what comes after it are the bytes of a run that emitted everything, behind a list."""

import orjson
import pytest
from jsonschema import Draft202012Validator
from resonance.pipeline.records import Outputs, Record
from resonance.pipeline.task.emission import Emission
from resonance.pipeline.task.encode import message_sizes as sizes
from resonance.pipeline.timestamps import canonical
from resonance.pipeline.verify.output_refs import assignment_ref
from resonance.schemas import load_schema

from tests.pipeline.memory_deployment import MemoryDeployment
from tests.pipeline.streams import STAMP, TOPIC, alike, payloads, points, records, restored, run, settings, states, task
from tests.pipeline.task.test_clusters import compacted, there
from tests.pipeline.task.test_partition_snapshots import crash_and_go_on
from tests.pipeline.task.test_partition_task import ENGINES, KEYS, array_records, array_settings, changed

AT = (TOPIC, 0)


def stamped(record):
    return canonical(record.timestamp)


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
    """Return a log with dead letters, a null value, and times that go back behind the latch."""
    log = list(log)
    for i in (40, 333, 702, 1100):
        log[i] = log[i]._replace(value=b"{")
    log[701] = log[701]._replace(value=None)
    for i in range(710, 1200, 9):
        log[i] = log[i]._replace(timestamp=STAMP)
    return log


@pytest.mark.parametrize("engine", ENGINES)
@pytest.mark.parametrize(("stream", "choice"), [("partition", "all"), ("key", "changes")])
def test_after_the_silence_everything_is_emitted_with_the_bytes_of_a_run_that_emitted_all(engine, stream, choice):
    log = unusual(records(points(1500).tolist(), keys=KEYS[:2]))
    own = {"stream": stream, "output__assignments": choice, "output__clusters_grace": 1.0, "input__id_path": "id"}
    loud = task(changed(engine, **own))
    latch = log[700]
    expected = later_part(run(loud, log), latch.offset)
    whole, outputs = alike(changed(engine, **own, emit_from=stamped(latch)), log, (1, 13))
    found, lists = split(outputs)
    assert (found, states(whole), whole.counts) == (expected, states(loud), loud.counts)
    before = task(changed(engine, **own))
    run(before, log[:700])
    validator = Draft202012Validator(load_schema("cluster_event"))
    assert [entry["stream"] for entry in lists] == before.models.names
    for entry in lists:
        validator.validate(entry)
        assert (entry["before"], entry["cluster"], entry["version"]) == ([], None, 1)
        assert entry["after"] == before.models.clusters(entry["stream"])
        assert entry["after"]
        following = [event["seq"] for event in payloads(found.cluster_events) if event["stream"] == entry["stream"]]
        assert (entry["seq"] + 1, following[0]) == (before.models.named(entry["stream"]).seq, entry["seq"] + 1)
    table = compacted(outputs.clusters)
    for name in whole.models.names:
        assert there(table, name) == {cluster["id"] for cluster in whole.models.clusters(name)}


def test_a_list_says_since_when_the_clusters_are_there():
    log = records(points(900).tolist())
    loud = run(task(), log[:700])
    began = {event["cluster"]: event["time"] for event in payloads(loud.cluster_events) if event["kind"] != "absorbed"}
    listed = payloads(run(task(settings(emit_from=stamped(log[700]))), log[:701]).clusters)
    assert listed
    assert {cluster["id"]: cluster["since"] for cluster in listed} == {c["id"]: began[c["id"]] for c in listed}
    assert {cluster["time"] for cluster in listed} == {stamped(log[700])}


@pytest.mark.parametrize("seed", range(4))
def test_crashes_anywhere_change_neither_the_silence_nor_the_lists(seed):
    log = unusual(records(points(1300).tolist(), keys=KEYS[:3]))
    given = settings(stream="key", emit_from=stamped(log[700]), output__clusters_grace=0.5)
    expected = crash_and_go_on(given, log, seed)
    assert len([message for message in expected.cluster_events if is_listing(message)]) == 3


@pytest.mark.parametrize("seed", range(4))
@pytest.mark.parametrize("latch", [1, 3, 5, 40])
def test_the_latch_may_come_before_or_after_the_record_that_decides(seed, latch):
    quick = {"engine__name": "caea", "engine__lambda": 4, "engine__min_cluster_records": 1}
    quick |= {"prepare__scale": "none", "stream": "key"}
    rows = points(120).tolist()
    rows[2], rows[11] = rows[2][:2], rows[11][:2]
    log = array_records(rows, KEYS)
    log[0] = log[0]._replace(value=b"[")
    log[5 if latch > 5 else 6] = log[5]._replace(value=None)
    given = array_settings(emit_from=stamped(log[latch]), **quick)
    loud = run(task(array_settings(**quick)), log)
    expected = crash_and_go_on(given, log, seed, (1, 2, 5))
    text, lists = split(expected)
    assert text == later_part(loud, log[latch].offset)
    assert bool(lists) == (latch > 20)
    for size in (1, 7):
        assert run(task(given), log, size) == expected


def test_nothing_is_emitted_where_the_time_never_comes_and_everything_where_it_is_past():
    log = records(points(900).tolist())
    silent = task(settings(emit_from="2100-01-01T00:00:00Z"))
    assert run(silent, log) == Outputs()
    assert silent.counts.records == 900
    assert run(task(settings(emit_from="1999-01-01T00:00:00Z")), log) == run(task(), log)


def test_the_time_is_the_records_own():
    log = records(points(400).tolist())
    hour = "2026-01-01T{:02}:00:00Z"
    log = [r._replace(value=r.value[:-1] + b',"at":"%s"}' % hour.format(i // 100).encode()) for i, r in enumerate(log)]
    given = settings(input__time_path="at", emit_from=hour.format(3))
    assert [offset_of(message) for message in run(task(given), log).assignments] == [r.offset for r in log[300:]]


# Another setting
def test_the_setting_may_change_while_nothing_was_emitted_and_counts_from_there_on():
    log = records(points(1200).tolist())
    worker = task(settings(emit_from="2100-01-01T00:00:00Z"))
    assert run(worker, log[:600]) == Outputs()
    state, snapshots = worker.partition_state(), [worker.models.snapshot("p0")]
    for given, first in ((settings(), 600), (settings(emit_from=stamped(log[900])), 900)):
        fresh = restored(given, state, snapshots)
        text, lists = split(run(fresh, log[600:]))
        assert text == later_part(run(task(), log), log[first].offset)
        assert len(lists) == 1
        # A crash reads again what was silent under the first setting.
        again = restored(given, fresh.partition_state(), snapshots)
        again.catch_up(log[600:])
        assert states(again) == states(fresh)


@pytest.mark.parametrize(("later", "ahead", "text"), [(None, 0, True), ("2100-01-01T00:00:00Z", 10**12, False)])
def test_another_setting_counts_from_the_start_on_whatever_a_crash_reads_again(monkeypatch, later, ahead, text):
    first = MemoryDeployment(monkeypatch, emit_from="2050-01-01T00:00:00Z")
    assert first.work(300, everything=True) == Outputs()
    now = MemoryDeployment(monkeypatch, emit_from=later)
    now.logs, now.offsets, now.beside = first.logs, first.offsets, first.beside
    # The first commit comes for another partition's records: this one has none yet.
    now.work(300)
    for i, record in enumerate(now.logs[AT][300:], 300):
        now.logs[AT][i] = record._replace(timestamp=record.timestamp + ahead)
    outputs = now.work(450, snapshots=False)
    assert bool(outputs.assignments) == text
    # Killed; what it emitted is read again.
    outputs.add(now.work(600))
    assert len([message for message in outputs.cluster_events if is_listing(message)]) == (2 if text else 0)
    assert len(outputs.assignments) == (300 if text else 0)


def test_a_partition_that_has_emitted_goes_on_whatever_the_setting():
    log = records(points(900).tolist())
    worker = task()
    run(worker, log[:500])
    given = settings(emit_from="2100-01-01T00:00:00Z")
    fresh = restored(given, worker.partition_state(), [worker.models.snapshot("p0")])
    assert run(fresh, log[500:]) == run(worker, log[500:])


def test_a_new_version_ends_only_what_was_emitted():
    log = records(points(1200).tolist())
    given = settings(emit_from=stamped(log[800]))
    worker = task(given)
    run(worker, log[:600])
    fresh = task(given)
    fresh.restore_partition(worker.partition_state())
    fresh.restore(worker.models.snapshot("p0"), new_version=True)
    listing, *_ = payloads(run(fresh, log[600:]).cluster_events)
    assert (listing["kind"], listing["version"], listing["before"]) == ("version_started", 2, [])
    assert {cluster["id"].split("/")[1] for cluster in listing["after"]} == {"2"}
    # What was never emitted is in no state for ever.
    assert set(fresh.models.named("p0").lifetimes.since) == {cluster["id"] for cluster in fresh.models.clusters("p0")}


# Learned beforehand
def test_what_was_learned_beforehand_is_listed_and_the_rest_equals_one_run_over_both():
    log = unusual(records(points(1500).tolist(), keys=KEYS[:2]))
    given = settings(stream="key")
    boot = task(given)
    for start in range(0, 800, 100):
        boot.learn_silently(log[start : start + 100])
    state, snapshots = (
        boot.partition_state(),
        [boot.models.snapshot(stream) for stream in boot.models.pending(everything=True)],
    )
    assert boot.models.recovery_offset is None
    outputs = run(restored(given, state, snapshots), log[800:])
    text, lists = split(outputs)
    assert text == later_part(run(task(given), log), log[800].offset)
    assert [len(entry["after"]) for entry in lists] == [
        len(boot.models.clusters(stream)) for stream in boot.models.names
    ]
    # A crash before the first snapshot of its own.
    again = restored(given, state, snapshots)
    again.catch_up(log[800:1000])
    assert run(again, log[1000:]) == later_part(outputs, log[1000].offset)


def test_what_was_learned_from_a_file_goes_on_at_any_offset():
    rows = points(900).tolist()
    file = [Record(TOPIC, 0, i, STAMP + i, None, orjson.dumps({"features": row})) for i, row in enumerate(rows)]
    boot = task(array_settings())
    boot.learn_silently(file[:600])
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
    given = settings(emit_from=stamped(log[650]))
    monkeypatch.setattr(sizes, "event_bytes", lambda columns: 400)
    monkeypatch.setattr(sizes, "check_events", lambda *args: None)
    outputs = run(task(given), log)
    parts = split(outputs)[1]
    assert len(parts) > 1
    assert {tuple(cluster["centre"]) for part in parts for cluster in part["after"]} == {()}
    assert all(cluster["centre"] for cluster in payloads(outputs.clusters))


# The latch
def test_the_latch_is_the_first_record_that_is_not_too_early():
    emission = Emission("2026-01-01T00:00:00.000Z", TOPIC, 0)
    emission.look([3, 5], ["2025-12-31T23:59:59.999Z", "2025-01-01T00:00:00.000Z"])
    assert emission.emit_from_offset is None
    emission.look([7, 9, 11], ["2025-12-31T23:59:59.999Z", "2026-01-01T00:00:00.000Z", "2027-01-01T00:00:00.000Z"])
    assert emission.emit_from_offset == 9
    assert [emission.emits(offset) for offset in (8, 9, 10)] == [False, True, True]
    again = Emission(None, TOPIC, 0)
    again.restore(orjson.loads(orjson.dumps(emission.state())))
    assert again.emit_from_offset == 9
    again.go_on_at(100)
    assert again.emit_from_offset == 9
