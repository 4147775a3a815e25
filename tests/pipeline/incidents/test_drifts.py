"""What a drift says of its features: a new place, noise, a stuck sensor, or a way to and fro."""

import pytest

from tests.pipeline.incidents.outputs import (
    BROKE,
    WORK,
    again,
    alert,
    apart,
    changed,
    drift,
    emerged,
    incidents,
    named,
    output,
)


def test_of_true_and_false_one_is_named():
    shares = {"open=false": (0.99, 0.7), "open=true": (0.01, 0.3), "mode=b": (0.2, 0.5), "mode=a": (0.6, 0.2)}
    (found,) = incidents(drift("p0:d0", 700, **shares))
    assert [each["feature"] for each in found["features"]] == ["mode=a", "mode=b", "open=false"]


@pytest.mark.parametrize("emerges", [20, 400])
def test_a_rare_count_that_moved_by_next_to_nothing_beside_what_its_stream_had_is_not_said(emerges):
    """In a cluster where it is nearly always 0 its mean and its spread are rounding, and the move is 130 of them."""
    first = emerged("p1:d1", emerges, 0, denied=0.5, load=20.0, errors=0.1)
    first[1]["after"][0]["spread"] = {"denied": 0.6, "load": 5.0, "errors": 0.3}
    moved = drift("p1:d1", 310, denied=(-1.8e-06, 0.00034), errors=(-1e-5, 24.0), load=(20.0, 24.0))
    for each, shift in zip(moved[1]["units"][0]["features"], (130.0, 79.0, 0.8), strict=True):
        each["shift"] = shift
    (found,) = incidents(first, moved)
    shown = {each["feature"]: each["usual"] for each in found["features"]}
    if emerges < 310:
        assert shown == {"errors": 0.0, "load": 20.0}
        assert found["text"].endswith("errors 24, usually 0, load 24, usually 20")
    else:  # What came later does not say what it had been.
        assert [*shown] == ["denied", "errors", "load"]
    alone = drift("p1:d1", 310, denied=(0.001, 0.002))
    assert incidents(first, alone)[0]["features"][0]["feature"] == "denied"


def test_features_are_ranked_by_spreads_that_are_no_finer_than_what_a_stream_had():
    first = emerged("p1:d1", 20, 0, load=20.0, errors=0.1)
    first[1]["after"][0]["spread"] = {"errors": 2.0, "load": 5.0}
    moved = drift("p1:d1", 310, errors=(0.0, 0.5), load=(20.0, 80.0))
    for each, spreads in zip(moved[1]["units"][0]["features"], (500.0, 12.0), strict=True):
        each["shift"] = spreads
    (found,) = incidents(first, moved)
    assert [each["feature"] for each in found["features"]] == ["load", "errors"]


def test_a_share_that_changed_is_one_incident_with_its_drift_and_says_which():
    drifted = drift("p1:d1", 310)
    share = {"before": 0.05, "after": 0.14}
    drifted[1]["units"] = [{"cluster": "p1:d1/1/4", "change": ["more"], "features": [], "share": share}]
    of_share = alert("p1:d1", 310, "share", severity="warning", before=0.05, after=0.14)
    of_share[1]["cluster"] = "p1:d1/1/4"
    (found,) = incidents(of_share, drifted)
    assert found["text"] == "p1:d1: p1:d1/1/4 has 14 % of the records, 5 % before, since 2026-05-06 05:05:00"


def test_a_new_cluster_belongs_to_the_drift_that_has_not_settled():
    later = alert("p1:d1", 900, "new_cluster", severity="info")
    (found,) = incidents(*BROKE, later)
    assert (found["kind"], found["signs"]) == ("broke", 3)
    assert len(incidents(BROKE[0], later)) == 2


def test_a_drift_that_goes_on_is_of_what_an_alert_says_has_begun():
    later = drift("p1:d1", 910, seq=2, heat=(38.0, 60.0))
    later[1]["continues"] = 0
    broke = named(again(alert("p1:d1", 906)), load=(50.0, 5.0))
    found, first = incidents(*BROKE, broke, later)
    assert (found["alerts"], found["drifts"], first["drifts"]) == (1 * [found["key"]], 1, 1)


