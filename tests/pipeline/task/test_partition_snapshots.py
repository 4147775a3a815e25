"""A partition task that was stopped anywhere and restored goes on as if it had not been."""

import random

import orjson
import pytest
from resonance.pipeline.errors import MismatchError
from resonance.pipeline.records import Outputs, StreamSnapshot
from resonance.pipeline.task.stream_task import FORMAT

from tests.night import at_night
from tests.pipeline.streams import TOPIC, Held, payloads, points, records, restored, run, settings, states, stored, task
from tests.pipeline.task.test_partition_task import KEYS, ONE_AND_A_TREE, array_records, array_settings, changed


def crash_and_go_on(given, log, seed, sizes=(1, 5, 40, 200)):
    """Process a log with crashes anywhere, as one task does that never stopped; return what it says."""
    whole = task(given)
    expected = run(whole, log)
    rng = random.Random(seed)
    held, outputs = Held(task(given)), Outputs()
    while held.read < len(log):
        size = rng.choice(sizes)
        outputs.add(held.task.process(log[held.read : held.read + size]))
        held.read = min(len(log), held.read + size)
        share = rng.choice((0.0, 0.1, 0.5))
        streams = held.task.models.pending() + [
            name for name in held.task.models.pending(everything=True) if rng.random() < share
        ]
        if streams or rng.random() < 0.1:
            held.write(list(dict.fromkeys(streams)), log[held.read - 1].offset + 1)
        if rng.random() < 0.2:
            held.restore(task(given), log, rng.choice((1, 30, 1000)))
    assert (outputs, states(held.task)) == (expected, states(whole))
    return expected


@pytest.mark.parametrize("engine", ONE_AND_A_TREE)
@pytest.mark.parametrize(
    ("stream", "seed", "choice"),
    [
        *(("partition", 0, "all"), ("key", 2, "changes")),
        *(at_night(*each) for each in (("partition", 2, "changes"), ("key", 0, "all"))),
    ],
)
def test_crashes_anywhere_change_nothing(engine, stream, seed, choice):
    own = {"snapshots__records": 150, "snapshots__ratio": 0.1, "limits__streams": 3, "output__assignments": choice}
    given = changed(engine, stream=stream, **own)
    log = records(points(1200).tolist(), keys=KEYS)
    for i in range(0, 1200, 97):
        log[i] = log[i]._replace(value=[b"{", None, b'{"cpu": 1e200, "latency_ms": 1, "net": {"in": 1}}'][i % 3])
    crash_and_go_on(given, log, seed)


@pytest.mark.parametrize("seed", range(3))
@pytest.mark.parametrize("choice", ["all", "changes"])
def test_crashes_while_the_dimension_is_being_decided_change_nothing(seed, choice):
    quick = {"engine__name": "caea", "engine__lambda": 4, "engine__min_cluster_records": 1, "prepare__scale": "none"}
    # Snapshots of some streams only, at random: the others must go through the decision again.
    given = array_settings(stream="key", output__assignments=choice, **quick)
    rows = points(120).tolist()
    for i in (0, 2, 11, 15):
        rows[i] = rows[i][:2]
    log = array_records(rows, KEYS)
    log[5] = log[5]._replace(value=None)
    crash_and_go_on(given, log, seed, sizes=(1, 2, 5))


@pytest.mark.parametrize(
    ("scale", "choice"),
    [("none", "all"), ("warmup", "changes"), at_night("none", "changes"), at_night("warmup", "all")],
)
def test_a_clean_stop_while_the_dimension_is_being_decided_leaves_nothing_to_read_again(scale, choice):
    quick = {"engine__name": "caea", "engine__lambda": 4, "engine__min_cluster_records": 1}
    own = {"output__assignments": choice, "prepare__scale": scale, "prepare__missing": "mean"}
    given = {"stream": "key", "prepare__warmup_records": 6, **own, **quick}
    rows = points(120).tolist()
    rows[1][2], rows[4], rows[9] = None, rows[4][:2], rows[9][:2]
    log = array_records(rows, (b"", b"\xff"))
    log[5], log[7] = log[5]._replace(value=None), log[7]._replace(value=b"[")
    whole = task(array_settings(**given))
    expected = run(whole, log)
    assert expected.cluster_events
    for stop in range(1, 25):
        worker = task(array_settings(**given))
        outputs = run(worker, log[:stop])
        fresh = restored(array_settings(**given, limits__record_bytes=5_000), *stored(worker))
        assert worker.models.recovery_offset is None
        assert fresh.partition_state() == worker.partition_state()
        outputs.add(run(fresh, log[stop:]))
        assert (outputs, states(fresh)) == (expected, states(whole))


