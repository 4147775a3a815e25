"""Alerts of a partition task: where they open and clear, what they say, and that they depend on the log alone."""

import copy
from types import SimpleNamespace
from typing import Any, get_args

import numpy as np
import orjson
import pytest
from jsonschema import Draft202012Validator
from resonance.pipeline.record_columns import RecordColumns
from resonance.pipeline.records import Outputs, Record
from resonance.pipeline.task.alerts import rules as alert_rules
from resonance.pipeline.task.alerts.kernels import stream_rules
from resonance.pipeline.task.alerts.open_alerts import OpenAlerts, StreamAlerts
from resonance.pipeline.task.alerts.rules import DeadLetterShare, drift_transitions
from resonance.pipeline.task.alerts.silent_streams import SilentStreams
from resonance.pipeline.task.decode.record_batch import RecordBatch
from resonance.pipeline.task.model.learn_result import LearnResult
from resonance.pipeline.task.model.stream_drift import WatchedChange
from resonance.pipeline.timestamps import canonical
from resonance.schemas import AlertRule, load_schema

from tests.night import seeds
from tests.pipeline.streams import (
    STAMP,
    TOPIC,
    Held,
    payloads,
    process,
    restored,
    run,
    settings,
    task,
    uneven,
    value_of,
)

CAREFUL: dict[str, Any] = {"engine__landmarks": None, "engine__memory": None, "engine__expire_records": None}
"""The engine's own defaults in place of `FORGETFUL`."""


@pytest.fixture(autouse=True, scope="module")
def _small_window():
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(alert_rules, "DEAD_LETTERS_WINDOW", 100)
        yield


def given(**changed):
    return settings(**{"stream": "key", **CAREFUL, **changed})


def devices(count=5, rounds=650, broken=350, seed=0, factor=12.0, gap=1_000, turns=100):
    """Records of some devices in turn; one breaks and is mended, one sends nothing for a while, some are no use."""
    rng = np.random.default_rng(seed)
    centres = rng.uniform(1.0, 9.0, (count, 3, 3))
    log = []
    for turn in range(rounds):
        for device in rng.permutation(count).tolist():
            offset = len(log) + len(log) // 60
            row = centres[device, rng.integers(3)] * (1.0 + 0.05 * rng.normal(size=3))
            if device == 3 and broken <= turn < broken + turns:
                row = row * factor * np.exp(0.5 * rng.normal(size=3))
            key = b"d%d" % device
            if device == 1 and 200 <= turn < 300:
                key = b"d0"
            value = b"{" if 260 <= turn < 280 else value_of(row.tolist(), id=f"r{offset}")
            log.append(Record(TOPIC, 0, offset, STAMP + gap * turn, key, value))
    return log


LOG = devices()
CUT = next(i for i, record in enumerate(LOG) if record.timestamp == STAMP + 420_000)
"""The third device is broken there, and its alert is open."""


def alerts_of(outputs):
    return [(alert["kind"], alert["rule"], alert["stream"]) for alert in payloads(outputs.alerts)]


@pytest.fixture(scope="module")
def whole():
    return run(task(given()), LOG)


def test_an_alert_that_clears_says_in_how_many_features_its_record_is_as_far():
    _, cleared = (each for each in payloads(run(task(given()), devices(turns=300)).alerts) if each["rule"] == "unlike")
    assert cleared["evidence"]["outside"] == len(cleared["features"]) == 3


def test_what_opens_and_clears(whole):
    assert alerts_of(whole) == [
        ("opened", "silent", "p0:d1"),
        ("opened", "dead_letters", None),
        ("cleared", "dead_letters", None),
        ("cleared", "silent", "p0:d1"),
        ("opened", "unlike", "p0:d3"),
        ("cleared", "unlike", "p0:d3"),
    ]
    silent, dead, _, _, unlike, like = payloads(whole.alerts)
    assert like["evidence"]["outside"] == 0.0
    first = unlike["features"][0]
    assert not first["low"] <= first["value"] <= first["high"]
    assert f"; {first['feature']} {first['value']:.3g}, usually" in unlike["text"]
    assert like["features"] == unlike["features"]
    assert silent["key"] == "resonance/silent/p0:d1/1/0"
    assert silent["text"] == "p0:d1 has had no record for 60 s or more; usually one comes every 1 s"
    assert dead["key"] == "resonance/dead_letters/features[0]/1/0"
    assert dead["text"] == "6 of 100 records of features[0] were dead letters"
    for opened, cleared in zip(payloads(whole.alerts)[4::2], payloads(whole.alerts)[5::2], strict=True):
        assert opened["key"] == cleared["key"]
        assert opened["since"] == opened["time"] == cleared["since"] < cleared["time"]


