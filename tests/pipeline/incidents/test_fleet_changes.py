"""A change of a fleet, and what a few of its streams show beside or after it, are incidents of their own."""

import pytest
from resonance.pipeline.incidents.incidents import row_of

from tests.pipeline.incidents.outputs import (
    BROKE,
    NEW,
    WORK,
    again,
    alert,
    changed,
    drift,
    emerged,
    incidents,
    named,
    output,
)

NAMES = [f"p{n % 2}:d{n}" for n in range(6)]
CHANGE = [
    made
    for name in NAMES
    for made in (
        emerged(name, 20, 0, heat=6.2, flow=3.0, noise=2.0, load=2.0),
        # What the change names is within what the streams have had.
        emerged(name, 30, 1, heat=7.0, flow=2.0, noise=4.0, load=4.0),
        named(alert(name, 302), load=(2.6, 2.0), noise=(2.5, 2.0)),
    )
]


def new_kind(stream, minute, **centre):
    """A cluster of a stream emerges, with its alert."""
    made = alert(stream, minute, "new_cluster", severity="info", share=0.2)
    made[1]["cluster"] = f"{stream}/1/7"
    return [emerged(stream, minute, 7, **centre), made]


def over(stream, minute, until, **evidence):
    """An alert of a stream, and its end."""
    return [alert(stream, minute, **evidence), alert(stream, until, kind="cleared", **evidence)]


def sizes(found):
    """How many streams each incident has, the fewest first."""
    return sorted(len(each["streams"]) for each in found)


def change_of(names, **values):
    """Alerts and drifts of streams that change at the same time; the alerts name features where some are given."""
    alerts = [alert(name, 302) for name in names]
    return [
        *([named(each, **values) for each in alerts] if values else alerts),
        *(drift(name, 320, load=(2, 5)) for name in names),
    ]


def test_a_change_of_all_and_a_broken_stream_at_the_same_time_are_two():
    found = incidents(*BROKE, *WORK)
    assert sorted((each["kind"], len(each["streams"])) for each in found) == [("broke", 1), ("new_kind", 3)]


@pytest.mark.parametrize("shown", [
    [named(again(alert("p1:d1", 430)), heat=(38.0, 6.2))],
    [emerged("p1:d1", 430, 9, heat=38.0, load=5.0), NEW],
    # While an alert is open, which names no features, no other one opens.
    [emerged("p1:d1", 430, number, heat=38.0, load=number) for number in (8, 9, 10)],
    # The end of the drift knows the new value, but not since when.
    [output("drift_events", "p1:d1", 700, kind="settled", opened=0, seq=1, units=[
        {"cluster": None, "change": ["moved"], "features": [
            {"feature": "heat", "change": "moved", "before": 6.2, "after": 30.0, "shift": 24, "spread": 1, "ratio": 1}
        ]}]),
     emerged("p1:d1", 430, 9, heat=38.0, load=5.0), NEW],
])  # fmt: skip
@pytest.mark.parametrize("order", [1, -1])
def test_what_one_stream_alone_shows_after_a_change_of_all_is_an_incident_of_its_own(shown, order):
    change = [*WORK, alert("p1:d1", 302), drift("p1:d1", 322, load=(2, 5)), emerged("p1:d1", 20, 0, heat=6.2, load=2)]
    broke, work = incidents(*[*change, *shown][::order])
    assert (broke["kind"], broke["severity"], broke["streams"]) == ("broke", "critical", ["p1:d1"])
    feature = broke["features"][0]
    assert (feature["feature"], feature["value"], feature["usual"]) == ("heat", 38.0, pytest.approx(6.2))
    assert 5.5 < feature["low"] < 6.2 < feature["high"] < 6.9
    usual = f"{feature['low']:.3g} to {feature['high']:.3g}"
    assert broke["text"].endswith(f":00, heat 38, usually {usual}; alone among 4 streams")
    over, *_ = incidents(*change, *shown, alert("p1:d1", 600, kind="cleared"))
    assert row_of(over)[1] == ("open" if any(kind == "alerts" for kind, _ in shown) else "learned")
    assert over["severity"] == ("info" if NEW in shown else "critical")
    assert "07:05" <= broke["since"][11:16] <= "07:10"
    assert (len(work["streams"]), [each["feature"] for each in work["features"]]) == (4, ["load"])


