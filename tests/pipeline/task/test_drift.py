"""Changes of the data through the partition task: events, their numbers, and the state that they follow from."""

from functools import partial

import numpy as np
import orjson
import pytest
from jsonschema import Draft202012Validator
from resonance.pipeline.task.encode import drift_events
from resonance.pipeline.watch.drift_sentences import drift_sentence
from resonance.schemas import load_schema

from tests.night import at_night
from tests.pipeline.streams import alike, named_records, payloads, plain_settings, restored, run, task

NAMES = ["cpu", "latency_ms", "payload_kb"]
CENTRES = np.array([[0.2, 100.0, 4.0], [0.5, 300.0, 9.0], [0.8, 500.0, 30.0]])
SPREADS = np.array([0.02, 10.0, 1.0])


given = partial(plain_settings, input__features=NAMES)


def log_of(n, moved=6.0, change=4_000, keys=0, first=0):
    """Return records of three groups, of which the second takes longer from one record on, by some spreads."""
    rng = np.random.default_rng(1)
    own = rng.integers(3, size=n)
    X = CENTRES[own] + SPREADS * rng.normal(size=(n, 3))
    X[change:, 1] += np.where(own[change:] == 1, moved * SPREADS[1], 0.0)
    log = named_records(X.tolist(), NAMES, first=first)
    log[7::401] = [record._replace(value=b"{}") for record in log[7::401]]
    return [record._replace(key=b"key%d" % (i % keys)) for i, record in enumerate(log)] if keys else log


def drifts(settings, log, size=700):
    return payloads(run(task(settings), log, size).drift_events)


def test_a_change_is_one_event_with_its_cluster_its_feature_and_its_beginning():
    log = log_of(7_000)
    events = drifts(given(), log)
    validator = Draft202012Validator(load_schema("drift_event"))
    for event in events:
        validator.validate(event)
    drift, settled = events
    assert (drift["kind"], drift["seq"], drift["detector"], drift["scope"]) == ("drift", 0, "watch", "cluster")
    assert drift["value"] > drift["threshold"]
    assert 4_000 < drift["cause"]["source"]["offset"] < 4_300
    assert 3_800 < drift["since"]["offset"] <= 4_040
    assert drift["since"]["time"].startswith("2023-11-14T22:13:5")
    (unit,) = drift["units"]
    assert unit["cluster"] == drift["cluster"]
    assert unit["change"][0] == "moved"
    feature = unit["features"][0]
    assert (feature["feature"], feature["change"]) == (drift["feature"], "moved") == ("latency_ms", "moved")
    assert feature["before"] == pytest.approx(300.0, abs=2.0)
    assert feature["after"] == pytest.approx(360.0, abs=8.0)
    assert feature["spread"] == pytest.approx(10.0, rel=0.15)
    assert feature["shift"] == pytest.approx(6.0, rel=0.2)
    assert (settled["kind"], settled["seq"], settled["opened"]) == ("settled", 1, 0)
    assert settled["units"][0]["features"][0]["after"] == pytest.approx(360.0, abs=3.0)
    answered = [a for a in payloads(run(task(given()), log, 700).assignments) if a["cluster"] == drift["cluster"]]
    assert np.mean([orjson.loads(log[a["source"]["offset"]].value or b"")["cpu"] for a in answered]) < 0.6


def test_a_feature_that_is_noisy_on_a_wave_goes_so_far_from_record_to_record():
    rng, n = np.random.default_rng(0), 6_000
    wave = 5.0 * np.sin(2 * np.pi * (np.arange(n)[:, None] / 1_440 + rng.random(3))) + 0.3 * rng.normal(size=(n, 3))
    wave[4_500:, 1] += rng.normal(size=1_500)
    events = drifts(given(), named_records(wave.tolist(), NAMES, gap=60_000))
    Draft202012Validator(load_schema("drift_event")).validate(events[-1])
    (noisy,) = (
        each for event in events for one in event.get("units", ()) for each in one["features"] if "steps" in each
    )
    assert (noisy["feature"], noisy["change"], noisy["steps"]) == ("latency_ms", "widened", True)
    assert 2.5 < noisy["ratio"] < 4.5