def test_every_message_keeps_the_schema_is_keyed_by_its_alert_and_numbered_by_its_stream(whole):
    numbers = {}
    validator = Draft202012Validator(load_schema("alert"), format_checker=Draft202012Validator.FORMAT_CHECKER)
    for message, alert in zip(whole.alerts, payloads(whole.alerts), strict=True):
        validator.validate(alert)
        assert message.key == alert["key"].encode()
        assert dict(message.headers)["ce_type"] == b"resonance.alert.v1"
        numbers.setdefault(alert["stream"], []).append(alert["seq"])
    assert numbers == {"p0:d1": [0, 1], None: [0, 1], "p0:d3": [0, 1]}
    assert len({dict(message.headers)["ce_id"] for message in whole.alerts}) == len(whole.alerts)


@pytest.mark.parametrize("first", range(7, len(LOG), 422))
def test_a_restore_at_any_record_goes_on_bit_for_bit(whole, first):
    held = Held(task(given()))
    found = []
    for start in (0, first, first + 150):
        stop = {0: first, first: first + 150}.get(start, len(LOG))
        found += held.task.process(LOG[start:stop]).alerts
        held.read = min(stop, len(LOG))
        # Some of the streams alone, so that a restart reads records again.
        held.write(held.task.models.pending(everything=True)[::2], LOG[held.read - 1].offset + 1)
        held.restore(task(given()), LOG, 64)
    assert found == whole.alerts


def without_cpu(gone=range(1_500, 1_560), often=0.01):
    """Records of three devices in turn, some without a feature; one device lacks it for a while in all of its own."""
    rng = np.random.default_rng(2)
    centres, log = rng.uniform(1.0, 9.0, (3, 3, 3)), []
    for turn in range(1_800):
        for device in range(3):
            row = (centres[device, rng.integers(3)] * (1.0 + 0.05 * rng.normal(size=3))).tolist()
            value = orjson.loads(value_of(row))
            if rng.random() < often or (device == 1 and turn in gone):
                value["cpu"] = None
            log.append(Record(TOPIC, 0, len(log), STAMP + 1_000 * turn, b"d%d" % device, orjson.dumps(value)))
    return log


def test_a_feature_that_is_missing_far_more_often_than_it_was_opens_an_alert_whatever_the_cuts_and_restarts_are():
    log, mean = without_cpu(), given(prepare__missing="mean")
    whole = run(task(mean), log)
    opened, cleared = (each for each in payloads(whole.alerts) if each["rule"] == "missing")
    Draft202012Validator(load_schema("alert")).validate(opened)
    assert (opened["kind"], opened["stream"], opened["feature"], opened["began"]) == (
        "opened", "p0:d1", "cpu", canonical(STAMP + 1_500_000),
    )  # fmt: skip
    assert opened["evidence"]["missing"] == 20
    assert opened["text"].startswith("p0:d1 lacks cpu: ")
    assert (cleared["kind"], cleared["key"], cleared["evidence"]["missing"]) == ("cleared", opened["key"], 60)
    for seed in range(3):
        assert process(task(mean), uneven(log, seed)).alerts == whole.alerts
    first, held = 3 * 1_500 + 7, Held(task(mean))
    found = held.task.process(log[:first]).alerts
    held.read = first
    held.write(held.task.models.pending(everything=True), log[first - 1].offset + 1)
    held.restore(task(mean), log, 64)
    assert found + held.task.process(log[first:]).alerts == whole.alerts
    off = run(task(given(prepare__missing="mean", alerts__off=["missing"])), log)
    others = [alert for alert in payloads(whole.alerts) if alert["rule"] != "missing"]
    assert [(alert["text"], alert["cause"]) for alert in payloads(off.alerts)] == [
        (alert["text"], alert["cause"]) for alert in others
    ]
    assert off.assignments == whole.assignments