@pytest.mark.parametrize(("heat", "load", "count"), [(38.0, 5.0, 2), (6.2, 5.0, 1), (6.2, 20.0, 2), (6.2, 9.0, 1)])
def test_a_fault_at_the_time_of_a_change_of_all_is_one_by_its_features_or_by_how_far_they_went(heat, load, count):
    moves = {"load": (2, load)} | ({"heat": (6.2, heat)} if heat != 6.2 else {})
    found = incidents(*WORK, alert("p1:d1", 302), drift("p1:d1", 322, **moves))
    assert [len(each["streams"]) for each in found] == ([4] if count == 1 else [1, 3])


@pytest.mark.parametrize(("value", "streams"), [(20.0, [4]), (60.0, [1, 4])])
def test_what_a_stream_of_a_change_shows_later_as_others_do_is_of_the_change(value, streams):
    night = [named(again(alert(name, 440)), heat=(20.0, 30.0)) for name in NAMES[:3]]
    late = named(again(alert(NAMES[3], 500)), heat=(value, 30.0))
    assert [len(each["streams"]) for each in incidents(*change_of(NAMES[:4]), *night, late)] == streams


@pytest.mark.parametrize(("broken", "behind", "streams"), [(2, 5, [2, 6]), (2, 40, [2, 6]), (3, 5, [6])])
def test_few_of_a_change_of_all_that_break_alike_later_are_one_incident(broken, behind, streams):
    broke = [named(again(alert(name, 440 + behind * at)), heat=(38.0, 6.2)) for at, name in enumerate(NAMES[:broken])]
    assert sizes(incidents(*change_of(NAMES), *broke, streams=6)) == streams


@pytest.mark.parametrize(("known", "broken", "after", "streams"), [
    (5, {0: 440, 1: 790}, (), [2, 5]), (8, {0: 440, 1: 990, 2: 990}, (), [3, 8]),
    (8, {0: 700, 1: 700}, range(2, 8), [2, 6, 8]),  # What most streams show is with no part.
])  # fmt: skip
def test_a_part_of_a_change_is_with_what_as_few_show_by_themselves(known, broken, after, streams):
    names = [f"p1:d{n}" for n in range(known)]
    later = [named(again(alert(names[at], minute)), heat=(38.0, 6.2)) for at, minute in broken.items()]
    later += [again(alert(names[at], 1_000)) for at in after]
    assert sizes(incidents(*change_of(names, load=(5.0, 2.0)), *later, streams=known)) == streams


@pytest.mark.parametrize(("later", "streams"), [(1_000, [3, 4]), (1_900, [1, 3, 4])])
def test_what_one_stream_shows_is_its_own_unless_others_come_to_it_within_a_day(later, streams):
    names = NAMES[:4]
    shown = [named(again(alert(name, later if at else 440)), heat=(38.0, 6.2)) for at, name in enumerate(names)]
    assert sizes(incidents(*change_of(names, load=(5.0, 2.0)), *shown)) == streams


@pytest.mark.parametrize(("number", "count"), [(0, 2), (1, 1)])
def test_a_new_cluster_is_far_from_all_before_only_where_the_first_is_kept(number, count):
    change = [*WORK, alert("p1:d1", 302), drift("p1:d1", 322, load=(2, 5))]
    shown = [emerged("p1:d1", 430, each, heat=38.0, load=each) for each in (8, 9, 10)]
    assert len(incidents(*change, emerged("p1:d1", 20, number, heat=6.2, load=2), *shown)) == count