@pytest.mark.parametrize("is_ahead", [True, False])
def test_the_decision_comes_with_a_snapshot_ahead_of_the_partition_record_or_is_taken_again(is_ahead):
    own = {"engine__min_cluster_records": 1} if is_ahead else {"output__assignments": "changes"}
    given = array_settings(stream="key", prepare__scale="none", **own)
    log = array_records(points(60).tolist(), (b"a", b"b"))
    worker = task(given)
    state = worker.partition_state()
    run(worker, log[:30])
    fresh = restored(given, state if is_ahead else worker.partition_state(), [worker.models.snapshot("p0:a")])
    fresh.catch_up(log[:30])
    assert states(fresh) == states(worker)
    assert run(fresh, log[30:]) == run(worker, log[30:])


def test_a_stream_is_due_after_records_and_after_its_own_size_in_input_bytes():
    log = records(points(1500).tolist())
    worker = task(settings(snapshots__records=100, snapshots__ratio=2.0))
    since, expected = 0, 0
    sizes = []
    for i, record in enumerate(log):
        worker.process([record])
        since += len(record.value or b"")
        if worker.models.pending():
            assert worker.models.pending() == ["p0"]
            assert i + 1 - expected >= 100
            assert not sizes or since >= 2.0 * sizes[-1]
            assert i + 1 - expected == 100 or since - len(record.value or b"") < 2.0 * sizes[-1]
            sizes.append(len(worker.models.snapshot("p0").body))
            since, expected = 0, i + 1
            assert worker.models.pending() == worker.models.pending(everything=True) == []
    assert len(sizes) > 2


def test_the_first_snapshot_of_a_stream_comes_early_and_paid_for_like_the_others():
    log = records(points(1400).tolist(), keys=(b"a", b"b"))
    worker = task(settings(stream="key", snapshots__records=5000, snapshots__ratio=1.0))
    written = []
    sizes = []
    for number, record in enumerate(log):
        worker.process([record])
        if worker.models.pending():
            written += [(number, stream) for stream in worker.models.pending()]
            sizes.append(len(worker.models.snapshot(written[-1][1]).body))
    (first, a), (second, b) = written
    assert (a, b) == ("p0:a", "p0:b")
    assert 499 <= first < 700
    assert sum(len(record.value or b"") for record in log[first : second + 1]) >= sizes[0]
    assert worker.models.pending(everything=True) == ["p0:a", "p0:b"]


def test_a_stream_that_fell_silent_does_not_hold_the_place_where_a_restore_begins():
    log = records(points(3040).tolist(), keys=(b"loud",))
    log[5] = log[5]._replace(key=b"silent")
    worker = task(settings(stream="key", snapshots__records=100, snapshots__ratio=1.0))
    furthest = read = 0
    sizes = []
    for record in log:
        worker.process([record])
        read += len(record.value or b"")
        sizes += [len(worker.models.snapshot(stream).body) for stream in worker.models.pending()]
        furthest = max(furthest, record.offset - (worker.models.recovery_offset or record.offset))
    assert worker.models.pending(everything=True) == ["p0:loud"]
    assert furthest < 1000
    # A young model grows from one snapshot to the next, and what is paid is the size of the one before.
    assert 0.3 * read < sum(sizes) < 1.2 * read


def test_many_streams_are_written_smoothly_and_all_in_turn():
    keys = tuple(b"k%d" % n for n in range(60))
    log = records(points(9000).tolist(), keys=keys)
    given = {"snapshots__records": 50, "snapshots__ratio": 2.0, "prepare__warmup_records": 10, "drift__detect": False}
    worker = task(settings(stream="key", **given))
    times = {}
    read = written = most = 0
    for start in range(0, len(log), 20):
        worker.process(log[start : start + 20])
        read += sum(len(record.value or b"") for record in log[start : start + 20])
        due = worker.models.pending()
        most = max(most, len(due))
        for stream in due:
            written += len(worker.models.snapshot(stream).body)
            times.setdefault(stream, []).append(start)
    assert set(times) == {f"p0:{key.decode()}" for key in keys}
    assert most <= 12
    assert max(map(len, times.values())) - min(map(len, times.values())) <= 1
    assert 0.35 * read < written < 0.6 * read


def test_the_longest_dirty_stream_is_first_and_replay_begins_there():
    log = records(points(40).tolist(), keys=(b"a", b"b", b"c"))
    worker = task(settings(stream="key", snapshots__records=2, snapshots__ratio=0.0))
    run(worker, log)
    assert worker.models.pending(everything=True) == worker.models.pending() == ["p0:a", "p0:b", "p0:c"]
    assert worker.models.recovery_offset == log[0].offset
    worker.models.snapshot("p0:a")
    assert worker.models.recovery_offset == log[1].offset
    worker.process([log[-1]._replace(offset=1000, key=b"a")])
    assert (worker.models.pending(everything=True), worker.models.pending()) == (
        ["p0:b", "p0:c", "p0:a"],
        ["p0:b", "p0:c"],
    )
    for stream in worker.models.pending(everything=True):
        worker.models.snapshot(stream)
    assert worker.models.recovery_offset is None