def returned(count=5, gone=range(400, 480), rounds=520):
    """Records of some devices in turn; one sends nothing for a while, and is broken when it comes back."""
    rng = np.random.default_rng(3)
    centres = rng.uniform(1.0, 9.0, (count, 3, 3))
    log = []
    for turn in range(rounds):
        for device in range(count):
            if device == 3 and turn in gone:
                continue
            row = centres[device, rng.integers(3)] * (1.0 + 0.05 * rng.normal(size=3))
            if device == 3 and turn >= gone.stop:
                row = row * 12.0 * np.exp(0.5 * rng.normal(size=3))
            log.append(Record(TOPIC, 0, len(log), STAMP + 1_000 * turn, b"d%d" % device, value_of(row.tolist())))
    return log


def test_the_alerts_of_a_stream_are_numbered_in_the_order_of_its_records_whatever_the_cuts_are():
    log = returned()
    whole = run(task(given()), log)
    of_stream = [(alert["rule"], alert["kind"], alert["seq"]) for alert in payloads(whole.alerts)]
    assert of_stream == [("silent", "opened", 0), ("silent", "cleared", 1), ("unlike", "opened", 2)]
    for seed in range(3):
        assert process(task(given()), uneven(log, seed)).alerts == whole.alerts


def test_a_silence_that_is_in_no_snapshot_is_noticed_again_after_a_restart():
    log = returned()
    back = next(i for i in range(2_000, len(log)) if log[i].key == b"d3")
    opened = next(alert for alert in payloads(run(task(given()), log).alerts) if alert["kind"] == "opened")
    first = opened["cause"]["source"]["offset"] - 10
    held, whole = Held(task(given())), task(given())
    held.task.process(log[:first])
    held.write(held.task.models.pending(everything=True), first)
    # The silence begins and ends in one batch, and the others have a snapshot behind it.
    held.task.process(log[first : back + 3])
    held.write([name for name in held.task.models.names if name != "p0:d3"], back + 3)
    held.read = back + 3
    held.restore(task(given()), log)
    whole.process(log[: back + 3])
    assert held.task.models.named("p0:d3").state() == whole.models.named("p0:d3").state()


def go_on(held, count, **changed):
    """Let a task go on behind the first records of the log, with settings that may have changed."""
    held.read = count
    held.write(held.task.models.pending(everything=True), LOG[count - 1].offset + 1)
    held.restore(task(given(**changed)), LOG)


def switched_off():
    """A task that goes on without the rule `unlike` while an alert of it is open."""
    held = Held(task(given()))
    held.task.process(LOG[:CUT])
    go_on(held, CUT, alerts__off=("unlike",))
    return held


def test_what_is_owed_comes_with_the_next_record_even_if_that_is_of_no_use():
    held = switched_off()
    spoiled = [record._replace(value=b"{") for record in LOG[CUT : CUT + 3]]
    cleared, *others = payloads(held.task.process(spoiled).alerts)
    assert (cleared["kind"], cleared["rule"], others) == ("cleared", "unlike", [])
    assert cleared["cause"] == {"id": None, "source": {"topic": TOPIC, "partition": 0, "offset": LOG[CUT].offset}}


def test_records_learned_silently_raise_nothing_and_what_is_open_then_is_emitted():
    worker = task(given())
    worker.catch_up(LOG[:CUT])
    worker.announce()
    assert (worker.health.open_alerts["unlike"], worker.health.alerts) == (1, {})
    outputs = worker.process(LOG[CUT:])
    assert worker.health.alerts == {"unlike": 1}
    assert alerts_of(outputs) == [("opened", "unlike", "p0:d3"), ("cleared", "unlike", "p0:d3")]
    opened, cleared = payloads(outputs.alerts)
    assert opened["cause"]["source"]["offset"] == LOG[CUT].offset
    assert opened["since"] < opened["time"]
    assert (opened["seq"], cleared["seq"]) == (1, 2)
    # A restart behind that record does not emit it again.
    held = Held(task(given()))
    held.task.catch_up(LOG[:CUT])
    held.task.announce()
    held.task.process(LOG[CUT : CUT + 5])
    go_on(held, CUT + 5)
    assert alerts_of(held.task.process(LOG[CUT + 5 :])) == [("cleared", "unlike", "p0:d3")]