@pytest.mark.parametrize(("share", "since"), [(1.0, "07:00"), (0.5, "06:40"), (0.1, "05:02")])
@pytest.mark.parametrize("order", [1, -1])
def test_what_an_alert_names_of_a_new_cluster_is_all_that_is_new_and_began_with_it(share, since, order):
    """The load of noon is outside the first cluster, of midnight: the model has learned it since, and its alert knows.

    Other records were unlike before, for what came to the whole fleet.
    """
    fleet = [
        each for name in NAMES[:4] for each in (emerged(name, 20, 0, load=5.0, heat=6.2), drift(name, 310, wait=(2, 5)))
    ]
    made = named(alert("p1:d1", 600, records=300.0, unlike=150.0), heat=(38.0, 6.2))
    new = alert("p1:d1", 600, "new_cluster", severity="info", share=share)
    new[1]["cluster"] = "p1:d1/1/7"
    for each in (made, new):
        each[1]["began"] = output("", "p1:d1", 302)[1]["time"]
    burst = emerged("p1:d1", 440, 7, load=60.0, heat=38.0)
    burst[1]["after"][0]["size"] = 20
    broke = next(each for each in incidents(*[*fleet, burst, made, new][::order]) if each["streams"] == ["p1:d1"])
    assert [(each["feature"], each["value"]) for each in broke["features"]] == [("heat", 38.0)]
    assert broke["since"][11:16] == since


@pytest.mark.parametrize(("own", "common", "streams"), [
    ((60.0, 27.0, 33.0), 8, [1, 4]),
    ((60.0, 27.0, 33.0), 9, [4]),  # Of many features one is far by chance.
    ((33.4, 33.0, 33.0), 1, [4]), ((0.6, 0.5, 0.5), 1, [1, 4]),  # It never varied.
    ((20.0, 29.9, 30.1), 1, [4]),  # It varies less than the same feature of others, which went as far.
])  # fmt: skip
def test_what_one_stream_has_beside_what_all_have_is_its_own_where_it_is_far_and_not_one_of_many(own, common, streams):
    names, others = NAMES[:4], {f"f{n}": (20.0, 30.0) for n in range(common)}
    night = [named(again(alert(name, 440)), heat=(20.0, 30.0), **others) for name in names]
    night[3][1]["features"][0] |= zip(("value", "low", "high"), own, strict=True)
    assert sizes(incidents(*change_of(names), *night)) == streams


@pytest.mark.parametrize(("load", "until", "streams"), [
    ((2, 5), 700, [4]), ((20, 28), 700, [4]),
    ((2, 12.5), 700, [1, 3]),  # More than three times as far as any other.
    ((5, 2), 700, [1, 3]), ((2, 5), 480, [1, 3]),  # The others have settled before.
])  # fmt: skip
def test_a_drift_that_goes_with_the_change_of_most_streams_meanwhile_is_of_that(load, until, streams):
    others = [NAMES[n] for n in (0, 2, 3)]
    change = [drift(name, 300, load=(2, 5)) for name in others]
    change += [output("drift_events", name, until, kind="settled", opened=0, seq=1, units=[]) for name in others]
    found = incidents(*change, drift("p1:d1", 520, load=load))
    assert sizes(found) == streams
    # Of one that also goes its own way that is apart, and all that it does so later.
    own = drift("p1:d1", 520, load=load, heat=(6.2, 38.0)), drift("p1:d1", 1_000, seq=1, heat=(38.0, 60.0))
    own[1][1]["continues"] = 0
    alone = next(each for each in incidents(*change, *own) if each["streams"] == ["p1:d1"])
    assert alone["features"][0] == {"feature": "heat", "value": 60.0, "usual": 6.2}
    assert len(alone["features"]) == (1 if streams == [4] else 2)


@pytest.mark.parametrize(("ratio", "count"), [(1.6, 1), (0.4, 1), (3.1, 2), (0.01, 2)])
def test_how_much_a_feature_varies_while_most_streams_change_is_of_that_but_for_noise_and_what_is_stuck(ratio, count):
    made = drift("p1:d1", 520)
    made[1]["units"] = changed("load", "widened" if ratio > 1 else "narrowed", shift=0.1, ratio=ratio)
    assert len(incidents(*(drift(NAMES[n], 300, load=(2, 5)) for n in (0, 2, 3)), made)) == count