def test_a_drift_that_goes_on_is_the_same_incident_however_late_it_does():
    later = drift("p1:d1", 900, seq=2, heat=(38.0, 60.0))
    later[1]["continues"] = 0
    (found,) = incidents(drift("p1:d1", 310, heat=(6.2, 38.0)), later)
    assert found["features"] == [{"feature": "heat", "value": 60.0, "usual": 6.2}]


def test_drifts_that_end_where_the_stream_has_been_are_one_incident_and_a_new_place_is_another():
    wave = [
        drift("p1:d1", 240 + 300 * i, seq=i, heat=(20.0, 60.0) if i % 2 == 0 else (60.0, 22.0 - i), load=(5.0, 6.0))
        for i in range(4)
    ]
    (found,) = incidents(*wave)
    assert found["text"].startswith(
        "p1:d1: goes to and fro since 2026-05-06 03:55:00, 4 drifts, last 2026-05-06 18:55: "
    )
    assert "heat 19 to 60, load 5 to 6" in found["text"]
    for _, payload in wave:
        for each in (payload, payload["since"]):
            each["time"] = "1970-01-01T00:00:00.000Z"
    assert "4 drifts: heat" in incidents(*wave)[-1]["text"]
    beyond = drift("p1:d1", 1_300, seq=9, heat=(20.0, 95.0), load=(5.0, 30.0))
    assert [each["text"][7:20] for each in incidents(*wave, beyond)] == ["drifted since", "goes to and f"]


def test_a_feature_that_only_varies_more_is_named():
    made = drift("p1:d1", 310, heat=(6.2, 6.3))
    made[1]["units"][0]["features"][0] |= {"change": "widened", "ratio": 3.0}
    (found,) = incidents(made)
    assert found["text"] == "p1:d1: drifted since 2026-05-06 05:05:00, heat varies 3 times as much"


@pytest.mark.parametrize(("before", "count"), [(0.0, 0), (0.2, 1)])
def test_a_rare_count_that_has_not_come_for_a_while_is_not_stuck(before, count):
    made = drift("p1:d1", 310, errors=(before, 0.0, 0.0))
    made[1]["units"][0]["features"][0]["change"] = "narrowed"
    assert len(incidents(made)) == count


@pytest.mark.parametrize(("shift", "ratio", "said"), [
    (0.4, 6.8, "broke 2026-05-06 04:56:00, heat varies 6.8 times as much"),
    (0.4, 2.4, "at a new level since 2026-05-06 04:56:00, heat 8, usually 6.2"),
    (3.4, 6.8, "at a new level since 2026-05-06 04:56:00, heat 6.5, usually 6.2"),
    (0.4, 6.9, "broke 2026-05-06 04:56:00, heat jumps 6.9 times as far from record to record"),
    (2.9, 0.05, "broke 2026-05-06 04:56:00, heat stays at 6.5, usually varies around 6.2"),
    (9.4, 0.05, "broke 2026-05-06 04:56:00, heat stays at 6.5, usually varies around 6.2"),
    # It varies as much less as it has become smaller.
    (-9.4, 0.05, "at a new level since 2026-05-06 04:56:00, heat 0.3, usually 6.2"),
])  # fmt: skip
def test_noise_and_a_stuck_sensor_are_no_new_level(shift, ratio, said):
    started = drift("p1:d1", 310, heat=(6.2, 8.0, 2.5))
    kind = "moved" if abs(shift) > 0.5 else "widened"
    units = changed("heat", kind, shift=shift, ratio=ratio, steps=ratio == 6.9, after=6.5 if shift > 0 else 0.3)
    settled = output("drift_events", "p1:d1", 800, kind="settled", opened=0, seq=1, units=units)
    shown = named(alert("p1:d1", 300), heat=(8.0, 6.2)), alert("p1:d1", 500, kind="cleared")
    (found,) = incidents(*shown, started, settled)
    assert found["text"] == f"p1:d1: {said}; alone among 4 streams"


