"""Machines that start and stop are on the way between kinds of records that they have, and have not broken."""

import pytest

from tests.pipeline.incidents.outputs import (
    NIGHTS,
    again,
    alert,
    changed,
    drift,
    emerged,
    incidents,
    named,
    output,
    split,
)


def ways(stream, *minutes, heat=35.0, **ends):
    """Records of a stream that are unlike all before for a while, at several times."""
    for number, minute in enumerate(minutes):
        opened = named(alert(stream, minute, unlike=8.0, records=8.0), heat=(heat, 60.0))
        cleared = alert(stream, minute + 60, kind="cleared", unlike=20.0, outside=0.0, **ends)
        for made in (opened, cleared):
            made[1]["key"] += str(number)
        yield from (opened, cleared)


def test_starts_and_stops_of_machines_are_one_incident_that_says_how_often_and_no_break():
    kinds = [split(stream, 100, 1, {"heat": 60.0}, {"heat": 12.0}) for stream in ("p1:d1", "p0:d2", "p1:d3")]
    once = incidents(*kinds, *ways("p1:d1", 200, 500))
    assert [(each["kind"], each["severity"]) for each in once] == [("broke", "critical")] * 2
    (found,) = incidents(*kinds, *ways("p1:d1", 200, 500, 1_000))
    assert (found["kind"], found["severity"]) == ("back", "warning")
    # That of each machine is at times of its own, and the last of one may not be over yet.
    all_ = [*ways("p1:d1", 200, 500), *ways("p0:d2", 850, heat=38.0), *ways("p1:d3", 1_300)][:-1]
    (found,) = incidents(*kinds, *all_)
    assert found["severity"] == "info"
    assert found["text"] == (
        "p1:d1, p0:d2, p1:d3: on the way between known kinds of records since 2026-05-06 03:13:00, up to 2 times each, "
        "last 2026-05-06 21:33, heat 35, usually 54 to 66"
    )


def test_a_fault_in_one_feature_of_a_way_between_kinds_is_none():
    came = [*ways("p1:d1", 200, 500, 800)]
    for each in came[::2]:
        named(each, heat=(35.0, 60.0), load=(2.0, 5.0), noise=(4.0, 9.0))
    kinds = split("p1:d1", 100, 1, {"heat": 60.0, "load": 5.0, "noise": 9.0}, {"heat": 12.0, "load": 0.0, "noise": 0.0})
    fault = [*map(again, ways("p1:d1", 1_100))]
    broke, way = incidents(kinds, *came, *fault)
    assert (broke["kind"], broke["severity"], way["kind"], way["signs"]) == ("broke", "critical", "back", 3)


def test_what_lasts_is_no_way_between_kinds_however_often_it_was():
    found = incidents(NIGHTS, *[*ways("p1:d1", 200, 500, 800, 1_100)][:-1])
    assert [(each["kind"], each["severity"]) for each in found] == [("broke", "critical"), ("back", "warning")]


@pytest.mark.parametrize(("heat", "shown"), [
    (90.0, []),  # It is beyond all that its stream has had.
    (35.0, [drift("p1:d1", 1_010, heat=(60.0, 35.0))]),  # It stays.
])  # fmt: skip
def test_what_is_off_for_the_third_time_has_broken_where_it_stays_or_is_no_way_between_kinds(heat, shown):
    found = incidents(NIGHTS, *ways("p1:d1", 200, 500, 1_000, heat=heat), *shown)
    assert found[0]["kind"] == "broke"


def test_a_drift_that_was_over_is_of_the_way_that_its_stream_was_on_or_said_where_it_differs_in_something():
    over = output("drift_events", "p1:d1", 1_090, kind="recovered", opened=0, seq=1, units=[])
    (found,) = incidents(NIGHTS, *ways("p1:d1", 200, 500, 1_000), drift("p1:d1", 1_030, heat=(60.0, 1.0)), over)
    assert (found["kind"], found["drifts"], found["features"][0]["value"]) == ("back", 1, 35.0)
    wide = emerged("p1:d1", 20, 0, heat=60.0, load=5.0)
    wide[1]["after"][0]["spread"] = {"heat": 9.0}
    calm = drift("p1:d1", 1_030)
    calm[1]["units"] = changed("heat", "narrowed", shift=0.0, ratio=0.3)
    for little in (drift("p1:d1", 1_030, heat=(60.0, 60.3)), calm):
        assert (len(incidents(wide, little)), incidents(wide, little, over)) == (1, [])


@pytest.mark.parametrize(("heat", "how"), [(40.0, "a rare, known kind"), (95.0, "a new kind")])
def test_a_kind_is_known_where_its_stream_has_had_what_it_names(heat, how):
    known = [alert("p1:d1", minute, known=1.0, unlike=6.0, records=8.0) for minute in (500, 1_100)]
    shown = [named(each, heat=(heat, 60.0)) for each in (known[0], again(known[1]))]
    assert f"{how} of records since" in incidents(NIGHTS, shown[0])[0]["text"]
    assert f"{how} of records since 2026-05-06 08:13:00, 2 times" in incidents(NIGHTS, *shown)[0]["text"]