def test_a_wave_of_most_streams_takes_the_drifts_of_one_that_end_where_it_was_and_a_climb_goes_not_to_and_fro():
    wave = [
        drift(NAMES[n], 240 + 300 * at + 40 * n, seq=at, load=((2.0, 5.0), (5.0, 2.0))[at % 2])
        for at in range(3) for n in range(4)
    ]  # fmt: skip
    climb = [drift("p1:d1", 700 + 140 * at, seq=5 + at, heat=(20.0 * at + 6, 20.0 * at + 26)) for at in range(3)]
    up, all_ = incidents(*wave, drift("p1:d1", 1_300, seq=9, load=(2.0, 4.0)), *climb)
    assert all_["text"].startswith("all 4 streams: goes to and fro since 2026-05-06 03:55:00, 4 drifts, last ")
    assert up["text"] == "p1:d1: drifted since 2026-05-06 11:35:00, heat 66, usually 6"


@pytest.mark.parametrize(("co2", "count"), [(700.0, 1), (1_900.0, 2)])
def test_hours_that_a_changed_fleet_has_not_had_since_are_of_the_change_where_their_values_were_there_before(
    co2, count
):
    names = NAMES[:4]
    known = [emerged(name, 20 + at, at, heat=21.0, co2=(400.0, 760.0)[at]) for name in names for at in range(2)]
    change = [named(alert(name, 302), heat=(19.0, 21.0)) for name in names]
    monday = [named(again(alert(name, 1_300)), co2=(co2, 400.0)) for name in names]
    assert len(incidents(*known, *change, *monday)) == count


@pytest.mark.parametrize(("load", "kind"), [(5.2, "like_others"), (9.0, "broke")])
def test_a_stream_that_becomes_at_another_time_what_most_others_did_is_not_unlike_them(load, kind):
    late, _ = incidents(*WORK, alert("p1:d1", 900), drift("p1:d1", 920, load=(2, load)))
    assert (late["kind"], late["streams"], "alone among" in late["text"]) == (kind, ["p1:d1"], kind == "broke")


def test_a_stream_is_not_like_others_by_what_it_has_itself_in_their_change():
    own = drift("p1:d1", 320, load=(2, 5), temp=(20.0, 24.0))
    shown = [named(again(alert("p1:d1", 900)), temp=(23.0, 20.0)), drift("p1:d1", 920, seq=1, temp=(20.0, 23.0))]
    late, _ = incidents(*WORK, alert("p1:d1", 302), own, *shown)
    assert (late["kind"], late["streams"]) == ("broke", ["p1:d1"])


def test_a_stream_that_breaks_soon_after_a_change_stays_one_of_those_that_changed():
    # The alert of the change is still open: only clusters show that the stream broke.
    shown = [emerged(NAMES[1], 345, each, heat=38.0, load=2.6, noise=each) for each in (8, 9, 10)]
    broke, change = incidents(*CHANGE, *shown, streams=6)
    assert (broke["kind"], broke["streams"], broke["since"][11:16]) == ("broke", [NAMES[1]], "05:38")
    assert (change["kind"], len(change["streams"])) == ("new_kind", 6)


@pytest.mark.parametrize("change", [[], CHANGE])
@pytest.mark.parametrize(("noise", "streams"), [(5.0, [2]), (0.2, [1, 1])])
def test_two_that_break_alike_are_one_incident_though_one_is_farther_off_in_a_feature(noise, streams, change):
    one = again(named(alert(NAMES[0], 440), heat=(38.0, 6.2), flow=(30.0, 3.0)))
    other = again(named(alert(NAMES[1], 450), heat=(38.0, 6.2), flow=(30.0, 3.0), noise=(noise, 2.0)))
    known = [made for made in CHANGE if made[0] == "cluster_events"]
    # The alert that is open says nothing of the cluster that is farther.
    farther = emerged(NAMES[0], 460, 8, heat=38.0, flow=30.0, noise=90.0, load=2.0)
    found = incidents(*known, *change, one, other, farther, streams=6)
    assert sizes(found) == [*streams, *([6] if change else [])]