def test_a_feature_that_is_stuck_at_0_stays_at_0_though_its_mean_is_rounded():
    started = drift("p1:d1", 310)
    started[1]["units"] = changed("volt", "narrowed", before=398.6, after=0.0185, shift=-144.3, ratio=0.0)
    (found,) = incidents(started)
    assert found["text"].endswith(", volt stays at 0, usually varies around 399")
    assert found["features"] == [{"feature": "volt", "value": 0.0, "usual": 398.6, "ratio": 0.0}]


@pytest.mark.parametrize(
    ("before", "after", "said"),
    [
        # Meals of 50 kg, whose mean of logarithms is next to nothing, and a belt of which the last value was spread.
        (1.99e-4, -8.9e-7, "meal stays at 0, usually varies"),
        (12.0, 1.07e-6, "meal stays at 0, usually varies around 12"),
        (1.98, 8.5e-4, "meal stays at 0, usually varies around 1.98"),
        (1.98, 0.01, "meal stays at 0.01, usually varies around 1.98"),
    ],
)
def test_a_mean_that_is_dust_beside_what_its_stream_has_had_is_0(before, after, said):
    started = drift("p1:d1", 310)
    started[1]["units"] = changed("meal", "narrowed", before=before, after=after, shift=-0.14, ratio=0.0)
    (found,) = incidents(emerged("p1:d1", 20, 0, spread=1.6, meal=13.9), started)
    assert found["text"].endswith(f", {said}")
    if before < 1.0:
        # Of a stream that has only had small values these are some, and what came later says nothing of it.
        (found,) = incidents(emerged("p1:d1", 20, 0, meal=0.001), started, emerged("p1:d1", 900, 1, meal=13.9))
        assert "0.000199" in found["text"]


@pytest.mark.parametrize(
    ("widened", "moved", "said"),
    [
        # The noise of a belt has grown, and the mean of its hours until the baseline was taken is another one.
        ({"ratio": 1.9}, {"after": 6.4, "shift": 0.55, "ratio": 3.8}, "heat varies 3.8 times as much"),
        ({"ratio": 5.1, "steps": True}, {"after": 6.7, "shift": 2.1, "ratio": 2.9},
         "heat jumps 5.1 times as far from record to record"),
        ({"ratio": 1.9}, {"after": 9.2, "shift": 3.0, "ratio": 1.9}, "heat 9.2, usually 6.2"),
    ],
)  # fmt: skip
@pytest.mark.parametrize("is_end", [True, False])
def test_what_varies_otherwise_more_clearly_than_it_moved_is_said_to_vary(widened, moved, said, is_end):
    started = drift("p1:d1", 310)
    stream, cluster = changed("heat", "widened", shift=0.0, **widened), changed("heat", "moved", **moved)
    cluster[0]["cluster"] = "p1:d1/1/1"
    started[1]["units"] = stream if is_end else [*stream, *cluster]
    settled = output("drift_events", "p1:d1", 800, kind="settled", opened=0, seq=1, units=cluster)
    (found,) = incidents(started, settled)
    assert found["text"] == f"p1:d1: drifted since 2026-05-06 05:05:00, {said}"


def test_what_a_wave_has_done_until_noise_was_usual_is_no_part_of_it():
    started = drift("p1:d1", 310, heat=(6.2, 6.3))
    started[1]["units"] = changed("heat", "widened", shift=0.1, ratio=2.8)
    units = changed("load", "moved", shift=4.0, ratio=0.5)
    units[0]["features"] += changed("heat", "moved", shift=1.2, ratio=2.9)[0]["features"]
    settled = output("drift_events", "p1:d1", 800, kind="settled", opened=0, seq=1, units=units)
    (found,) = incidents(started, settled)
    assert found["text"] == "p1:d1: drifted since 2026-05-06 05:05:00, heat varies 2.8 times as much"


