"""Whether what an incident shows is open, learned, or over and since when."""

from itertools import permutations

import pytest
from resonance.pipeline.incidents.incidents import row_of

from tests.pipeline.incidents.outputs import BROKE, NEW, WORK, again, alert, drift, emerged, incidents, named, output


@pytest.mark.parametrize(("after", "said"), [
    (0.012, "drifted since 2026-05-06 05:05:00, error 0.08, usually 0.01; over since 2026-05-06 13:15"),
    (0.06, "goes to and fro since 2026-05-06 05:05:00, 2 drifts, last 2026-05-06 13:15: error 0.01 to 0.08"),
])  # fmt: skip
def test_a_rate_that_is_back_is_over(after, said):
    there, back = drift("p1:d1", 310, error=(0.01, 0.08)), drift("p1:d1", 800, seq=2, error=(0.08, after))
    settled = [output("drift_events", "p1:d1", at, kind="settled", opened=of, seq=of + 1, units=[])
               for of, at in ((0, 500), (2, 1000))]  # fmt: skip
    (found,) = incidents(there, settled[0], back, settled[1])
    assert found["text"] == f"p1:d1: {said}"
    assert found["is_open"] is False


def test_what_a_drift_takes_back_that_seems_to_have_begun_before_is_over_when_that_is_seen():
    there, back = drift("p1:d1", 310, error=(0.01, 0.08)), drift("p1:d1", 800, seq=2, error=(0.08, 0.012))
    back[1]["since"]["time"] = output("", "p1:d1", 290)[1]["time"]
    settled = output("drift_events", "p1:d1", 500, kind="settled", opened=0, seq=1, units=[])
    (found,) = incidents(there, settled, back)
    assert found["text"].endswith("; over since 2026-05-06 13:20")


@pytest.mark.parametrize(
    ("outside", "state", "how", "end"),
    [(1.0, "learned", "at a new level since", ""), (0.0, "over", "broke", "; over since 2026-05-06 08:20")],
)
def test_what_an_alert_shows_is_learned_where_the_record_that_clears_it_is_as_far(outside, state, how, end):
    shown = named(alert("p1:d1", 300), heat=(8.0, 6.2)), alert("p1:d1", 500, kind="cleared", outside=outside)
    (found,) = incidents(*shown)
    since = "2026-05-06 04:56:00, heat 8, usually 5.58 to 6.82; alone among 4 streams"
    assert row_of(found) == ("critical", state, f"p1:d1: {how} {since}{end}")
    recovered = output("drift_events", "p1:d1", 800, kind="recovered", opened=0, seq=1, units=[])
    (found,) = incidents(*shown, drift("p1:d1", 310, heat=(6.2, 8.0)), recovered)
    assert row_of(found)[1] == "over" and ": broke " in found["text"]


def test_an_incident_is_over_with_its_alerts():
    (found,) = incidents(alert("p1:d1", 300), alert("p1:d1", 330, kind="cleared"))
    assert not found["is_open"]


def test_an_incident_of_many_is_as_urgent_as_what_is_open_of_it_and_a_fault_of_one_that_is_learned_as_it_was():
    ends = [
        alert("p1:d1", 500, kind="cleared"),
        output("drift_events", "p1:d1", 800, kind="settled", opened=0, seq=1, units=[]),
        alert("p1:d1", 900, "new_cluster", kind="cleared"),
    ]
    seen = [incidents(*BROKE, NEW, *ends[:count])[0] for count in range(4)]
    assert {each["severity"] for each in seen} == {"critical"}
    assert [each["is_open"] for each in seen] == [True, True, True, False]
    work = [alert(stream, 500, kind="cleared") for stream in ("p0:d0", "p0:d2", "p1:d3")]
    assert [incidents(*WORK, *work[:count])[0]["severity"] for count in (2, 3)] == ["critical", "warning"]