def test_a_replay_begins_with_the_stream_that_needs_it_first():
    given = settings(stream="key")
    log = records(points(400).tolist(), keys=(b"a", b"b"))
    worker = task(given)
    run(worker, log[:100])
    early = worker.models.snapshot("p0:b")
    run(worker, log[100:200])
    fresh = restored(given, worker.partition_state(), [worker.models.snapshot("p0:a"), early])
    # Stream a is met first and has seen most of the batch.
    fresh.catch_up(log[:210])
    assert fresh.models.recovery_offset == log[101].offset


# What does not belong together
def snapshot_of(given):
    worker = task(given)
    run(worker, records(points(100).tolist()))
    return worker.partition_state(), worker.models.snapshot("p0")


@pytest.mark.parametrize(
    ("change", "text"),
    [
        ({"engine__memory": 300}, "engine.memory was 100, is 300"),
        ({"engine__valley": 0.5}, "engine.valley was 0.25, is 0.5"),
        ({"prepare__scale": "none"}, 'prepare.scale was "warmup", is "none"'),
        ({"prepare__warmup_records": 61}, "prepare.warmup_records was 60, is 61"),
        ({"input__features": ["latency_ms", "cpu"]}, 'features was ["cpu","latency_ms","net.in"], is ["latency_ms"'),
        ({"engine__name": "hcaea"}, 'engine was "modal", is "hcaea"'),
    ],
)
def test_other_settings_stop_and_are_listed(change, text):
    state, snapshot = snapshot_of(settings())
    with pytest.raises(MismatchError, match=r"features\[0\], stream p0 at offset 101.*--new-version") as caught:
        restored(settings(**change), state, [snapshot])
    assert text in str(caught.value)


def test_settings_that_do_not_touch_the_models_may_change():
    state, snapshot = snapshot_of(settings())
    given = settings(output__assignments="novel", limits__streams=5, snapshots__records=1, name="other")
    restored(given, state, [snapshot])


def test_a_damaged_or_newer_snapshot_stops():
    state, snapshot = snapshot_of(settings())
    broken = StreamSnapshot("p0", snapshot.next, snapshot.header, snapshot.body[:-1])
    with pytest.raises(MismatchError, match="cannot be read"):
        restored(settings(), state, [broken])
    newer = StreamSnapshot("p0", snapshot.next, {**snapshot.header, "format": 99}, snapshot.body)
    with pytest.raises(MismatchError, match="another release wrote it"):
        restored(settings(), state, [newer])
    for damaged in (b"", b"{}", b"[]", orjson.dumps({"format": FORMAT, "shape": 3, "decided_at": 0})):
        with pytest.raises(MismatchError, match="cannot be read"):
            task().restore_partition(damaged)
    with pytest.raises(MismatchError, match="another release wrote it"):
        task().restore_partition(orjson.dumps({"format": 99, "shape": None, "decided_at": 0}))


def test_a_new_version_begins_new_models_and_says_so():
    log = records(points(900).tolist())
    worker = task()
    events = payloads(run(worker, log[:500]).cluster_events)
    assert events
    snapshot, ended = worker.models.snapshot("p0"), worker.models.clusters("p0")
    assert ended
    fresh = task(settings(engine__memory=240))
    fresh.restore(snapshot, new_version=True)
    assert fresh.models.recovery_offset == snapshot.next
    outputs = run(fresh, log[500:])
    started, *later = payloads(outputs.cluster_events)
    assert started == {
        **{"kind": "version_started", "stream": "p0", "version": 2, "level": 1, "seq": events[-1]["seq"] + 1},
        **{"cluster": None, "before": ended, "after": [], "time": payloads(outputs.assignments)[0]["time"]},
        "cause": {"id": None, "source": {"topic": TOPIC, "partition": 0, "offset": log[500].offset}},
    }
    assert [event["seq"] for event in later] == [started["seq"] + 1 + i for i in range(len(later))]
    assert payloads(outputs.assignments)[0]["status"] == "warming_up"
    assert {payload["version"] for payload in payloads(outputs.assignments)} == {2}
    assert all(event["cluster"].startswith("p0/2/") for event in later)
    again = task(settings(engine__memory=240))
    again.restore(snapshot, new_version=True)
    assert run(again, log[500:], 7) == outputs


def test_a_new_version_survives_a_crash_before_its_first_record():
    log = records(points(600).tolist())
    worker = task()
    run(worker, log[:500])
    given = settings(engine__memory=240)
    fresh = task(given)
    fresh.restore(worker.models.snapshot("p0"), new_version=True)
    outputs = run(restored(given, fresh.partition_state(), [fresh.models.snapshot("p0")]), log[500:])
    assert payloads(outputs.cluster_events)[0]["kind"] == "version_started"
    assert outputs == run(fresh, log[500:])