def test_a_feature_that_leaves_all_its_places_is_no_part_of_the_rhythm_that_its_end_names():
    places = [(10.0, 40.0), (40.0, 10.0)]
    days = [
        drift("p1:d1", 100 + 250 * n, seq=n, load=places[n % 2], heat=places[n % 2], errors=(0.1 * (n % 2), 0.1))
        for n in range(4)
    ]
    fault = drift("p1:d1", 1_200, seq=4, errors=(0.1, 9.0))
    units = changed("load", "moved", before=40.0, after=12.0, shift=-2.0, ratio=1.0)
    units[0]["features"] += changed("heat", "moved", before=40.0, after=12.0, shift=-2.0, ratio=1.0)[0]["features"]
    settled = output("drift_events", "p1:d1", 1_300, kind="settled", opened=4, seq=5, units=units)
    newest, rhythm = incidents(*days, fault, settled)
    assert newest["features"][0] == {"feature": "errors", "value": 9.0, "usual": 0.1}
    assert "goes to and fro" in rhythm["text"]


def test_a_drift_and_its_end_are_compared_by_what_a_cluster_was():
    started, other = (
        {
            **changed("heat", "moved", before=at, after=at + 9, shift=9.0, ratio=1.0)[0],
            "cluster": "p1:d1/1/9",
            "was": was,
        }
        for at, was in ((6.0, "p1:d1/1/8"), (60.0, "p1:d1/1/2"))
    )
    drifted = drift("p1:d1", 310, heat=(6.0, 15.0))
    drifted[1]["units"] = [started]
    settled = output("drift_events", "p1:d1", 800, kind="settled", opened=0, seq=1, units=[started, other])
    (found,) = incidents(drifted, settled)
    assert found["features"] == [{"feature": "heat", "value": 15.0, "usual": 6.0}]


def test_a_feature_that_stays_where_it_usually_was_in_the_middle_says_so_once():
    stuck = drift("p1:d1", 310, load=(6.2, 9.0))
    own = changed("heat", "narrowed", before=5.311, after=5.309, shift=0.0, ratio=0.0)[0]
    stuck[1]["units"][0]["features"] += own["features"]
    assert "heat stays at 5.31, usually varies, load 9" in incidents(stuck)[0]["text"]


def test_a_stuck_sensor_is_apart_from_the_wave_before():
    wave = [drift("p1:d1", 240 + 300 * at, seq=at, heat=((6.2, 9.0), (9.0, 6.2))[at % 2]) for at in range(4)]
    wave[3][1]["units"][0]["features"] += changed("load", "narrowed", shift=0.0, ratio=0.002)[0]["features"]
    stuck, before = incidents(*wave)
    assert "load stays at 6.5" in stuck["text"]
    assert "3 drifts" in before["text"]


@pytest.mark.parametrize(("value", "count"), [(6.5, 1), (9.0, 2)])
def test_where_a_sensor_is_stuck_is_no_news_at_night(value, count):
    stuck = drift("p1:d1", 300)
    stuck[1]["units"] = changed("heat", "narrowed", shift=0.3, ratio=0.002)
    found = incidents(stuck, named(alert("p1:d1", 700), heat=(value, 0.1)))
    assert (len(found), "heat stays at 6.5, usually varies around 6.2" in found[-1]["text"]) == (count, True)


@pytest.mark.parametrize(("after", "said"), [(175.0, "load 175, usually 6.2"), (6.5, "load varies 2.6 times as much")])
def test_what_varied_more_and_has_moved_far_at_the_end_has_moved(after, said):
    """By a factor a skewed feature varies more, too, and its mean is not known for long."""
    made = drift("p1:d1", 310)
    made[1]["units"] = changed("load", "widened", shift=0.3, ratio=2.6)
    units = changed("load", "moved", after=after, shift=after - 6.2, ratio=2.4)
    settled = output("drift_events", "p1:d1", 800, kind="settled", opened=0, seq=1, units=units)
    assert said in incidents(made, settled)[0]["text"]


