"""Streams without records, records without a feature, and when what a stream shows after a pause began."""

from itertools import permutations

import pytest
from resonance.pipeline.incidents.incidents import IncidentTable
from resonance.pipeline.incidents.signs import seconds

from tests.pipeline.incidents.outputs import BROKE, WORK, again, alert, drift, emerged, incidents, named, output


def test_a_silence_of_many_began_with_the_first_that_fell_silent():
    outputs = [alert(f"p0:d{n}", 600 + n, "silent", severity="warning", seconds=300.0) for n in range(5)]
    (found,) = incidents(*outputs, streams=5)
    assert (len(found["streams"]), found["since"][11:19]) == (5, "09:55:00")


@pytest.mark.parametrize(("hours", "apart", "count"), [(1.2, 400, 1), (9.0, 400, 2), (1.2, 2_400, 2)])
def test_silences_that_are_over_are_one_incident_within_a_day_where_they_are_about_as_long(hours, apart, count):
    pauses = [
        (alert(stream, begin, "silent", severity="warning", seconds=600.0),
         alert(stream, begin + 650, "silent", kind="cleared", seconds=3_600.0 * long))
        for stream, begin, long in (("p1:d1", 300, 1.0), ("p1:d3", 300 + apart, hours))
    ]  # fmt: skip
    found = incidents(*pauses[0], *pauses[1])
    assert len(found) == count
    # One that lasts is another matter.
    assert len(incidents(*pauses[0], pauses[1][0])) == 2


def test_what_comes_long_after_is_another_incident_and_silences_are_none_of_the_data():
    silent = [alert(f"p0:d{n}", 300, "silent", severity="warning", seconds=600.0) for n in (0, 2)]
    found = incidents(*BROKE, again(alert("p1:d1", 900)), *silent)
    assert [(each["kind"], len(each["streams"])) for each in found] == [("broke", 1), ("broke", 1), ("silent", 2)]


def test_a_silence_says_how_long_it_was_or_is_until_the_last_record_that_is_known():
    silent = [alert(f"p1:d{n}", 300, "silent", severity="warning", seconds=600.0) for n in (1, 3)]
    ended = [alert(f"p1:d{n}", 650, "silent", kind="cleared", seconds=7_200.0 * n) for n in (1, 3)]
    (found,) = incidents(silent[0], ended[0])
    assert found["text"] == "p1:d1: no record for 2 h from 2026-05-06 04:50:00 until 2026-05-06 06:50"
    (of_both,) = incidents(*silent, *ended)
    how = "no record for up to 6 h from 2026-05-06 04:50:00 until 2026-05-06 10:50"
    assert of_both["text"] == f"p1:d1, p1:d3: {how}"
    table = IncidentTable()
    lasting = alert("p1:d1", 300, "silent", severity="warning", seconds=600.0, usual_seconds=60.0)
    other = output("cluster_events", "p1:d3", 480, kind="vanished", cluster=None, after=[], before=[])
    for kind, payload in (other, lasting):
        table.apply(kind, payload)
    since = "; usually one comes every 60 s, since 2026-05-06 04:50:00"
    assert table.incidents()[0]["text"] == f"p1:d1: has had no record for 3.17 h so far{since}"
    table.reached("t", 1, seconds("2026-05-08T04:50:00.000Z"))
    assert table.incidents()[0]["text"] == f"p1:d1: has had no record for 2 d so far{since}"


@pytest.mark.parametrize(("kind", "minute", "since"), [
    ("emerged", 580, "10:00"), ("unlike", 591, "10:00"),
    # A drift is known to eight records.
    ("drift", 590, "10:00"), ("drift", 285, "10:00"), ("drift", 275, "04:35"), ("drift", 605, "10:05"),
])  # fmt: skip
def test_what_seems_to_begin_in_a_silence_began_with_the_first_record_after_it(kind, minute, since):
    made = alert("p1:d1", 610, "unlike" if kind == "unlike" else "new_cluster", records=611.0 - minute)
    made[1]["cluster"] = "p1:d1/1/9"
    came = emerged("p1:d1", 610, 9, heat=38.0)
    came[1]["after"][0]["size"] = 610 - minute
    drifted = drift("p1:d1", 610, heat=(6.2, 38.0))
    drifted[1]["since"]["time"] = output("", "p1:d1", minute)[1]["time"]
    shown = {"emerged": [came, made], "unlike": [made], "drift": [drifted]}[kind]
    began = alert("p1:d1", 300, "silent", severity="warning", seconds=600.0)
    ended = alert("p1:d1", 600, "silent", kind="cleared", seconds=18_600.0)
    (found,) = (each for each in incidents(began, ended, *shown) if each["kind"] != "silent")
    assert found["since"][11:16] == since


def test_of_two_silences_one_soon_after_the_other_the_first_one_counts_in_any_order():
    silences = [
        (alert("p1:d1", begin, "silent", seconds=600.0), alert("p1:d1", end, "silent", kind="cleared", seconds=long))
        for begin, end, long in ((300, 395, 6_300.0), (408, 425, 1_620.0))
    ]
    for number, pair in enumerate(silences):
        for _, payload in pair:
            payload["key"] += str(number)
    drifted = drift("p1:d1", 440, heat=(6.2, 38.0))
    drifted[1]["since"]["time"] = output("", "p1:d1", 394)[1]["time"]
    for first, second in permutations(silences):
        found = incidents(*first, *second, drifted)
        assert [each["since"][11:16] for each in found if each["kind"] == "drifted"] == ["06:35"]