def test_what_is_apart_from_a_change_is_with_what_breaks_alike_and_not_with_what_is_left():
    # Of what they have in common with the change the records of the fault say only the noise.
    one = named(alert(NAMES[0], 350), noise=(3.2, 2.0), heat=(38.0, 6.2), flow=(30.0, 3.0))
    other = again(named(alert(NAMES[1], 360), noise=(3.2, 2.0), heat=(38.0, 6.2), flow=(30.0, 3.0)))
    change = [made for made in CHANGE if made[0] != "alerts" or made[1]["stream"] != NAMES[0]]
    assert sizes(incidents(*change, one, other, streams=6)) == [2, 5]


def test_a_stream_is_with_the_one_that_it_agrees_with_and_not_with_more_that_say_nothing_of_it():
    several = [named(alert(name, 300), load=(5.0, 2.0)) for name in NAMES[:3]]
    one = named(alert(NAMES[3], 320), heat=(38.0, 6.2), load=(1.7, 2.0))
    other = named(alert(NAMES[4], 325), heat=(38.0, 6.2))
    assert sizes(incidents(*several, one, other, streams=6)) == [2, 3]


@pytest.mark.parametrize(("load", "streams"), [(41.0, [2]), (10.0, [1, 1])])
def test_streams_whose_drifts_name_different_features_are_one_where_the_clusters_of_each_went_both_ways(load, streams):
    known = [emerged(name, 20, 0, load=10.0, heat=20.0) for name in NAMES]
    one = [drift(NAMES[0], 310, load=(10, 40)), *new_kind(NAMES[0], 330, load=40.0, heat=80.0)]
    other = [drift(NAMES[1], 315, heat=(20, 80)), *new_kind(NAMES[1], 335, load=load, heat=79.0)]
    assert sizes(incidents(*known, *one, *other, streams=6)) == streams


@pytest.mark.parametrize(("unlike", "count"), [(130.0, 1), (60.0, 2)])
def test_a_drift_within_what_a_stream_became_while_its_alert_was_open_is_of_that(unlike, count):
    opened = named(alert(NAMES[1], 300), load=(260.0, 70.0))
    cleared = named(alert(NAMES[1], 490, kind="cleared", records=190.0, unlike=unlike, outside=1.0), load=(260.0, 70.0))
    assert len(incidents(opened, cleared, drift(NAMES[1], 900, load=(100.0, 255.0)), streams=6)) == count


@pytest.mark.parametrize(("feature", "minute", "count"), [("heat", 610, 1), ("load", 610, 2), ("heat", 1_100, 2)])
def test_the_first_drift_soon_after_what_broke_is_of_that_in_what_its_alert_has_not_named(feature, minute, count):
    broke = named(alert(NAMES[1], 300, unlike=15.0, records=15.0), load=(260.0, 70.0))
    learned = named(alert(NAMES[1], 460, kind="cleared", unlike=15.0, records=15.0, outside=1.0), load=(260.0, 70.0))
    assert len(incidents(broke, learned, drift(NAMES[1], minute, **{feature: (2.0, 9.0)}), streams=6)) == count


@pytest.mark.parametrize(("others", "streams"), [(2, [5]), (1, [3]), (0, [3])])
def test_alerts_that_name_nothing_are_of_a_change_where_most_streams_are_unlike_at_that_time(others, streams):
    known = [emerged(f"p{n % 2}:d{n}", 20, 0, load=2.0) for n in range(8)]
    change = [named(alert(name, 300), load=(5.0, 2.0)) for name in NAMES[:3]]
    nameless = [made for name in NAMES[3 : 3 + others] for made in over(name, 310, 350, records=20.0, unlike=15.0)]
    assert sizes(incidents(*known, *change, *nameless, streams=8)) == streams
    assert not incidents(*known, *nameless, streams=8)