def test_a_new_version_clears_what_was_open_though_its_stream_has_no_record_any_more():
    rest = [record for record in LOG[CUT:] if record.key != b"d3"]
    worker = task(given())
    worker.process(LOG[:CUT])
    snapshots, state = list(worker.models.states()), worker.partition_state()
    found = []
    for size in (1, len(rest)):
        fresh = task(given(engine__memory=5001))
        fresh.restore_partition(state)
        for snapshot in snapshots:
            fresh.restore(snapshot, new_version=True)
        found.append(run(fresh, rest, size).alerts)
        cleared, *_ = payloads(found[-1])
        assert (cleared["kind"], cleared["rule"], cleared["stream"]) == ("cleared", "unlike", "p0:d3")
        assert (cleared["version"], cleared["evidence"]) == (1, {"ended": 1.0})
        assert cleared["cause"]["source"]["offset"] == rest[0].offset
        # The stream's next snapshot no longer has it open.
        assert "p0:d3" in fresh.models.pending(everything=True)
    assert found[0] == found[1]


OFF: dict[str, Any] = {"alerts__off": get_args(AlertRule)}


def test_without_rules_there_are_no_alerts_and_no_state():
    worker = task(given(**OFF))
    assert run(worker, LOG[:500]).alerts == []
    assert worker.models.named("p0:d1").alerts is None
    assert "alerts" not in orjson.loads(worker.partition_state())


def test_where_every_rule_is_switched_off_nothing_is_written_and_the_numbers_go_on():
    held, seconds = Held(task(given())), LOG[CUT].timestamp
    assert held.task.process(LOG[:CUT]).alerts
    go_on(held, CUT, **OFF)
    assert not held.task.process(LOG[CUT : CUT + 40]).alerts
    assert (held.task.open_alerts, held.task.health.open_alerts["unlike"]) == (set(), 0)
    go_on(held, CUT + 40)
    again = devices(rounds=900, broken=700, seed=1)
    later = [one._replace(offset=one.offset + 10_000, timestamp=one.timestamp + seconds) for one in again]
    opened = next(one for one in payloads(run(held.task, later).alerts) if one["stream"] == "p0:d3")
    assert (opened["kind"], opened["seq"]) == ("opened", 2)
    assert opened["key"].endswith("/p0:d3/1/1")


def test_a_rule_that_was_switched_off_after_a_crash_clears_its_alert():
    held = Held(task(given()))
    held.task.process(LOG[:CUT])
    held.write(held.task.models.pending(everything=True), LOG[CUT - 1].offset + 1)
    # Committed without snapshots: the new start learns these records again in silence.
    held.task.process(LOG[CUT : CUT + 20])
    held.read = CUT + 20
    held.restore(task(given(alerts__off=("unlike",))), LOG)
    cleared, *others = payloads(held.task.process(LOG[CUT + 20 :]).alerts)
    assert (cleared["kind"], cleared["rule"], others) == ("cleared", "unlike", [])
    assert cleared["cause"]["source"]["offset"] == LOG[CUT + 20].offset


def test_a_rule_that_was_off_for_a_while_knows_nothing_of_the_time_before():
    held = Held(task(given()))
    held.task.process(LOG[:1_900])
    go_on(held, 1_900, alerts__off=("silent", "unlike"))
    held.task.process(LOG[1_900:2_900])
    go_on(held, 2_900)
    # For the records that were learned without the rule no stream was silent.
    assert alerts_of(held.task.process(LOG[2_900:])) == []


def test_young_clusters_open_nothing_where_the_rule_on_them_was_switched_off():
    held = Held(task(given()))
    held.task.process(LOG[:900])
    alerts = held.task.models.named("p0:d2").alerts
    alerts.integers[stream_rules.YOUNG : stream_rules.YOUNG + 4] = 0, 10, 0, 0
    go_on(held, 900, alerts__off=("new_cluster",))
    assert "new_cluster" not in {rule for _, rule, _ in alerts_of(held.task.process(LOG[900:]))}


