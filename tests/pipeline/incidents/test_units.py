"""A feature in another unit is named with its factor, and no ordinary change is one."""

import pytest

from tests.pipeline.incidents.outputs import again, alert, drift, emerged, incidents, named, output


def test_one_feature_of_a_whole_stream_that_is_many_times_what_it_was_is_in_another_unit():
    (found,) = incidents(drift("p1:d1", 310, scope="stream", heat=(6.2, 620.0, 100)))
    assert found["text"] == "p1:d1: heat in another unit since 2026-05-06 05:05:00, x 100"
    assert (found["kind"], found["factor"], found["certainty"]) == ("unit", pytest.approx(100), "likely")


@pytest.mark.parametrize(
    ("heat", "how"),
    [
        ((36.0, 10.0, 0.28), "x 0.278"),
        ((4.2, 60.9, 15.0), "x 14.5"),
        # From hPa to inHg, of which the first day was calm.
        ((1_005.0, 29.6, 0.015), "x 0.0295"),
        ((25.0, 77.0, 1.9), "heat 77, usually 25: Fahrenheit or Celsius"),
        ((77.0, 25.0, 0.55), "heat 25, usually 77: Fahrenheit or Celsius"),
        # Ordinary changes: the values vary as before, or in another proportion, or it is not quite the factor.
        *(((before, after, ratio), "") for before, after, ratio in (
            (40.0, 104.0, 1.0), (100.0, 212.0, 2.12), (50.0, 176.0, 3.52), (50.0, 180.0, 1.0), (6.2, 620.0, 1.0),
        )),
    ],
)  # fmt: skip
def test_a_mean_and_its_spread_say_another_unit_and_no_ordinary_change_is_one(heat, how):
    (found,) = incidents(drift("p1:d1", 310, scope="stream", heat=heat))
    assert (found["kind"], how in found["text"]) == ("unit" if how else "drifted", True)


def test_another_unit_is_one_beside_features_that_move_a_little_and_a_load_ten_times_as_high_is_none():
    for heat, noise, kind in ((620.0, 4.0, "unit"), (620.0, 9.0, "drifted"), (62.0, 4.0, "drifted")):
        (found,) = incidents(drift("p1:d1", 310, scope="stream", heat=(6.2, heat, heat / 6.2), noise=(3.0, noise)))
        assert (found["kind"], len(found["features"])) == (kind, 1 if kind == "unit" else 2)


def test_while_a_drift_lasts_the_record_of_the_alert_says_the_unit():
    # The drift has seen the first records of the new unit, and its mean is of both.
    lasts = drift("p1:d1", 310, scope="stream", heat=(23.0, 12.0))
    for value, kind in ((0.24, "unit"), (1.1, "broke")):
        opened = named(alert("p1:d1", 312, records=6.0, unlike=6.0), heat=(value, 23.0))
        (found,) = incidents(lasts, opened)
        assert (found["kind"], found.get("factor")) == (kind, 0.01 if kind == "unit" else None)


def test_the_record_of_an_alert_says_the_unit_beside_a_drift_of_what_moved_a_little():
    opened = named(alert("p1:d1", 300, records=6.0, unlike=6.0), load=(40_000.0, 40.0))
    (found,) = incidents(opened, drift("p1:d1", 310, scope="stream", heat=(6.2, 7.9)))
    assert (found["kind"], found["factor"], found["features"][0]["feature"]) == ("unit", 1_000.0, "load")


def test_a_group_is_in_another_unit_though_means_are_under_way_and_other_features_move_a_little():
    shown = []
    for stream, mean, others in (("p1:d1", 600.0, {}), ("p0:d2", 370.0, {"noise": (50.0, 46.0)}), ("p1:d3", 250.0, {})):
        shown += [
            named(alert(stream, 312, records=6.0, unlike=6.0), power=(2_900.0, 3.0)),
            drift(stream, 320, scope="stream", power=(3.0, mean, 4.3), **others),
            # It goes on until all records are of the new unit.
            drift(stream, 390, seq=1, scope="stream", power=(3.0, 2_950.0, 700.0)),
        ][: 2 if others else 3]
    (found,) = incidents(*shown, streams=10)
    assert (found["kind"], found["factor"], found["severity"]) == ("unit", 1_000.0, "critical")
    assert found["streams"] == ["p0:d2", "p1:d1", "p1:d3"]