@pytest.mark.parametrize(("behind", "streams"), [(0, [1, 1]), (60, [1, 1, 2])])
def test_streams_that_break_otherwise_at_the_same_time_are_apart_with_what_they_have_in_common(behind, streams):
    known = [emerged(name, 20, 0, heat=6.2, flow=3.0, noise=2.0) for name in NAMES]
    common = [drift(name, 340, noise=(2.0, 80.0)) for name in NAMES[:2]]
    one = named(alert(NAMES[0], 338 + behind), heat=(38.0, 6.2), noise=(80.0, 2.0))
    other = named(alert(NAMES[1], 338 + behind), heat=(0.3, 6.2), noise=(80.0, 2.0))
    assert sizes(incidents(*known, *common, one, other, streams=6)) == streams


@pytest.mark.parametrize(("every", "streams"), [(1, [1, 4]), (30, [4])])
def test_what_several_of_a_change_come_to_within_the_time_that_evidence_takes_is_of_it(every, streams):
    names = NAMES[:4]
    known = [emerged(name, 20, 0, load=2.0, heat=6.2) for name in names]
    shown = [emerged(name, 1_900 if at else 440, 7, heat=38.0, load=5.0) for at, name in enumerate(names)]
    assert sizes(incidents(*known, *change_of(names), *shown, every=every)) == streams


@pytest.mark.parametrize(("began", "streams"), [(310, [1, 4]), (900, [1, 1, 4])])
def test_where_a_drift_of_a_stream_went_long_before_a_change_it_is_not_apart_from_it(began, streams):
    known = [emerged(name, 20, 0, load=2.0, heat=6.2) for name in NAMES[:4]]
    change = [named(alert(name, 1_002), load=(5.0, 2.0)) for name in NAMES[:4]]
    crept = drift("p1:d1", began, heat=(6.2, 36.0))
    crept[1]["units"][0]["features"][0]["shift"] = 20.0
    assert sizes(incidents(*known, crept, *change, emerged("p1:d1", 1_030, 7, heat=38.0, load=5.0))) == streams


@pytest.mark.parametrize(("high", "streams"), [(12.0, [1, 3]), (37.0, [4])])
def test_a_feature_that_the_alert_of_a_new_cluster_has_hardly_off_is_none_of_its_own(high, streams):
    """The cluster is far from those that were there before: what its model has learned since, the alert knows."""
    known = [emerged(name, 20, 0, load=2.0, heat=6.2) for name in NAMES[:4]]
    change = [named(alert(name, 302), load=(5.0, 2.0)) for name in NAMES[:4]]
    change[1][1]["features"] += [{"feature": "heat", "value": 38.0, "low": 6.0, "high": high}]
    assert sizes(incidents(*known, *change, *new_kind("p1:d1", 305, heat=38.0, load=5.0))) == streams


@pytest.mark.parametrize(("seen", "streams"), [(5_400, [6]), (320, [1, 5])])
def test_a_drift_that_was_seen_in_a_change_is_of_it_though_it_seems_to_have_begun_days_before(seen, streams):
    known = [emerged(name, 20, 0, heat=6.2) for name in NAMES]
    change = [named(alert(name, 5_300), heat=(38.0, 6.2)) for name in NAMES[1:]]
    made = drift(NAMES[0], seen, heat=(6.2, 38.0))
    made[1]["since"]["time"] = output("", NAMES[0], 300)[1]["time"]
    assert sizes(incidents(*known, *change, made, streams=6, every=30)) == streams


def test_a_change_that_drifts_show_began_when_most_of_them_did_and_few_alerts_do_not_name_it():
    """A drift begins at a mark before its first record, which may be far before that in hours of rest."""
    made = [drift(name, 320, load=(9.0, 2.5)) for name in NAMES]
    for (_, event), began in zip(made, (180, 230, 296, 300, 302, 304), strict=True):
        event["since"]["time"] = output("", "p1:d1", began)[1]["time"]
    known = named(alert(NAMES[0], 345, known=1.0), load=(2.5, 9.0))
    (found,) = incidents(*made, known, streams=6)
    assert found["text"].startswith("all 6 streams: drifted since 2026-05-06 05:00:00, load ")
    (found,) = incidents(*made, *(named(alert(name, 330, known=1.0), load=(2.5, 9.0)) for name in NAMES), streams=6)
    assert "a rare, known kind of records" in found["text"]