def test_a_stream_that_stays_what_it_became_is_at_a_new_level_until_it_drifts_back():
    learned = [
        NEW,
        alert("p1:d1", 500, kind="cleared"),
        output("drift_events", "p1:d1", 800, kind="settled", opened=0, seq=1, units=[]),
    ]
    (found,) = incidents(*BROKE, *learned)
    assert found["text"] == (
        "p1:d1: at a new level since 2026-05-06 04:56:00, heat 38, usually 6.2; alone among 4 streams"
    )
    back = [
        drift("p1:d1", 1_000, seq=2, heat=(38.0, 6.2)),
        output("drift_events", "p1:d1", 1_300, kind="settled", opened=2, seq=3, units=[]),
    ]
    assert "broke 2026" in incidents(*BROKE, *learned, *back)[-1]["text"]
    assert "broke 2026" in incidents(*BROKE, *learned[:2])[-1]["text"]


def test_a_later_message_counts_where_times_go_back():
    cleared = alert("p1:d1", 290, kind="cleared")
    cleared[1]["seq"] = 301
    (found,) = incidents(cleared, alert("p1:d1", 300))
    assert not found["is_open"]


def test_a_drift_whose_model_is_gone_is_over_with_its_alert():
    started = drift("p1:d1", 300, load=(2.0, 5.0))
    assert incidents(started)[0]["is_open"]
    gone = alert("p1:d1", 400, rule="drift_open", kind="cleared", severity="warning")
    (found,) = incidents(gone, started)
    assert not found["is_open"]


def test_an_alert_that_opens_again_under_its_key_is_open_in_whichever_order_it_is_read():
    first, cleared, again = alert("p1:d1", 300), alert("p1:d1", 330, kind="cleared"), alert("p1:d1", 360)
    for order in permutations((first, cleared, again)):
        (found,) = incidents(*order)
        assert (found["is_open"], found["since"]) == (True, "2026-05-06T05:56:00.000Z")


@pytest.mark.parametrize("shares", [[1.0], [0.3, 0.25, 0.25]])
def test_what_a_stream_has_become_is_learned_and_takes_the_hours_that_it_meets_anew(shares):
    def again(minute, known, **features):
        made = named(alert("p1:d1", minute, records=8.0, unlike=4.0, known=known), **features)
        made[1]["key"] += str(minute)
        return [made, (made[0], {**made[1], "kind": "cleared", "seq": minute + 1})]

    new = [alert("p1:d1", 340, "new_cluster", severity="info", share=share) for share in shares]
    for number, (_, each) in enumerate(new):
        each["cluster"], each["key"] = f"p1:d1/1/{7 + number}", f"{each['key']}{number}"
    cleared = [(kind, {**each, "kind": "cleared", "seq": 900, "evidence": {"share": 0.04}}) for kind, each in new]
    changed = [*again(300, 0.0, load=(0.6, 50.0)), *new, *cleared]
    night, nameless, burst = again(700, 1.0, heat=(1.0, 5.0)), again(1_000, 0.0), again(1_100, 0.0, noise=(9.0, 1.0))
    of_burst, of_change = incidents(*changed, *night, *nameless, *burst, streams=1)
    states = [(row_of(each)[1], each["signs"]) for each in (of_burst, of_change)]
    assert states == [("over", 1), ("learned", 3 + len(shares))]
    vanished = [
        output("cluster_events", "p1:d1", 1_200, kind="vanished", cluster=each["cluster"], after=[], before=[])
        for _, each in new
    ]
    assert row_of(incidents(*changed, *vanished, streams=1)[0])[1] == "over"


def test_a_drift_that_settled_is_learned_until_the_next_one_and_one_that_recovered_is_over():
    settled = output("drift_events", "p1:d1", 400, kind="settled", opened=0, seq=1, units=[])
    first, later = drift("p1:d1", 310, heat=(6.2, 38.0)), drift("p1:d1", 900, seq=2, heat=(38.0, 60.0))
    assert [row_of(each)[1] for each in incidents(first, settled)] == ["learned"]
    assert [row_of(each)[1] for each in incidents(first, settled, later)] == ["open", "over"]
    recovered = settled[0], {**settled[1], "kind": "recovered"}
    assert [row_of(each)[1] for each in incidents(first, recovered)] == ["over"]