def test_fahrenheit_is_one_beside_features_that_move_a_little_where_a_temperature_is_named():
    for name, kind in (("temp", "unit"), ("x", "drifted")):
        moves = {name: (25.0, 77.0, 1.8), "load": (5.0, 6.0)}
        assert incidents(drift("p1:d1", 310, scope="stream", **moves))[0]["kind"] == kind
    # A stream has clusters of several loads in it.
    shown = [alert("p1:d1", 340 + 60 * n, "new_cluster", severity="info", share=0.2) for n in range(2)]
    for n, each in enumerate(shown):
        each[1].update(cluster=f"p1:d1/1/{7 + n}", key=f"alert/new_cluster/{n}")
    came = [
        emerged("p1:d1", minute, number, temp=173.4, load=load) for minute, number, load in ((310, 7, 5), (380, 8, 9))
    ]
    (found,) = incidents(named(alert("p1:d1", 300, records=5.0, unlike=5.0), temp=(173.6, 78.4)), *came, *shown)
    assert "Fahrenheit" in found["text"]


def test_a_feature_of_many_scales_that_is_a_thousand_times_what_it_was_is_in_another_unit():
    made = drift("p1:d1", 310, scope="stream", heat=(0.118, 109.0, 0.75))
    made[1]["units"][0]["features"][0]["shift"] = 1_668.0
    (found,) = incidents(made)
    assert found["text"] == "p1:d1: heat in another unit since 2026-05-06 05:05:00, x 1,000"


@pytest.mark.parametrize(
    ("before", "after", "ratio", "how"),
    [
        # Amounts in cents, as the drift of a till said them; in dollars; of a queue that grows by and by.
        (20.2, 1682.0, 0.95, "x 100"), (20.2, 700.0, 1.0, ""), (20.2, 1682.0, 2.4, ""),
    ],
)  # fmt: skip
def test_the_logarithms_of_a_feature_of_many_scales_say_the_unit_where_they_vary_as_before(before, after, ratio, how):
    made = drift("p1:d1", 310, scope="stream", heat=(before, after, ratio))
    made[1]["units"][0]["features"][0]["shift"] = (after - before) / 13.4
    (found,) = incidents(made, alert("p1:d1", 300, "new_cluster", severity="info"))
    assert (found["kind"], how in found["text"]) == ("unit" if how else "new_kind", True)


@pytest.mark.parametrize(("load", "kind"), [(10.0, "unit"), (28.0, "drifted")])
def test_a_cluster_in_place_of_another_says_the_unit_where_a_stream_has_nights(load, kind):
    made = drift("p1:d1", 310, scope="stream", heat=(4.5, 195.0, 3.7))
    before = {"feature": "heat", "change": "moved", "before": 10.1, "after": 8_589.0, "shift": 1_434, "ratio": 1.08}
    other = {"feature": "load", "change": "moved", "before": 10.0, "after": load, "shift": load - 10, "ratio": 1}
    taken = {"cluster": "p1:d1/1/9", "was": "p1:d1/1/1", "change": ["moved"], "features": [before, other]}
    ended = output("drift_events", "p1:d1", 700, kind="settled", opened=0, seq=1, units=[taken])
    (found,) = incidents(made, ended)
    assert found["kind"] == kind


def test_around_zero_a_mean_says_nothing_of_the_unit():
    (found,) = incidents(drift("p1:d1", 310, scope="stream", heat=(0.002, 1.9)))
    assert found["kind"] == "drifted"


@pytest.mark.parametrize(
    ("value", "usual", "centre", "factor"),
    [
        ((0.05, 20.0, 70.0), 45.0, 0.048, 0.001),
        ((0.5, 2.2, 73.0), 37.6, 0.51, None),  # It may be 1/60 as well.
        ((115.0, 42.0, 58.0), 50.0, 114.0, 2.5),
        ((115.0, 42.0, 58.0), 50.0, 150.0, None),
        ((0.05, -20.0, 70.0), 25.0, 0.048, None),
    ],
)
@pytest.mark.parametrize("streams", [1, 4])
@pytest.mark.parametrize("name", ["heat", "inlet_c"])
@pytest.mark.parametrize("drifts", [(), (drift("p1:d1", 320, state=(0.0, 1.0), heat=(2.0, 3.0)),)])
def test_a_record_and_its_new_cluster_say_the_unit_that_alone_fits_both(
    value, usual, centre, factor, streams, name, drifts
):
    made = alert("p1:d1", 300, records=5.0, unlike=5.0)
    made[1]["features"] = [dict(zip(("feature", "value", "low", "high"), (name, *value), strict=True))]
    new = alert("p1:d1", 340, "new_cluster", severity="info")
    new[1]["cluster"] = "p1:d1/1/7"
    came = emerged("p1:d1", 310, **{name: centre}, flow=3.0)
    (found,) = (each for each in incidents(made, came, new, *drifts, streams=streams))
    assert (found["kind"] == "unit", found.get("factor")) == (bool(factor), factor and pytest.approx(factor, rel=0.01))