def test_what_is_next_to_nothing_beside_what_was_or_is_there_is_zero():
    (found,) = incidents(drift("p1:d1", 310, rpm=(1.4e-14, 92.0), fuel=(80.0, 1.5e-6), noise=(80.0, 1.5e-3)))
    assert {each["feature"]: (each["value"], each["usual"]) for each in found["features"]} == {
        "rpm": (92.0, 0.0), "fuel": (0.0, 80.0), "noise": (1.5e-3, 80.0),
    }  # fmt: skip
    waves = [drift("p1:d1", 240 + 300 * at, seq=at, rpm=((1e-9, 9.0), (9.0, 1e-9))[at % 2]) for at in range(4)]
    assert "rpm 0 to 9" in incidents(*waves)[0]["text"]


@pytest.mark.parametrize(("temp", "count"), [((67.6, 71.3), 1), ((71.3, 46.0), 2)])
def test_a_drift_within_what_a_stream_has_become_is_of_its_incident_and_a_way_back_is_another(temp, count):
    new = alert("p1:d1", 340, "new_cluster", severity="info", share=1.0)
    broke = named(alert("p1:d1", 300), vib=(5.0, 1.0), temp=(70.0, 45.0))
    *_, found = made = incidents(broke, new, drift("p1:d1", 900, temp=temp))
    assert (len(made), found["features"][0]["feature"], found["drifts"]) == (count, "vib", 2 - count)


@pytest.mark.parametrize("streams", [4, 10])
def test_a_slow_drift_names_what_its_stream_was_and_not_what_all_did_meanwhile(streams):
    # Its end also has a cluster of its own, with another mean, and what a change of all has done.
    slow = drift("p1:d1", 200, scope="stream", damp=(42, 43.5))
    ends = [("p1:d1/1/2", "damp", 48.3, 49.9), ("p1:d1/1/2", "load", 2, 5), (None, "damp", 42, 52)]
    units = [
        {"cluster": cluster, "change": ["moved"], "features": changed(name, "moved", before=before, after=after,
         shift=after - before, ratio=1.0)[0]["features"]} for cluster, name, before, after in ends
    ]  # fmt: skip
    settled = output("drift_events", "p1:d1", 900, kind="settled", opened=0, seq=1, units=units)
    all_, one = incidents(*WORK, slow, settled, streams=streams)
    # Its stream is one of those that changed.
    assert all_["streams"] == ["p0:d0", "p0:d2", "p1:d3", "p1:d1"]
    assert one["text"] == "p1:d1: drifted since 2026-05-06 03:15:00, damp 52, usually 42"


def test_what_a_feature_is_beside_the_others_is_said_so_unless_more_is_known():
    [found] = incidents(apart("p0:d0", 600, temp=(43.0, 55.5)))
    assert found["text"] == "p0:d0: drifted since 2026-05-06 09:55:00, temp 55.5 where 43 would be usual"
    assert found["features"] == [{"feature": "temp", "value": 55.5, "usual": 43.0, "beside": True}]
    kind, event = apart("p0:d0", 600, temp=(43.0, 43.1, 6.0))
    event["units"][0]["features"][0]["change"] = "widened"
    [found] = incidents((kind, event))
    assert found["text"].endswith(", temp 6 times as far as usual from what it would be")
    [found] = incidents(drift("p0:d0", 600, load=(1.0, 9.0)), apart("p0:d0", 610, seq=1, temp=(43.0, 55.5)))
    assert [each["feature"] for each in found["features"]] == ["load"]


def test_a_new_cluster_of_a_start_is_not_what_a_drift_has_moved_to():
    [found] = incidents(emerged("p1:d1", 305, heat=1.76), drift("p1:d1", 310, heat=(1.03, 1.24)), alert("p1:d1", 300))
    assert found["features"] == [{"feature": "heat", "value": 1.24, "usual": 1.03}]


@pytest.mark.parametrize(("began", "load", "count"), [(300, (6.2, 9.0), 2), (440, (6.2, 9.0), 1), (300, None, 1)])
def test_a_drift_that_began_long_before_an_alert_and_names_none_of_its_features_is_another_incident(began, load, count):
    """The alert names the load; the drift noise of the heat, or the load itself."""
    made = drift("p1:d1", 470, load=load or (2.0, 2.1))
    if load:
        made[1]["units"] = changed("heat", "widened", shift=0.0, ratio=3.1)
    made[1]["since"]["time"] = output("", "p1:d1", began)[1]["time"]
    found = incidents(made, *(named(alert(f"p{n % 2}:d{n}", 500), load=(5.0, 2.0)) for n in range(4)))
    assert len(found) == count
    if count == 2:
        assert (found[1]["streams"], found[1]["since"][11:16]) == (["p1:d1"], "05:00")


