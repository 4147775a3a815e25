"""Alerts of a partition task: where they open and clear, what they say, and that they depend on the log alone."""

import copy

import numpy as np
import orjson
import pytest
from jsonschema import Draft202012Validator
from resonance.pipeline.record_columns import RecordColumns
from resonance.pipeline.records import Outputs, Record
from resonance.pipeline.task.alerts.kernels import silence
from resonance.pipeline.task.alerts.open_alerts import StreamAlerts
from resonance.pipeline.task.alerts.silent_streams import SilentStreams
from resonance.pipeline.task.decode.record_batch import RecordBatch
from resonance.pipeline.task.model.learn_result import LearnResult
from resonance.pipeline.task.model.stream_drift import WatchedChange
from resonance.pipeline.timestamps import canonical
from resonance.schemas import load_schema

from tests.night import seeds
from tests.pipeline.streams import STAMP, TOPIC, Held, payloads, process, restored, run, task, uneven, value_of
from tests.pipeline.task.alerts.devices import DRIFT, LOG, alerts_of, change, devices, given


@pytest.fixture(scope="module")
def whole():
    return run(task(given()), LOG)


def test_an_alert_that_clears_says_in_how_many_features_its_record_is_as_far():
    _, cleared = (each for each in payloads(run(task(given()), devices(turns=300)).alerts) if each["rule"] == "unlike")
    assert cleared["evidence"]["outside"] == len(cleared["features"]) == 3


@pytest.mark.parametrize("share", [0.002, 1e6])
def test_an_alert_has_the_values_of_its_record_also_far_outside_and_between_the_steps_of_others(share):
    whole, rows = devices(turns=300, broken=1_000), {}
    for i, record in enumerate(whole):
        if record.value != b"{":
            content = orjson.loads(record.value)
            factor = share if record.key == b"d3" and record.timestamp >= STAMP + 350_000 else 1.0
            row = [
                factor * round(100.0 * each) for each in (content["cpu"], content["latency_ms"], content["net"]["in"])
            ]
            whole[i] = record._replace(value=value_of(row, id=content["id"]))
            rows[record.offset] = dict(zip(("cpu", "latency_ms", "net.in"), row, strict=True))
    unlike = next(each for each in payloads(run(task(given()), whole).alerts) if each["rule"] == "unlike")
    own = rows[unlike["cause"]["source"]["offset"]]
    assert [each["value"] for each in unlike["features"]] == [own[each["feature"]] for each in unlike["features"]]


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


def test_a_record_that_is_too_long_for_the_outputs_is_no_record_of_its_stream():
    records = [Record(TOPIC, 0, i, STAMP + i, b"a", b"{}") for i in range(3)]
    batch = RecordBatch(None, [canonical(one.timestamp) for one in records], [2] * 3, index=[0, 1, 2])
    batch.place(RecordColumns.of(records))
    silent, alerts = SilentStreams(20.0, 60.0, (TOPIC, 0)), StreamAlerts()
    silent.begin(b"a", "p0:a", alerts)
    batch.clocks = batch.own_times = [STAMP, STAMP + 1, STAMP + 2]
    assert silent.follow(batch, [2]) == []
    state = alerts.state()
    assert state["gaps"]["count"] == 2
    for later in ({"pause", "began"}, {"pause", "began", "claim"}):
        # States of before have less.
        gaps = {name: value for name, value in state["gaps"].items() if name not in later}
        again, old = SilentStreams(20.0, 60.0, (TOPIC, 0)), StreamAlerts.from_state({**state, "gaps": gaps})
        again.restored(b"a", "p0:a", old)
        assert old.state() == {
            **state,
            "gaps": {**state["gaps"], "pause": silence.LONGEST_MS, "began": state["gaps"]["time"]},
        }


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