def test_a_change_that_goes_back_has_recovered_and_a_steady_stream_is_silent():
    there, back = log_of(7_000, change=4_000), log_of(10_000, change=10_000)
    events = drifts(given(), there[:6_000] + back[6_000:])
    assert [event["kind"] for event in events] == ["drift", "settled", "drift", "recovered"]
    assert events[3]["opened"] == events[2]["seq"] == 2
    assert drifts(given(), log_of(12_000, moved=0.0)) == []


def test_an_event_with_long_names_lists_as_many_units_as_its_topic_takes(monkeypatch):
    monkeypatch.setattr(drift_events, "UNITS_BYTES", 10_000)
    rng, events = np.random.default_rng(1), {}
    X = CENTRES[rng.integers(3, size=3_600)] + SPREADS * rng.normal(size=(3_600, 3))
    X[3_000:] += 8.0 * SPREADS
    for length in (1, 5_000):
        names = [name * length for name in "abc"]
        log = named_records(X.tolist(), names, gap=0)
        message, *_ = run(task(given(input__features=names)), log, 700).drift_events
        events[length] = orjson.loads(message.value or b"")
        assert len(message.value or b"") < 10_000 + 6 * length + 10_000
    assert len(events[1]["units"]) > len(events[5_000]["units"]) == 1
    assert events[5_000]["scope"] == events[1]["scope"] == "stream"


@pytest.mark.parametrize(
    "changes",
    [
        {},
        {"stream": "key"},
        at_night({"engine__name": "caea"}),
        at_night({"prepare__project": 2}),
    ],
)
def test_however_the_log_is_cut_and_wherever_it_is_restored_the_bytes_are_the_same(changes):
    settings = given(**changes, snapshots__records=300)
    log = log_of(6_000, keys=2 if "stream" in changes else 0, first=10)
    _, expected = alike(settings, log, (150, 2_048, 4_101))
    assert payloads(expected.drift_events)


def test_records_that_are_learned_silently_are_watched_and_not_told():
    log = log_of(7_000)
    expected = drifts(given(), log)
    silent = task(given())
    silent.catch_up(log[:4_400])
    silent.announce()
    later = payloads(run(silent, log[4_400:], 500).drift_events)
    assert [event["kind"] for event in later] == ["settled"]
    assert later == expected[1:]


def test_other_settings_of_the_watch_begin_it_anew_and_keep_the_model():
    log = log_of(6_000)
    worker = task(given())
    run(worker, log[:3_900], 500)
    for changes in ({"drift__detect": False}, {"drift__rarity": 1e9}):
        fresh = restored(given(**changes), worker.partition_state(), list(worker.models.states()))
        model = fresh.models.named("p0")
        assert model.engine.state() == worker.models.named("p0").engine.state()
        assert (model.drift is None) if "drift__detect" in changes else model.drift is not None
        # What began 3,900 records in has no baseline before the change.
        assert payloads(run(fresh, log[3_900:], 500).drift_events) == []
    assert payloads(run(worker, log[3_900:], 500).drift_events)


def test_values_are_told_in_the_units_of_the_input_whatever_was_done_to_them():
    log = log_of(6_000, moved=8.0)
    for changes in ({"prepare__log1p": ["latency_ms"]}, {"prepare__scale": "none"}, {"prepare__project": 3}):
        event = drifts(given(**changes), log)[0]
        by_name = {each["feature"]: each for each in event["units"][0]["features"]}
        assert by_name["latency_ms"]["before"] == pytest.approx(300.0, rel=0.1), changes
        assert by_name["latency_ms"]["after"] > 340.0, changes