@pytest.mark.parametrize(
    ("name", "seen", "since"), [("load", 470, "05:00"), ("heat", 470, "05:00"), ("heat", 560, "09:06")]
)
def test_what_else_is_off_while_a_feature_is_stuck_did_not_begin_it_nor_what_began_later(name, seen, since):
    stuck = drift("p1:d1", seen, heat=(6.2, 3.0, 0.0))
    stuck[1]["since"]["time"] = output("", "p1:d1", 300)[1]["time"]
    (found,) = incidents(stuck, named(alert("p1:d1", 550), **{name: (3.0, 6.2)}))
    assert (found["since"][11:16], found["text"].count("heat stays at 3")) == (since, 1)


@pytest.mark.parametrize(("began", "settled", "value"), [(305, False, 38.0), (200, False, 20.0), (305, True, 20.0)])
def test_a_drift_that_was_seen_under_way_ends_where_the_record_of_an_alert_is(began, settled, value):
    made = drift("p1:d1", 310, heat=(6.2, 20.0))
    made[1]["since"]["time"] = output("", "p1:d1", began)[1]["time"]
    ends = [output("drift_events", "p1:d1", 600, kind="settled", opened=0, seq=1, units=[])] if settled else []
    (found,) = incidents(made, *ends, named(alert("p1:d1", 308), heat=(38.0, 6.2)))
    assert found["features"] == [{"feature": "heat", "value": value, "usual": pytest.approx(6.2)}]


def test_a_drift_that_recovers_and_comes_again_goes_to_and_fro():
    drifts = [drift("p1:d1", 310 + 300 * n, seq=2 * n, heat=(6.2, 38.0 + n)) for n in range(3)]
    for n, (_, event) in enumerate(drifts[1:]):
        event["continues"] = 2 * n
    ends = [output("drift_events", "p1:d1", 400 + 300 * n, kind="recovered", opened=2 * n, seq=2 * n + 1, units=[])
            for n in range(2)]  # fmt: skip
    (found,) = incidents(*drifts, *ends)
    assert found["text"] == (
        "p1:d1: goes to and fro since 2026-05-06 05:05:00, 3 drifts, last 2026-05-06 15:05: heat 6.2 to 40"
    )
    assert found["is_open"] and not incidents(*drifts[:2], *ends)[0]["is_open"]


def test_an_incident_of_two_streams_names_what_both_show():
    moved = [drift(f"p1:d{n}", 300 + n, heat=(6.2, 38.0), **{f"x{n}": (1.0, 1.9)}) for n in (1, 3)]
    assert [each["feature"] for each in incidents(*moved)[0]["features"]] == ["heat"]


@pytest.mark.parametrize("ratio", [0.4, 2.0, 3.1])
@pytest.mark.parametrize("change", ["moved", "narrowed"])
def test_a_drift_without_a_move_is_named_by_what_varies_and_not_by_what_only_its_end_names(ratio, change):
    noise = changed("load", "widened" if ratio > 1 else "narrowed", shift=0.1, ratio=ratio)
    made = drift("p1:d1", 470)
    made[1]["units"] = noise
    also = changed("heat", change, shift=9.0, ratio=0.5)
    settled = output("drift_events", "p1:d1", 900, kind="settled", opened=0, seq=1, units=[*also, *noise])
    (found,) = incidents(made, settled)
    assert found["text"] == f"p1:d1: drifted since 2026-05-06 07:45:00, load varies {ratio:g} times as much"


def test_what_only_the_end_of_a_drift_names_is_no_feature_of_it_and_the_end_knows_how_far_the_others_went():
    settled = drift("p1:d1", 900, heat=(48.0, 88.0), load=(2.0, 12.0))
    settled[1].update(kind="settled", opened=0, seq=1)
    (found,) = incidents(drift("p1:d1", 320, load=(2.0, 5.0)), settled)
    assert found["features"] == [{"feature": "load", "value": 12.0, "usual": 2.0}]