@pytest.mark.parametrize(
    ("value", "centre", "kind"),
    [
        (28_899.0, 13_434.0, "unit"),
        (9_999.0, 9_999.0, "broke"),  # A code that stands for a fault.
        (65.0, 60.0, "broke"),
        (900.0, 700.0, "broke"),
    ],
)
def test_what_is_zero_by_night_is_in_another_unit_where_all_records_are_usual_ones_in_it(value, centre, kind):
    made = alert("p1:d1", 300, records=7.0, unlike=7.0)
    made[1]["features"] = [{"feature": "power", "value": value, "low": -3.4, "high": 62.8}]
    new = alert("p1:d1", 340, "new_cluster", severity="info")
    new[1]["cluster"] = "p1:d1/1/7"
    [found] = incidents(made, emerged("p1:d1", 310, power=centre), new, drift("p1:d1", 330, power=(4.6, 4_000.0)))
    assert (found["kind"], found.get("factor")) == (kind, 1_000.0 if kind == "unit" else None)


def test_what_comes_soon_after_another_unit_names_it():
    lasts = drift("p1:d1", 310, scope="stream", cpu=(45.0, 30.0))
    unit = named(alert("p1:d1", 312, records=6.0, unlike=6.0), cpu=(0.46, 45.0))
    burst = named(again(alert("p1:d1", 900, records=6.0, unlike=6.0)), cpu=(0.87, 0.46))
    of_burst, _ = incidents(unit, lasts, burst, streams=1)
    assert of_burst["text"].endswith("; cpu in another unit since 2026-05-06 05:09")


@pytest.mark.parametrize(
    ("value", "factor"), [(44_488.0, 1_000.0), (20_000.0, None), (60_000.0, None), (445.0, None), (0.04, None)]
)
def test_one_record_far_above_a_wide_range_says_the_unit_in_which_it_would_be_near_the_middle(value, factor):
    made = alert("p1:d1", 300, records=25.0, unlike=25.0)
    made[1]["features"] = [{"feature": "energy", "value": value, "low": -0.3, "high": 78.5}]
    (found,) = incidents(made)
    assert found.get("factor") == factor


@pytest.mark.parametrize(("name", "after", "kind"), [("temp", 86.5, "unit"), ("temp", 70.0, ""), ("load", 86.5, "")])
def test_a_stream_that_is_named_for_a_temperature_is_in_fahrenheit_of_what_it_had_become_with_others(name, after, kind):
    names = [f"p{n % 2}:{name}.d{n}" for n in range(6)]
    known = [emerged(each, 20, 0, value=27.5) for each in names]
    change = [named(alert(each, 302), value=(30.3, 27.5)) for each in names]
    for each in known:
        each[1]["after"][0]["spread"] = {"value": 0.5}
    found = incidents(*known, *change, emerged(names[1], 900, 7, value=after), streams=0)
    assert [(each["kind"] == "unit", len(each["streams"])) for each in found] == [(bool(kind), 1), (False, 6)]


@pytest.mark.parametrize("usual", [-0.03, 0.0, 0.4])
@pytest.mark.parametrize("moved", [(), (drift("p1:d1", 310, scope="stream", flow=(0.4, 5.0)),)])
@pytest.mark.parametrize("value", [9.4, 13_000.0])
def test_what_is_about_zero_at_rest_is_in_no_unit_however_large_a_record_is(usual, moved, value):
    made = alert("p1:d1", 300, records=7.0, unlike=7.0)
    made[1]["features"] = [{"feature": "flow", "value": value, "low": usual - 1.4, "high": usual + 1.4}]
    assert {each["kind"] for each in incidents(made, *moved)} == {"broke"}