@pytest.mark.parametrize("changes", [{"drift__rarity": 1e9}, {"drift__detect": False}])
def test_the_alerts_of_a_drift_clear_where_the_watch_begins_anew(changes):
    held, rng = Held(task(given(stream="partition"))), np.random.default_rng(1)
    rows = 5.0 + rng.normal(size=(2_400, 3))
    rows[1_800:] += 2.5
    log = [Record(TOPIC, 0, i, STAMP + 1_000 * i, None, value_of(row)) for i, row in enumerate(rows.tolist())]
    opened = [alert for alert in alerts_of(held.task.process(log[:2_000])) if alert[1] == "drift_open"]
    assert opened == [("opened", "drift_open", "p0")]
    held.read = 2_000
    held.write(held.task.models.pending(everything=True), 2_000)
    same = Held(held.task)
    same.read, same.snapshots, same.state, same.recovery_offset = 2_000, held.snapshots, held.state, 2_000
    same.restore(task(given(stream="partition")), log)
    held.restore(task(given(stream="partition", **changes)), log)
    assert "drift_open" not in {rule for _, rule, _ in alerts_of(same.task.process(log[2_000:2_010]))}
    found = payloads(held.task.process(log[2_000:2_010]).alerts)
    cleared = [one for one in found if one["rule"] == "drift_open"]
    assert [(one["kind"], one["cause"]["source"]["offset"]) for one in cleared] == [("cleared", 2_000)]


def test_a_record_that_is_too_long_for_the_outputs_is_no_record_of_its_stream():
    records = [Record(TOPIC, 0, i, STAMP + i, b"a", b"{}") for i in range(3)]
    batch = RecordBatch(None, [canonical(one.timestamp) for one in records], [2] * 3, index=[0, 1, 2])
    batch.place(RecordColumns.of(records))
    silent, alerts = SilentStreams(20.0, 60.0, (TOPIC, 0)), StreamAlerts()
    silent.begin(b"a", "p0:a", alerts)
    batch.clocks = batch.own_times = [STAMP, STAMP + 1, STAMP + 2]
    assert silent.follow(batch, [2]) == []
    assert alerts.state()["gaps"]["count"] == 2


def test_streams_that_fall_silent_with_the_same_record_come_by_name():
    log, names = [], [b"b", b"c", b"a", b"clock"]
    for turn in range(200):
        for name in names if turn < 60 else names[3:]:
            log.append(Record(TOPIC, 0, len(log), STAMP + 10_000 * turn, name, value_of([1.0, float(turn % 7), 2.0])))
    opened = alerts_of(task(given()).process(log))
    assert opened == [("opened", "silent", f"p0:{name}") for name in "abc"]


def test_a_new_cluster_that_takes_many_records_is_named():
    rng = np.random.default_rng(1)
    centres = rng.uniform(1.0, 9.0, (5, 3))
    log = []
    for i in range(3_000):
        is_new = i >= 2_000 and rng.random() < 0.3
        row = centres[4 if is_new else rng.integers(4)] * (1.0 + 0.03 * rng.normal(size=3))
        log.append(Record(TOPIC, 0, i, STAMP + 1_000 * i, None, value_of(row.tolist())))
    whole = run(task(given(stream="partition")), log)
    opened = [alert for alert in payloads(whole.alerts) if alert["rule"] == "new_cluster"]
    emerged = [event["cluster"] for event in payloads(whole.cluster_events) if event["kind"] == "emerged"]
    assert [(alert["kind"], alert["cluster"]) for alert in opened] == [("opened", emerged[-1])]
    assert 2_000 < opened[0]["cause"]["source"]["offset"] < 2_400
    assert process(task(given(stream="partition")), uneven(log, 3)).alerts == whole.alerts


@pytest.mark.slow
@pytest.mark.parametrize("seed", seeds(1, night=5))
def test_one_of_forty_devices_breaks_and_no_other_has_an_alert(seed):
    rng = np.random.default_rng(seed)
    centres, broken = rng.uniform(10.0, 100.0, (40, 3, 3)), int(rng.integers(40))

    def turns(rng, first, last, factor=None):
        log = []
        for place in range(40 * first, 40 * last, 40):
            for offset, device in enumerate(rng.permutation(40).tolist(), place):
                row = centres[device, rng.integers(3)] * (1.0 + 0.05 * rng.normal(size=3))
                if device == broken and factor is not None:
                    row = row * factor * np.exp(0.5 * rng.normal(size=3))
                log.append(Record(TOPIC, 0, offset, STAMP + offset, b"d%d" % device, value_of(row.tolist())))
        return log

    own = given(engine__min_cluster_records=None, prepare__warmup_records=None)
    healthy = task(own)
    assert run(healthy, turns(rng, 0, 1_000), 2_000).alerts == []
    state, snapshots = healthy.partition_state(), list(healthy.models.states())
    for factor in (12.0, 0.15):
        outputs = run(restored(own, state, snapshots), turns(copy.deepcopy(rng), 1_000, 1_100, factor), 2_000)
        opened = [alert for alert in payloads(outputs.alerts) if alert["kind"] == "opened"]
        assert {alert["stream"] for alert in opened} == {f"p0:d{broken}"}
        assert {"unlike"} <= {alert["rule"] for alert in opened} <= {"unlike", "drift_open"}