@pytest.mark.parametrize(
    ("kind", "feature", "after", "state"),
    [
        ("settled", "heat", 60.0, "over"),
        ("settled", "load", 60.0, "learned"),  # The baseline has the heat of the first one still.
        ("recovered", "heat", None, "learned"),
        ("recovered", "heat", 6.2, "over"),  # It went back to the place before the last.
    ],
)
def test_a_drift_is_learned_as_long_as_no_later_one_ends_with_the_same_features_elsewhere(kind, feature, after, state):
    ends = []
    for seq, of, place, ended in ((1, "heat", 38.0, "settled"), (3, feature, after, kind)):
        ends.append(drift("p1:d1", 400 * seq, seq=seq, **({of: (9.0, place)} if place else {})))
        ends[-1][1].update(kind=ended, opened=seq - 1)
    later = drift("p1:d1", 900, seq=2, **{feature: (38.0, 60.0)})
    assert row_of(incidents(drift("p1:d1", 310, heat=(6.2, 38.0)), later, *ends)[-1])[1] == state


@pytest.mark.parametrize(
    ("records", "unlike", "end"), [(10.0, 10.0, "06:15"), (20.0, 10.0, "07:39"), (40.0, 10.0, "08:20")]
)
def test_what_an_alert_shows_is_over_with_its_last_record_and_not_when_usual_ones_have_cleared_it(records, unlike, end):
    """In the beginning all records were unlike, or half of them, or a quarter; usual ones came until it was clear."""
    opened = alert("p1:d1", 300, records=records, unlike=unlike)
    opened[1]["began"] = output("", "p1:d1", 291)[1]["time"]
    shown = [named(each, heat=(8.0, 6.2)) for each in (
        opened, alert("p1:d1", 500, kind="cleared", outside=0.0, records=210.0, unlike=84.0)
    )]  # fmt: skip
    assert incidents(*shown)[0]["text"].endswith(f"; over since 2026-05-06 {end}")


def test_what_is_missing_is_over_with_the_last_record_that_lacks_it():
    shown = [alert("p1:d1", 300, "missing", feature="heat") for _ in range(2)]
    shown[0][1]["evidence"] = {"missing": 50.0, "records": 100.0, "usual": 0.0}
    shown[1][1].update(kind="cleared", seq=301, time=output("", "p1:d1", 600)[1]["time"])
    shown[1][1]["evidence"] = {"missing": 80.0, "records": 400.0}
    for each in shown:
        each[1].update(feature="heat", began=output("", "p1:d1", 200)[1]["time"])
    assert incidents(*shown)[0]["text"].endswith("; over since 2026-05-06 06:00")


@pytest.mark.parametrize(("feature", "end"), [("heat", "08:20"), ("load", "13:20")])
def test_what_an_alert_and_a_drift_show_in_the_same_feature_is_over_by_the_first_of_their_ends(feature, end):
    shown = named(alert("p1:d1", 300), heat=(38.0, 6.2)), alert("p1:d1", 500, kind="cleared", outside=0.0)
    recovered = output("drift_events", "p1:d1", 800, kind="recovered", opened=0, seq=1, units=[])
    (found,) = incidents(*shown, drift("p1:d1", 310, **{feature: (6.2, 38.0)}), recovered)
    assert found["text"].endswith(f"; over since 2026-05-06 {end}")


