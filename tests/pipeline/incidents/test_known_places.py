"""What shows a stream where it has been before, and does not stay, is no incident."""

import pytest

from tests.pipeline.incidents.outputs import again, alert, changed, drift, emerged, incidents, named, output

LATE = 6_000
"""Minute of a stream that is known for long."""


def kind(number, minute=20, stream="p1:d1", spread=1.0, **centre):
    """A kind of records that a stream has, with how much they vary."""
    made = emerged(stream, minute, number, **centre)
    made[1]["after"][0]["spread"] = dict.fromkeys(centre, spread)
    return made


WORK_AND_REST = [kind(0, heat=80.0, amps=95.0), kind(1, heat=25.0, amps=0.4), kind(2, heat=40.0, amps=38.0)]


def ended(stream, minute, opened, how="recovered", units=()):
    """The end of a drift."""
    return output("drift_events", stream, minute, kind=how, opened=opened, seq=opened + 1, units=[*units])


def shown_by(*outputs, stream="p1:d1"):
    """The texts of the incidents of a stream."""
    return [each["text"] for each in incidents(*outputs) if stream in each["streams"]]


@pytest.mark.parametrize(
    ("heat", "usual", "cleared", "count"),
    [
        (39.0, 30.0, {"outside": 0.0}, 0),
        # The model takes it for a kind of its own, of few records.
        (39.0, 30.0, {"outside": 1.0, "unlike": 15.0, "records": 60.0}, 0),
        (39.0, 30.0, {"outside": 1.0, "unlike": 45.0, "records": 60.0}, 1),
        (39.0, 30.0, None, 1),
        # It has not been there, though on both sides of it, or is far from the nearest kind.
        (33.0, 25.0, {"outside": 0.0}, 1),
        (79.0, 30.0, {"outside": 0.0}, 1),
    ],
)
def test_records_a_little_off_that_are_within_another_kind_for_a_while_are_no_incident(heat, usual, cleared, count):
    made = named(alert("p1:d1", LATE, unlike=5.0, records=5.0), heat=(heat, usual))
    over = [alert("p1:d1", LATE + 90, kind="cleared", **cleared)] if cleared else []
    new = alert("p1:d1", LATE + 95, "new_cluster", severity="info", share=0.2)
    new[1]["cluster"] = "p1:d1/1/9"
    came = [kind(9, LATE + 20, heat=heat, amps=0.4), new] if cleared and cleared["outside"] else []
    assert len(shown_by(*WORK_AND_REST, made, *over, *came)) == count
    # That most streams of a fleet show it at that time is news.
    others = [named(alert(f"p1:d{n}", LATE, unlike=5.0, records=5.0), heat=(heat, usual)) for n in (0, 2, 3)]
    assert len(shown_by(*WORK_AND_REST, made, *over, *others)) == 1


@pytest.mark.parametrize(
    ("moves", "end", "count"),
    [
        ({"heat": (25.0, 60.0), "amps": (0.4, 28.0)}, "recovered", 0),
        ({"heat": (25.0, 60.0), "amps": (0.4, 28.0)}, None, 1),
        ({"heat": (25.0, 60.0), "amps": (0.4, 128.0)}, "recovered", 1),
        ({"heat": (25.0, 60.0), "fan": (1.0, 5.0)}, "recovered", 1),
    ],
)
def test_means_between_kinds_of_a_stream_for_a_while_are_records_of_another_kind(moves, end, count):
    over = [ended("p1:d1", LATE + 400, 0, end)] if end else []
    assert len(shown_by(*WORK_AND_REST, drift("p1:d1", LATE, **moves), *over)) == count


@pytest.mark.parametrize(("after", "count"), [(26.0, 0), (17.0, 1), (60.0, 1)])
def test_a_drift_that_settles_where_its_feature_was_is_over(after, count):
    made = drift("p1:d1", LATE, heat=(25.0, 60.0))
    settled = changed("heat", "moved", before=25.0, after=after, shift=after - 25.0, ratio=1.0)
    assert len(shown_by(*WORK_AND_REST, made, ended("p1:d1", LATE + 400, 0, "settled", settled))) == count


@pytest.mark.parametrize(("after", "count"), [(81.4, 0), (83.0, 1)])
def test_means_of_a_slow_feature_may_be_a_little_beyond_a_spread_of_a_kind(after, count):
    made = drift("p1:d1", LATE, heat=(25.0, after))
    assert len(shown_by(*WORK_AND_REST, made, ended("p1:d1", LATE + 400, 0))) == count


