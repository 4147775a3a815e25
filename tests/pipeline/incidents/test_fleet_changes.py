"""A change of a fleet, and streams of it that break at about that time, are incidents of their own."""

import pytest

from tests.pipeline.incidents.test_incidents import alert, drift, emerged, incidents, named

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


def again(made):
    """Another alert of a stream that had one before."""
    made[1]["key"] += "again"
    return made


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