@pytest.mark.parametrize(
    ("heat", "load", "unlike", "cluster", "outside", "state"),
    [
        (38.0, {}, 5.0, 38.0, {"outside": 0.0}, "over"),
        (38.0, {}, 5.0, 38.0, {"outside": 1.0}, "open"),
        (38.0, {}, 5.0, 38.0, {}, "open"),  # Nothing says where the last record is.
        (38.0, {}, 3.0, 38.0, {"outside": 0.0}, "open"),  # Beside the usual ones the new kind may still come.
        (38.0, {}, 3.0, 60.0, {"outside": 0.0}, "over"),
        (2.0, {}, 5.0, 2.0, {"outside": 0.0}, "open"),  # It went the other way.
        (38.0, {"load": (1.0, 5.0)}, 5.0, 38.0, {"outside": 0.0}, "open"),
    ],
)
@pytest.mark.parametrize("is_settled", [False, True])
def test_a_drift_that_lasts_is_over_where_the_record_that_clears_its_alert_is_as_before_in_all_that_it_moved(
    heat, load, unlike, cluster, outside, state, is_settled
):
    shown = [
        named(alert("p1:d1", 300, unlike=unlike, records=5.0), heat=(heat, 6.2)),
        drift("p1:d1", 310, scope="stream", heat=(6.2, 38.0), **load),
        emerged("p1:d1", 400, heat=cluster),
        alert("p1:d1", 700, kind="cleared", unlike=30.0, records=90.0, **outside),
    ]
    settled = [output("drift_events", "p1:d1", 500, kind="settled", opened=0, seq=1, units=[])] * is_settled
    (found,) = incidents(*shown, *settled, streams=1)
    assert row_of(found)[1] == ("learned" if is_settled and state == "open" else state)
    # A share of the records that drifted, and not the whole stream, may be away at that record.
    shown[1][1]["scope"] = "cluster"
    (found,) = incidents(*shown, *settled, streams=1)
    assert row_of(found)[1] == ("learned" if is_settled else "open")


def whole(stream, until, share=1.0, centre=34.0, **outside):
    """A stream becomes a new cluster, and the alert on it ends."""
    new = alert(stream, 320, "new_cluster", severity="info", share=share)
    new[1]["cluster"] = f"{stream}/1/7"
    cleared = alert(stream, until, kind="cleared", unlike=until - 310.0, records=until - 300.0, **outside)
    return [named(alert(stream, 300), heat=(38.0, 6.2)), emerged(stream, 310, heat=centre), new, cleared]


@pytest.mark.parametrize(
    ("until", "share", "centre", "outside", "state"),
    [
        (3_900, 1.0, 34.0, 0.0, "over"),
        (3_900, 1.0, 34.0, 1.0, "open"),
        # It may come beside the usual records, or at some hours of the day, or is another kind.
        (3_900, 0.6, 34.0, 0.0, "open"),
        (2_900, 1.0, 34.0, 0.0, "open"),
        (3_900, 1.0, 6.2, 0.0, "open"),
    ],
)
def test_a_new_cluster_is_over_where_all_of_two_days_was_in_it_and_the_record_that_clears_its_alert_is_as_before(
    until, share, centre, outside, state
):
    shown = whole("p1:d1", until, share, centre, outside=outside)
    (found,) = incidents(*shown)
    assert row_of(found)[1] == state
    assert ("; over since 2026-05-08 1" in found["text"]) == (state == "over")
    (found,) = incidents(*shown, alert("p1:d1", 4_500, "new_cluster", kind="cleared", share=0.04))
    assert row_of(found)[1] == state.replace("open", "learned")


@pytest.mark.parametrize(("began", "state"), [(280, "over"), (330, "open")])
def test_what_many_streams_show_is_over_though_few_have_learned_it_or_drift_by_its_records_when_it_is(began, state):
    streams = "p0:d0", "p1:d1", "p0:d2", "p1:d3", "p0:d4"
    belated = drift("p1:d1", 4_000, heat=(6.2, 9.0))
    belated[1]["since"]["time"] = output("", "p1:d1", began)[1]["time"]
    shown = [each for name in streams for each in whole(name, 3_900, outside=float(name == "p0:d0"))]
    learned = alert("p0:d0", 3_950, "new_cluster", kind="cleared", share=0.04)
    (found,) = incidents(*shown, belated, learned, streams=5)
    assert (row_of(found)[1], len(found["streams"])) == (state, 5)