def test_a_kind_of_records_that_has_absorbed_others_is_as_wide_as_it_is_since():
    made = named(alert("p1:d1", LATE, unlike=5.0, records=5.0), heat=(39.0, 30.0))
    over = alert("p1:d1", LATE + 90, kind="cleared", outside=0.0)
    first = kind(0, heat=25.0, amps=0.4)
    wider = [
        {"id": "p1:d1/1/0", "size": 900, "centre": {"heat": 30.0, "amps": 0.4}, "spread": {"heat": 4.0, "amps": 1.0}}
    ]
    absorbed = output("cluster_events", "p1:d1", 500, kind="absorbed", cluster="p1:d1/1/1", before=[], after=wider)
    assert [len(shown_by(first, *some, made, over)) for some in ((), (absorbed,))] == [1, 0]


def test_noise_and_what_is_stuck_between_kinds_of_a_stream_is_an_incident():
    for ratio in (0.0, 3.0):
        made = drift("p1:d1", LATE, heat=(25.0, 25.5))
        made[1]["units"][0]["features"][0] |= {"change": "narrowed" if ratio == 0.0 else "widened", "ratio": ratio}
        assert len(shown_by(*WORK_AND_REST, made, ended("p1:d1", LATE + 400, 0))) == 1


def sawtooth(stream, *minutes, low=410.0):
    """Memory of a service that begins anew again and again; of each such drift the next one is the end."""
    falls = [drift(stream, minute, seq=2 * n, memory=(468.0, low)) for n, minute in enumerate(minutes)]
    ends = [ended(stream, minute + 300, 2 * n, "settled") for n, minute in enumerate(minutes[:-1])]
    return [
        kind(0, stream=stream, memory=420.0, spread=5.0),
        kind(1, 40, stream=stream, memory=440.0),
        *falls,
        *ends,
    ]


def test_a_saw_tooth_that_comes_back_to_its_usual_value_again_and_again_is_no_incident():
    assert len(shown_by(*sawtooth("p1:d1", LATE, low=418.0))) == 1
    assert not shown_by(*sawtooth("p1:d1", LATE, LATE + 900, low=418.0))
    # Lower than it has ever been it is one.
    assert shown_by(*sawtooth("p1:d1", LATE, LATE + 900, low=300.0))


@pytest.mark.parametrize(("others", "count"), [((), 1), ((0,), 1), ((0, 2), 0)])
def test_a_stream_that_goes_once_as_others_do_again_and_again_is_no_incident(others, count):
    rest = [each for n in others for each in sawtooth(f"p{n % 2}:d{n}", LATE - 1_000, LATE - 300, low=418.0)]
    assert len(shown_by(*sawtooth("p1:d1", LATE, low=418.0), *rest)) == count


DAY = 1_440


@pytest.mark.parametrize(
    ("began", "seen", "shift", "count"),
    [
        (5.3, 7.5, 2.4, 0),
        (5.3, 6.0, 2.4, 1),
        (5.3, 7.5, 4.0, 1),
        # It has had its first weekend.
        (9.3, 11.5, 2.4, 1),
    ],
)
def test_a_slow_and_little_drift_in_the_first_week_of_a_stream_is_no_incident(began, seen, shift, count):
    """A week is known once each of its days has come."""
    made = drift("p1:d1", round(seen * DAY), heat=(75.0, 60.0))
    made[1]["since"]["time"] = output("", "p1:d1", round(began * DAY))[1]["time"]
    made[1]["units"][0]["features"][0]["shift"] = -shift
    first = emerged("p1:d1", 20, 0, heat=75.0)
    found = incidents(first, made, every=5)
    assert sum("p1:d1" in each["streams"] for each in found) == count


def test_a_kind_of_records_that_comes_again_by_itself_is_one_incident():
    calm = named(alert("p1:d1", LATE, unlike=9.0, records=12.0), blade=(45.0, 2.0), rotor=(0.2, 13.0))
    more = again(named(alert("p1:d1", LATE + 900, unlike=9.0, records=12.0), blade=(45.5, 2.0), rotor=(0.1, 13.0)))
    more[1]["evidence"]["known"] = 1.0
    over = [alert("p1:d1", minute, kind="cleared", outside=0.0) for minute in (LATE + 90, LATE + 990)]
    again(over[1])
    (found,) = incidents(calm, over[0], more, over[1], streams=0)
    assert "a new kind of records since 2026-05-10 03:54:30, 2 times, last 2026-05-10 18:54, blade" in found["text"]
    # Another stream that has it is another matter.
    other = named(alert("p0:d0", LATE + 900, unlike=9.0, records=12.0), blade=(45.5, 2.0), rotor=(0.1, 13.0))
    other[1]["evidence"]["known"] = 1.0
    assert len(incidents(calm, over[0], other)) == 2
