"""Streams that show the same at the same time are one incident, and others are not."""

import pytest

from tests.pipeline.incidents.outputs import WORK, alert, drift, emerged, incidents, named, output


def test_what_many_streams_became_is_said_with_what_these_were():
    (found,) = incidents(*WORK)
    assert found["text"].startswith("p0:d0, p0:d2, p1:d3: a new kind of records since")
    assert found["text"].endswith(", load 5, usually 2")
    # A stream of which only its new cluster is known does not say what the others became.
    new = alert("p1:d1", 330, "new_cluster", severity="info")
    new[1]["cluster"] = "p1:d1/1/7"
    (found,) = incidents(*WORK, alert("p1:d1", 301), emerged("p1:d1", 310, load=6.5), new)
    assert found["text"].startswith("all 4 streams: a new kind of records since")
    assert found["text"].endswith(", load 5, usually 2")


def test_a_stream_without_its_clusters_is_compared_by_what_the_signs_of_all_say():
    names = [f"p{n % 2}:d{n}" for n in range(4)]
    clusters = [emerged(name, 20 + at, at, load=load) for name in names[1:] for at, load in enumerate((2.0, 5.0))]
    (found,) = incidents(*clusters, *(named(alert(name, 300), load=(5.0, 2.0)) for name in names))
    assert len(found["streams"]) == 4


@pytest.mark.parametrize(("knows", "since"), [(False, "10:10:00"), (True, "10:12:00")])
def test_a_change_of_many_began_in_the_middle_of_what_drifts_say_or_when_an_alert_knows(knows, since):
    """Cumulative sums leave 0 some records early in a few of many streams."""
    outputs = [drift(f"p0:d{n}", 600 if n in (3, 5) else 615, load=(10, 20)) for n in range(10)]
    if knows:
        made = named(alert("p0:d7", 620, unlike=8.0, records=8.0), load=(20, 10))
        made[1]["began"] = output("", "p0:d7", 612)[1]["time"]
        outputs.append(made)
    (found,) = incidents(*outputs, streams=10)
    assert (len(found["streams"]), found["since"][11:19]) == (10, since)


@pytest.mark.parametrize("after", [-1.6, 1.5])
def test_streams_with_levels_of_their_own_that_go_the_same_way_are_one(after):
    levels = [20.0 * n + 10 for n in range(4)]
    drifts = [drift(f"p{n % 2}:d{n}", 320 + n, heat=(low, low + after * (5 + n))) for n, low in enumerate(levels)]
    alerts = [named(alert(f"p{n % 2}:d{n}", 310), heat=(low * (1 + 0.2 * after), low)) for n, low in enumerate(levels)]
    assert [len(each["streams"]) for each in incidents(*drifts)] == [4]
    assert [len(each["streams"]) for each in incidents(*alerts)] == [4]


def test_streams_that_are_off_in_other_ways_are_not_one():
    work = [named(alert(f"p{n % 2}:d{n}", 300 + n), heat=(50.0, 77.0), load=(30.0, 40.0)) for n in (0, 2, 3)]
    found = incidents(*work, named(alert("p1:d1", 301), heat=(15.0, 35.0), noise=(9.0, 3.0)))
    assert {each["kind"]: each["streams"] for each in found} == {
        "new_kind": ["p0:d0", "p0:d2", "p1:d3"],
        "broke": ["p1:d1"],
    }
    (of_work,) = (each["features"] for each in found if each["kind"] == "new_kind")
    assert of_work[0] == {"feature": "heat", "value": 50.0, "usual": pytest.approx(77.0), "low": 69.3, "high": 84.7}
    # Of streams with scales of their own the same way counts.
    (one,) = incidents(*work, named(alert("p1:d1", 301), heat=(500.0, 770.0)))
    assert len(one["streams"]) == 4
    # Where it names another feature, that is of this stream alone, unless it is hardly off.
    for noise, streams in (
        (500.0, [["p1:d1"], ["p0:d0", "p0:d2", "p1:d3"]]),
        (670.0, [["p0:d0", "p1:d1", "p0:d2", "p1:d3"]]),
    ):
        found = incidents(*work, named(alert("p1:d1", 301), noise=(noise, 770.0)))
        assert [each["streams"] for each in found] == streams
    # One that names nothing is with those of its time, not with any one, nor with what is of one stream alone.
    moved = [drift(stream, 308, load=(2, 5)) for stream in ("p0:d0", "p0:d2", "p1:d3")]
    assert [len(incidents(*moved[:count], alert("p1:d1", 305))) for count in (1, 3)] == [2, 1]
    found = incidents(named(alert("p1:d1", 300), noise=(500.0, 770.0)), alert("p0:d2", 302))
    assert [each["streams"] for each in found] == [["p0:d2"], ["p1:d1"]]