def test_a_cluster_that_no_alert_shows_began_with_the_first_record_after_a_silence():
    change = [*WORK, alert("p1:d1", 302), drift("p1:d1", 322, load=(2, 5)), emerged("p1:d1", 20, 0, heat=6.2, load=2)]
    silent = [
        alert("p1:d1", 370, "silent", severity="warning", seconds=600.0),
        alert("p1:d1", 438, "silent", kind="cleared", seconds=4_680.0),
    ]
    shown = [emerged("p1:d1", 440, each, heat=38.0, load=each) for each in (8, 9, 10)]
    broke = [each["since"][11:16] for each in incidents(*change, *silent, *shown) if each["kind"] == "broke"]
    assert broke == ["07:18"]


def test_a_stream_that_pauses_broke_with_its_first_record_that_was_unlike():
    broke = alert("p1:d1", 300, records=5.0)
    broke[1]["began"] = "2026-05-06T01:00:00.000Z"
    assert [each["since"][11:16] for each in incidents(broke)] == ["01:00"]


def test_when_devices_that_come_one_behind_the_other_broke_is_known_by_their_own_records():
    table = IncidentTable()
    for n in range(5):
        stream, begin = f"p1:d{n}", 240 * n
        after = [{"id": f"{stream}/1/0", "size": 1, "centre": {}}]
        new = output("cluster_events", stream, begin, kind="emerged", reason={}, cluster=f"{stream}/1/0", after=after)
        # Silence is seen by a record of the next device.
        for kind, payload in (new, alert(stream, begin + 60, records=20.0), alert(stream, begin + 235, rule="silent")):
            table.apply(kind, payload)
    found = {each["streams"][0]: each["since"][11:16] for each in table.incidents() if each["kind"] != "silent"}
    assert found == {f"p1:d{n}": f"{4 * n:02d}:50" for n in range(5)}


def lacking(stream, minute, feature="do", kind="opened", missing=20, **records):
    """An alert that a feature is missing, in a row or in some of so many records, which began ten minutes before."""
    made = alert(stream, minute, "missing", kind, "warning", missing=missing, **records, usual=0.002)
    began = output("", stream, minute - 10)[1]["time"]
    made[1].update(feature=feature, began=began, key=f"alert/missing/{stream}/{feature}/1/0")
    return made


def test_a_feature_that_is_missing_is_an_incident_with_what_stands_for_it_and_at_its_end_says_of_how_many_records():
    outputs = lacking("p0:d1", 600), drift("p0:d1", 610, do=(7.5, 8.1))
    (found,) = incidents(*outputs)
    assert found["text"] == "p0:d1: do missing since 2026-05-06 09:50:00, usually in 1 of 500"
    assert (found["kind"], found["severity"], found["drifts"]) == ("other", "warning", 1)
    (ended,) = incidents(*outputs[:1], lacking("p0:d1", 990, kind="cleared", missing=400))
    how = "since 2026-05-06 09:50:00, in 400 records, usually in 1 of 500; over since 2026-05-06 16:30"
    assert ended["text"].endswith(how)
    assert not ended["is_open"]
    never = lacking("p0:d1", 600)
    never[1]["evidence"]["usual"] = 0.0
    assert incidents(never)[0]["text"].endswith("09:50:00, usually never missing")
    often = lacking("p0:d1", 600, missing=11, records=31)
    assert incidents(often)[0]["text"].endswith("09:50:00, in 11 of 31 records, usually in 1 of 500")
    (ended,) = incidents(often, lacking("p0:d1", 990, kind="cleared", missing=400, records=990))
    assert ended["text"].endswith("09:50:00, in 400 of 990 records, usually in 1 of 500; over since 2026-05-06 16:30")


@pytest.mark.parametrize(("other", "kind"), [({}, "other"), ({"ph": (3.0, 7.0)}, "broke")])
@pytest.mark.parametrize("value", [9.4, 9.4e3])
def test_what_is_unlike_in_a_missing_feature_alone_is_no_more_than_that_and_in_no_other_unit(value, other, kind):
    unlike = named(alert("p0:d1", 595, unlike=8.0, records=9.0), do=(value, 7.5), **other)
    changed = drift("p0:d1", 605, scope="stream", do=(7.5, 7.5e3, 1e3))
    (found,) = incidents(unlike, lacking("p0:d1", 600), changed)
    assert found["kind"] == kind
    if kind == "other":
        assert found["text"] == "p0:d1: do missing since 2026-05-06 09:43:00, usually in 1 of 500"
        assert found["severity"] == "warning"


def test_streams_that_lack_the_same_feature_are_one_incident_and_what_is_new_beside_it_is_said_first():
    several = incidents(*(lacking(f"p0:d{n}", 600 + n) for n in range(3)), lacking("p1:d3", 601, "ph"))
    assert sorted(len(each["streams"]) for each in several) == [1, 3]
    (found,) = incidents(lacking("p0:d1", 600), named(alert("p0:d1", 602, unlike=5.0, records=5.0), ph=(9.1, 7.0)))
    assert found["kind"] == "broke"