def change(kind, *units):
    names = ("unit", "cluster", "share", "share_before", "share_after")
    return SimpleNamespace(kind=kind, units=[SimpleNamespace(**dict(zip(names, own, strict=True))) for own in units])


DRIFT = change("drift", (0, -1, False, 1, 1), (1, 2, True, 0.1, 0.2), (2, 3, True, 0.1, 0.01), (3, 4, True, 0.1, 0.15))


@pytest.mark.parametrize("cuts", [(50,), (11, 30, 50), tuple(range(1, 51))])
def test_a_drift_opens_alerts_and_its_end_clears_them_whatever_the_cuts_are(cuts):
    worker = task(given(stream="partition"))
    worker.process([record for record in LOG[:400] if record.value != b"{"])
    model = worker.models.named("p0")
    log = RecordColumns.of([record._replace(offset=10_000 + i) for i, record in enumerate(LOG[:50])])
    drift, outputs = {10: DRIFT, 29: change("settled"), 40: DRIFT, 45: change("recovered")}, Outputs()
    start = 0
    for stop in cuts:
        batch = worker._features.decode(log[start:stop])
        own = LearnResult(
            drift=[(at - start, WatchedChange(each, 0)) for at, each in drift.items() if start <= at < stop]
        )
        texts, alerts = worker._learner.texts_of(model), worker._alerts
        assert alerts is not None
        alerts.learned(model, batch, range(stop - start), own, texts)
        alerts.end(log[start:stop], batch, outputs)
        start = stop
    messages = payloads(outputs.sort().alerts)
    rules = [("drift_open", None), ("share", "p0/1/2"), ("share", "p0/1/3")]
    found = [(one["cause"]["source"]["offset"], one["kind"], one["rule"], one.get("cluster")) for one in messages]
    assert found == [
        (10_000 + at, kind, *rule)
        for at, kind in ((10, "opened"), (29, "cleared"), (40, "opened"), (45, "cleared"))
        for rule in rules
    ]
    assert messages[1]["text"] == "p0/1/2 has another share of its stream: it went from 10 % to 20 %"


def test_the_rules_on_drift_are_switched_one_by_one():
    for share, drift_open in ((True, False), (False, True)):
        on = {"share": share, "drift_open": drift_open}
        found = drift_transitions(OpenAlerts(), DRIFT, str, [rule for rule, wanted in on.items() if wanted])
        assert {one.rule for one in found} == ({"share"} if share else {"drift_open"})


def test_dead_letters_open_beyond_the_share_and_clear_at_half_of_it():
    records = np.arange(400)
    dead = [*range(100, 130, 2), *range(300, 306)]
    whole = DeadLetterShare(100, 0.1).take(records, dead)
    assert whole == [(120, True, 11), (218, False, 5)]
    share = DeadLetterShare(100, 0.1)
    found = []
    for start in range(0, 400, 7):
        part = records[start : start + 7]
        found += [
            (start + at, *rest) for at, *rest in share.take(part, [d - start for d in dead if 0 <= d - start < 7])
        ]
        fresh = DeadLetterShare(100, 0.1)
        fresh.restore(orjson.loads(orjson.dumps(share.state())))
        assert fresh.take(part, []) == []
        share = fresh
    assert found == whole


def test_an_open_share_of_dead_letters_clears_in_a_smaller_window_without_any():
    records = np.arange(400)
    wide, narrow = DeadLetterShare(100, 0.1), DeadLetterShare(20, 0.1)
    assert wide.take(records[:150], range(100, 115)) == [(110, True, 11)]
    narrow.restore(wide.state())
    assert narrow.take(records[150:160], []) == [(0, False, 0)]