def test_what_many_have_in_common_is_said_since_alerts_know_it_and_without_what_only_ends_of_drifts_name():
    shown = []
    for n, stream in enumerate(("p1:d1", "p0:d2", "p1:d3", "p0:d4")):
        moved = drift(stream, 330, card=(1_900.0, 1_400.0))
        moved[1]["since"]["time"] = output("", stream, 250)[1]["time"]  # It seems to have begun long before.
        end = drift(stream, 900, seq=1, card=(1_900.0, 1_400.0), cash=(60.0, 40.0), version=(8.4, 8.5))[1]["units"]
        # One names something else, too.
        values = {"card": (400.0, 1_900.0)} | ({"heat": (22.0, 20.0)} if n == 1 else {})
        shown += [named(alert(stream, 308 + n, records=6.0), **values), moved] if n < 3 else [moved]
        shown.append(output("drift_events", stream, 900, kind="settled", opened=0, seq=1, units=end))
    (found,) = incidents(*shown, streams=10)
    assert (len(found["streams"]), [each["feature"] for each in found["features"]]) == (4, ["card"])
    assert found["since"][11:16] == "04:56"


def test_what_goes_to_and_fro_is_not_one_with_what_is_off_in_another_stream():
    waves = [drift("p0:d2", 240 + 300 * at, seq=at, heat=((6.2, 38.0), (38.0, 6.2))[at % 2]) for at in range(4)]
    found = incidents(*waves, named(alert("p1:d1", 238), heat=(38.0, 6.2)))
    assert sorted(each["streams"] for each in found) == [["p0:d2"], ["p1:d1"]]


def test_streams_that_vary_and_that_are_off_at_the_same_time_are_not_one():
    noisy = drift("p0:d2", 310, noise=(5.0, 5.0, 6.0))
    noisy[1]["units"][0]["features"][0]["change"] = "widened"
    found = incidents(noisy, named(alert("p1:d1", 308), heat=(38.0, 6.2)))
    assert {each["streams"][0]: each["features"][0]["feature"] for each in found} == {"p0:d2": "noise", "p1:d1": "heat"}
    # So are those that are off and those that drift, but where they go the same way.
    for after, count in ((38.0, 1), (5.0, 2)):
        moved = drift("p0:d2", 310, heat=(6.2, after))
        assert len(incidents(moved, named(alert("p1:d1", 308), heat=(38.0, 6.2)))) == count


def test_streams_with_levels_of_their_own_that_are_off_alike_are_one_incident():
    shown = []
    for stream, level, usual in (("p1:d1", 5.0, 22.0), ("p0:d2", 15.0, 21.0), ("p1:d3", 40.0, 23.0)):
        new = alert(stream, 340, "new_cluster", severity="info", share=0.3, records=60.0)
        new[1].update(cluster=f"{stream}/1/7", began=alert(stream, 300)[1]["time"])
        shown += [
            emerged(stream, 20, 0, temp=usual, load=level, wet=40.0),
            named(alert(stream, 306, records=6.0, unlike=6.0), temp=(usual + 4, usual)),
            # What it has beside that is of the hour.
            emerged(stream, 315, 7, temp=usual + 4, load=level, wet=40.0 + 10 * (level < 10)),
            new,
        ]
    (found,) = incidents(*shown, streams=10)
    assert sorted(found["streams"]) == ["p0:d2", "p1:d1", "p1:d3"]
    assert [each["feature"] for each in found["features"]] == ["temp"]
    # What they stay is as urgent as a drift, though no alert on it is open.
    cleared = [alert(stream, 500, kind="cleared", outside=1.0) for stream in found["streams"]]
    (learned,) = incidents(*shown, *cleared, streams=10)
    assert (found["severity"], learned["severity"], learned["is_open"]) == ("critical", "warning", True)


def test_what_is_stuck_is_not_one_with_what_is_noisy():
    noisy, stuck = drift("p1:d1", 300, heat=(3.0, 3.0, 4.0)), drift("p0:d2", 300, heat=(3.0, 3.4, 0.0))
    for (_, event), change in ((noisy, "widened"), (stuck, "narrowed")):
        event["units"][0]["features"][0]["change"] = change
    assert sorted(each["streams"] for each in incidents(noisy, stuck)) == [["p0:d2"], ["p1:d1"]]


@pytest.mark.parametrize(
    ("first", "seen", "behind", "streams"),
    [
        (300, 330, 0, [1, 4]),
        (300, 450, 0, [5]),  # Evidence takes time.
        (390, 392, 0, [5]),
        (300, 330, 40, [5]),  # They come in turns.
    ],
)
def test_a_stream_that_is_off_long_before_others_begin_together_is_none_of_them(first, seen, behind, streams):
    names = [f"p{n % 2}:d{n}" for n in range(5)]
    early = named(alert(names[0], seen), load=(5.0, 2.0))
    early[1]["began"] = output("", names[0], first)[1]["time"]
    flood = [named(alert(name, 405 + behind * at), load=(5.0, 2.0)) for at, name in enumerate(names[1:])]
    found = incidents(early, *flood, streams=5)
    assert sorted(len(each["streams"]) for each in found) == streams