def test_sparse_records_are_not_watched():
    settings = given(engine__name="sa_art", input__features=None, input__sparse="x")
    assert settings.drift_parameters is None


def event_of(*units, **members):
    since = {"offset": 2_118, "time": "2026-01-05T08:00:10.590Z"}
    common = {"kind": "drift", "stream": "p2", "scope": "cluster", "since": since, "units": [*units]}
    return common | {"cause": {"source": {"offset": 2_613}}, **members}


def unit(cluster, change, *features, share=()):
    own = {"share": dict(zip(("before", "after"), share, strict=True))} if share else {}
    return {"cluster": cluster, "change": change.split(), "features": [*features], **own}


MOVED = {"feature": "latency_ms", "change": "moved", "before": 764.1, "after": 803.0, "spread": 24.4, "shift": 1.6}
WIDER = {"feature": "cpu", "change": "widened", "before": 1.0, "after": 1.0, "spread": 1.0, "shift": 0.0, "ratio": 1.7}
SINCE = ", since about offset 2,118 (08:00:10), seen at 2,613"


@pytest.mark.parametrize(
    ("event", "sentence"),
    [
        (event_of(unit("p2/1/4", "moved", MOVED)), f"p2/1/4 moved: latency_ms 764 -> 803 (+1.6 spreads){SINCE}"),
        (
            event_of(unit("p2/1/4", "moved", MOVED), continues=3),
            f"p2/1/4 goes on moving: latency_ms 764 -> 803 (+1.6 spreads){SINCE}",
        ),
        (event_of(unit(None, "widened", WIDER), scope="stream"), f"p2 widened: cpu varies 1.7 times as much{SINCE}"),
        (
            event_of(unit(None, "widened", WIDER | {"steps": True}), scope="stream"),
            f"p2 widened: cpu jumps 1.7 times as far from record to record{SINCE}",
        ),
        (
            event_of(unit(None, "narrowed", WIDER | {"change": "narrowed", "ratio": 0.0}), scope="stream"),
            f"p2 narrowed: cpu stays at 1{SINCE}",
        ),
        (
            event_of(unit("p2/1/6", "moved more", MOVED, share=(0.13, 0.25)), unit("p2/1/7", "together")),
            "p2 has more of p2/1/6, 13 % -> 25 %, and it moved: latency_ms 764 -> 803 (+1.6 spreads); "
            f"also p2/1/7{SINCE}",
        ),
        (event_of(unit("p0/1/5", "fewer", share=(0.11, 0.001))), f"p0/1/5 has gone silent: 11 % -> 0 %{SINCE}"),
        (
            event_of(
                unit("p2/1/6", "widened more", WIDER, share=(0.13, 0.25)),
                *(unit(cluster, "moved", MOVED) for cluster in ("p2/1/7", None)),
                scope="stream",
            ),
            "p2: 2 of its clusters changed, most p2 has more of p2/1/6, 13 % -> 25 %, and it widened: "
            f"cpu varies 1.7 times as much{SINCE}",
        ),
        (
            event_of(unit("p2/1/4", "moved", MOVED), kind="settled"),
            "p2/1/4 settled: latency_ms 764 -> 803 (+1.6 spreads); the baseline from here on",
        ),
        (event_of(unit("p2/1/4", ""), kind="recovered", opened=7), "p2/1/4 recovered: as before drift event 7 of p2"),
    ],
)
def test_every_event_is_a_sentence(event, sentence):
    assert drift_sentence(event) == sentence


@pytest.mark.parametrize(("day", "since"), [("05", "08:00:10"), ("06", "2026-01-05 08:00:10")])
def test_a_change_that_began_on_another_day_is_dated(day, since):
    event = event_of(unit("a", "together"), time=f"2026-01-{day}T09:00:00Z")
    assert drift_sentence(event).endswith(f"since about offset 2,118 ({since}), seen at 2,613")