@pytest.mark.parametrize(
    ("value", "usual", "share", "factor"),
    [
        (103.4, 7.19, 0.9, 14.5038),
        (731.9, 107.0, 0.9, 6.8948),
        (15.5, 107.0, 0.9, 1 / 6.8948),
        (0.46, 459.0, 0.9, 0.001),
        (103.4, 7.19, 0.2, None),  # It may be one of the kinds that its stream goes on to have.
        (40.0, 7.19, 0.9, None),
        (111.0, 7.19, 0.9, None),
    ],
)
def test_a_narrow_feature_of_which_all_records_are_in_another_unit_is_that_whatever_else_is_off(
    value, usual, share, factor
):
    # The record is compared with what its machine has at rest.
    made = named(alert("p1:d1", 300, records=6.0, unlike=6.0), load=(93.0, 38.0), flow=(13.6, 0.1))
    made[1]["features"].append({"feature": "p", "value": 1.01 * value, "low": 0.97 * usual, "high": 1.03 * usual})
    new = alert("p1:d1", 800, "new_cluster", severity="info", share=share)
    new[1]["cluster"] = "p1:d1/1/7"
    resting = drift("p1:d1", 320, load=(0.4, 57.0, 3.6))
    found = incidents(made, emerged("p1:d1", 420, p=value, load=74.0, flow=3.4), new, resting)[-1]
    assert found.get("factor") == (factor and pytest.approx(factor))
    if factor:
        assert found["features"] == [{"feature": "p", "value": value, "usual": pytest.approx(usual)}]


@pytest.mark.parametrize(
    ("name", "after", "streams", "kind"),
    [
        ("coolant_temp", 90.7, 3, "unit"),
        ("coolant_temp", 90.7, 2, ""),
        ("coolant_temp", 80.0, 3, ""),
        ("load", 90.7, 3, ""),
    ],
)
def test_several_streams_whose_temperature_is_in_their_middle_the_same_in_celsius_are_in_that(
    name, after, streams, kind
):
    # One of them is cold still.
    places = [(f"p{n % 2}:d{n}", after - 9 * (n == 2)) for n in range(streams)]
    made = [named(alert(stream, 300, known=1.0), **{name: (value, 195.0)}) for stream, value in places]
    (found,) = incidents(*made, streams=6)
    assert (found["kind"] == "unit", len(found["streams"])) == (bool(kind), streams)
    assert [(each["feature"], each["value"], each["usual"]) for each in found["features"]] == [(name, after, 195.0)]


@pytest.mark.parametrize(
    ("name", "came", "how"),
    [
        # Acid and water in turns, in another unit; a record says nothing, as it is compared with the other kind.
        ("flow", (502.0, 61_777.0), "x 1,000"),
        ("temp", (102.9, 33.8), "Fahrenheit or Celsius"),
        ("flow", (102.9, 33.8), ""),
        # One kind of records may be in another unit by chance, and a fault leaves none of them where it was.
        ("flow", (502.0, 520.0), ""),
        ("flow", (502.0, 502_000.0), ""),
        ("temp", (82.0, 24.0), ""),
    ],
)
@pytest.mark.parametrize("load", [2.0, 9.0])
def test_kinds_of_records_that_all_are_what_others_were_in_the_old_unit_name_it(name, came, how, load):
    places, (low, high) = ((38.0, 1.0), (10.0, 60.0)) if came[0] < 500 else ((0.502, 59.68), (46.6, 67.6))
    known = [emerged("p1:d1", 20 + n, n, spread=0.05, **{name: place, "load": 2.0}) for n, place in enumerate(places)]
    new = [emerged("p1:d1", 320, 5, spread=0.05, **{name: came[0], "load": load})]
    new += [emerged("p1:d1", 700, 6, spread=0.05, **{name: came[1], "load": 2.0})]
    made = alert("p1:d1", 300, records=5.0, unlike=5.0)
    made[1]["features"] = [{"feature": name, "value": came[0], "low": low, "high": high}]
    (found,) = incidents(made, *known, *new)
    # A kind that has another load, too, is another kind.
    is_unit = bool(how) and load == 2.0
    assert (found["kind"] == "unit", how in found["text"]) == (is_unit, is_unit or not how)