@pytest.mark.parametrize(
    ("before", "after", "begins", "state"),
    [
        # The next drift begins where this one went, so that this has stayed.
        (3.8, -9.0, 1_100, "learned"),
        (11.4, 30.0, 1_100, "over"),
        # It begins with the end of this one: nothing was as before.
        (11.4, -9.0, 805, "learned"),
    ],
)
def test_a_drift_that_recovers_is_over_unless_the_next_one_says_that_nothing_was_as_before(
    before, after, begins, state
):
    recovered = output("drift_events", "p1:d1", 800, kind="recovered", opened=0, seq=1, units=[])
    later = drift("p1:d1", begins, seq=2, value=(before, after))
    settled = output("drift_events", "p1:d1", 1_300, kind="settled", opened=2, seq=3, units=[])
    found = incidents(drift("p1:d1", 310, value=(11.5, 3.6)), recovered, later, settled)
    assert {row_of(each)[1] for each in found if each["since"] < "2026-05-06T06"} == {state}


def test_what_a_stream_that_broke_has_by_day_is_of_the_same_fault():
    broke = named(alert("p1:d1", 300, unlike=10.0, records=10.0), value=(4.0, 12.0))
    cleared = alert("p1:d1", 700, kind="cleared", outside=1.0, unlike=30.0, records=100.0)
    by_day = again(named(alert("p1:d1", 1_700, unlike=9.0, records=9.0), value=(4.9, 4.0)))
    usual = again(alert("p1:d1", 1_900, kind="cleared", outside=0.0))
    there = drift("p1:d1", 320, value=(12.0, 4.0))
    settled = output("drift_events", "p1:d1", 900, kind="settled", opened=0, seq=1, units=[])
    (found,) = incidents(broke, cleared, by_day, usual, there, settled)
    assert row_of(found)[1] == "learned" and "since 2026-05-06 04:51:00" in found["text"]


@pytest.mark.parametrize(("value", "state"), [((876.0, 340.0), "over"), ((5_100.0, 1_430.0), "learned")])
def test_a_burst_that_is_over_is_so_though_its_stream_has_another_kind_of_records_later(value, state):
    burst = named(alert("p1:d1", 300, unlike=6.0, records=6.0), ppm=(5_000.0, 1_430.0))
    back = alert("p1:d1", 309, kind="cleared", outside=0.0)
    rare = again(named(alert("p1:d1", 1_200, severity="warning", unlike=10.0, records=10.0, known=1.0), ppm=value))
    known = again(alert("p1:d1", 1_230, kind="cleared", outside=1.0))
    found = incidents(burst, back, rare, known)
    assert row_of(found[-1])[1] == state


def test_what_is_over_for_most_streams_is_not_open_for_those_that_are_silent_since_or_have_a_new_cluster():
    streams = [f"p{n % 2}:d{n}" for n in range(6)]
    storm = [named(alert(each, 300, unlike=6.0, records=6.0), wind=(48.0, 8.0)) for each in streams]
    calm = [alert(each, 700, kind="cleared", outside=0.0, unlike=390.0, records=400.0) for each in streams[:4]]
    drifts = [drift(each, 310, scope="stream", wind=(8.0, 48.0)) for each in streams]
    recovered = [output("drift_events", each, 760, kind="recovered", opened=0, seq=1, units=[]) for each in streams[:4]]
    silent = [alert(each, 900, "silent", severity="warning", seconds=21_600.0) for each in streams[4:]]
    new = alert("p0:d0", 400, "new_cluster", severity="info", share=1.0)
    new[1]["cluster"] = "p0:d0/1/7"
    cluster = emerged("p0:d0", 330, wind=48.0)
    found = incidents(*storm, *calm, *drifts, *recovered, *silent, cluster, new, streams=6)
    (wind,) = [each for each in found if each["kind"] != "silent"]
    assert row_of(wind)[1] == "over" and "over since 2026-05-06 1" in wind["text"]
    # It goes on for those that have records still.
    found = incidents(*storm, *calm, *drifts, *recovered, cluster, new, streams=6)
    assert row_of(found[-1])[1] == "open"