@pytest.mark.parametrize(("volt", "names"), [(14.12, ["load"]), (14.2, ["load", "volt"])])
def test_a_feature_whose_numbers_are_shown_alike_is_not_named_beside_others(volt, names):
    (found,) = incidents(drift("p1:d1", 320, load=(2.0, 5.0), volt=(14.08, volt)))
    assert [each["feature"] for each in found["features"]] == names


def test_a_drift_that_found_no_feature_is_named_by_what_it_found_whatever_its_end_names():
    made, settled = drift("p1:d1", 320), drift("p1:d1", 900, heat=(48.0, 88.0))
    made[1]["units"] = [{"cluster": "p1:d1/1/0", "change": ["together"], "features": []}]
    settled[1].update(kind="settled", opened=0, seq=1)
    (found,) = incidents(made, settled)
    assert found["text"].startswith("p1:d1: features of p1:d1/1/0 vary together differently, since")
    assert found["features"] == []


def jumps(kind, event):
    """A drift whose features go farther from record to record."""
    for each in event["units"][0]["features"]:
        each["steps"] = True
    return kind, event


def settles(minute, opened, **moves):
    """The end of a drift, which names the features that have moved meanwhile."""
    units = drift("p1:d1", minute, **moves)[1]["units"] if moves else []
    return output("drift_events", "p1:d1", minute, kind="settled", opened=opened, seq=opened + 1, units=units)


TO_AND_FRO = [
    each
    for n, way in enumerate([(10.0, 20.0), (20.0, 10.0), (10.0, 20.0)])
    for each in (drift("p1:d1", 300 + 300 * n, 2 * n, load=way, heat=way), settles(400 + 300 * n, 2 * n))
]


@pytest.mark.parametrize("streams", [1, 4])
def test_a_sensor_that_jumps_is_no_part_of_what_goes_to_and_fro(streams):
    noise = jumps(*drift("p1:d1", 1_300, 8, heat=(15.0, 17.5, 6.4)))
    texts = [each["text"] for each in incidents(*TO_AND_FRO, noise, settles(1_400, 8), streams=streams)]
    assert len(texts) == 2
    assert "drifted" in texts[0] and "heat jumps 6.4 times as far from record to record" in texts[0]
    assert "goes to and fro" in texts[1] and "3 drifts" in texts[1]


def test_a_creep_takes_no_drifts_of_what_only_its_ends_name_nor_little_ones():
    came = [emerged("p1:d1", 20, 0, spread=0.02, salt=0.2, load=15.0)]
    creep = [
        each
        for n, (before, after) in enumerate([(0.2, 0.3), (0.4, 0.6), (0.6, 0.9)])
        for each in (
            drift("p1:d1", 300 + 100 * n, 2 * n, salt=(before, after)),
            settles(380 + 100 * n, 2 * n, salt=(before, after), load=[(10.0, 20.0), (20.0, 10.0)][n % 2]),
        )
    ]
    little = drift("p1:d1", 1_250, 10, salt=(0.25, 0.3))
    later = [drift("p1:d1", 1_000, 8, load=(12.0, 16.0)), settles(1_050, 8), little]
    texts = [each["text"] for each in incidents(*came, *creep, *later)]
    assert sum("drifted since 2026-05-06 04:55:00, salt 0.9, usually 0.2" in each for each in texts) == 1


def test_that_features_depend_on_each_other_otherwise_without_their_names_is_info():
    kind, event = drift("p1:d1", 310)
    event["units"][0]["change"] = ["together"]
    (found,) = incidents((kind, event))
    assert (found["severity"], found["is_open"]) == ("info", True)
    assert "vary together differently" in found["text"]
    moved = drift("p1:d1", 330, 2, heat=(10.0, 20.0)), settles(340, 2)
    (found,) = incidents((kind, event), *moved)
    assert found["severity"] == "warning"
