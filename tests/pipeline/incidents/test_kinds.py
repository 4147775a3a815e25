"""Whether a stream broke, has a new kind of records, or one that it or others have had."""

import pytest
from resonance.pipeline.incidents.incidents import row_of

from tests.pipeline.incidents.outputs import BROKE, NIGHTS, again, alert, drift, emerged, incidents, named, output


def test_a_stream_that_broke_is_named_with_what_it_was_and_is():
    (found,) = incidents(*BROKE)
    assert found["text"] == "p1:d1: broke 2026-05-06 04:56:00, heat 38, usually 6.2; alone among 4 streams"
    assert (found["signs"], found["certainty"], found["is_open"], found["severity"]) == (2, "sure", True, "critical")


def test_a_kind_that_comes_each_night_is_one_incident_that_says_how_often():
    nights = []
    for night in range(5):
        opened = named(alert("p1:d1", 270 + 280 * night, records=5.0, known=float(night > 0)), disk=(120.0, 40.0))
        opened[1]["key"] += str(night)
        nights.append(opened)
    # That of another stream is with them; what goes the other way is not.
    other = named(alert("p0:d2", 970, records=5.0, known=1.0), disk=(125.0, 40.0))
    less = named(alert("p1:d3", 900, records=5.0, known=1.0), disk=(2.0, 40.0))
    low, again, first = incidents(other, less, *nights)
    assert (first["kind"], first["signs"], low["signs"], again["streams"]) == ("broke", 1, 1, ["p1:d1", "p0:d2"])
    assert again["text"] == (
        "p1:d1, p0:d2: a rare, known kind of records since 2026-05-06 09:06:00, up to 4 times each, "
        "last 2026-05-06 23:06, disk 122, usually 36 to 44"
    )


def test_records_of_a_known_kind_alone_are_no_break():
    known = named(alert("p1:d1", 300, records=6.0, unlike=6.0, known=1.0), heat=(38.0, 6.2))
    assert incidents(known)[0]["kind"] == "back"
    assert incidents(known, drift("p1:d1", 310, heat=(6.2, 38.0)))[0]["kind"] == "broke"


@pytest.mark.parametrize(("share", "before", "is_named"), [(0.97, 0.4, True), (0.7, 0.4, False), (0.97, 1.0, False)])
def test_a_new_kind_names_the_value_of_a_category_that_nearly_all_its_records_have_and_not_all_others(
    share, before, is_named
):
    new = alert("p0:d0", 480, "new_cluster", severity="info", share=0.2)
    new[1]["cluster"] = "p0:d0/1/9"
    usual = emerged("p0:d0", 20, 0, load=2.0, **{"shop=x": before})
    (found,) = incidents(usual, emerged("p0:d0", 430, 9, load=50.0, **{"shop=x": share}), new, streams=1)
    assert found["text"].endswith("; nearly all shop=x") == is_named


def test_a_few_unlike_records_among_the_usual_ones_are_a_new_kind():
    (found,) = incidents(alert("p1:d1", 300, records=72.0, unlike=12.0))
    assert found["kind"] == "new_kind"


@pytest.mark.parametrize(("known", "kind", "text"), [
    (0.0, "new_kind", "a new kind of records since"), (1.0, "back", "a rare, known kind of records since"),
])  # fmt: skip
@pytest.mark.parametrize("wave", [250, 310, 420])
def test_a_burst_of_a_stream_without_others_is_named_by_its_alert_not_by_the_wave_of_the_day(known, kind, text, wave):
    burst = named(alert("p0:d0", 300, records=6.0, unlike=6.0, known=known), cpu=(100.0, 35.0))
    found = incidents(burst, drift("p0:d0", wave, scope="stream", cpu=(25, 44), heat=(5, 9)), streams=1)
    (of_burst,) = (each for each in found if each["alerts"])
    assert (of_burst["kind"], of_burst["features"][0]["feature"], of_burst["features"][0]["value"]) == (
        kind,
        "cpu",
        100,
    )
    assert text in of_burst["text"]


@pytest.mark.parametrize(("known", "kind"), [(0.0, "new"), (1.0, "rare, known")])
def test_a_kind_of_some_records_is_not_as_the_mean_of_all(known, kind):
    some = named(alert("p1:d1", 300, records=10.0, unlike=4.0, known=known), water=(480.0, 300.0), heat=(65.0, 88.0))
    (found,) = incidents(some, drift("p1:d1", 310, water=(250.0, 340.0)))
    assert found["text"] == (
        f"p1:d1: a {kind} kind of records since 2026-05-06 04:51:00, "
        "water 480, usually 270 to 330, heat 65, usually 79.2 to 96.8"
    )


@pytest.mark.parametrize(("known", "kind"), [(0.0, "new"), (1.0, "rare, known")])
def test_a_lasting_step_of_one_feature_says_what_is_usual_though_a_wave_moves_others(known, kind):
    # The first alert of the wave is of records that are partly usual still.
    first = named(alert("p1:d1", 300, records=72.0, unlike=12.0, known=known), load=(2.2, 2.0), heat=(37.0, 6.2))
    (found,) = incidents(first, drift("p1:d1", 310, heat=(6.2, 38.0), flow=(5, 7)))
    assert found["text"] == (
        f"p1:d1: a {kind} kind of records since 2026-05-06 03:49:00, "
        "heat 38, usually 6.2, load 2.2, usually 1.8 to 2.2, flow 7, usually 5"
    )


@pytest.mark.parametrize(
    ("unlike", "heat", "kind"), [(6.0, 5.2, "new_kind"), (6.0, 38.0, "broke"), (9.0, 5.2, "broke")]
)
def test_records_that_leave_what_is_usual_by_and_by_have_not_broken(unlike, heat, kind):
    (found,) = incidents(named(alert("p1:d1", 300, records=9.0, unlike=unlike), heat=(heat, 6.2)))
    assert found["kind"] == kind


@pytest.mark.parametrize(("minute", "heat", "gone", "count"), [
    (6_000, 70.0, False, 1), (6_000, 21.0, False, 0), (2_000, 70.0, False, 0), (6_000, 70.0, True, 0)
])  # fmt: skip
def test_a_rare_kind_that_comes_long_after_the_others_and_is_far_from_them_is_news(minute, heat, gone, count):
    first, late = emerged("p0:d0", 5, 0, heat=20.0, load=3.0), emerged("p0:d0", minute, 1, heat=heat, load=3.0)
    for _, made in (first, late):
        made["after"][0]["spread"] = {"heat": 1.0, "load": 1.0}
    own = [first, late, output("cluster_events", "p0:d0", 7_000, kind="split", cluster=None, after=[], before=[])]
    if gone:
        key = late[1]["cluster"]
        own.append(output("cluster_events", "p0:d0", 7_000, kind="vanished", cluster=key, after=[], before=[]))
    found = incidents(*own, streams=1)
    assert len(found) == count
    for each in found:
        assert each["text"] == "p0:d0: a new kind of records since 2026-05-10 03:57:30, heat 70, usually 19 to 21"
        assert row_of(each)[:2] == ("info", "learned")


@pytest.mark.parametrize(("load", "apart"), [(6.9, 1), (19.0, 2)])
def test_hours_that_a_changed_stream_has_not_had_are_no_news_where_they_are_near(load, apart):
    new = alert("p1:d1", 310, "new_cluster", severity="info", share=0.9)
    later = named(alert("p1:d1", 600), load=(load, 6.2))
    assert len(incidents(named(alert("p1:d1", 300), heat=(31.0, 6.2)), new, later)) == apart


def test_a_stream_that_begins_with_what_most_others_do_has_not_broken():
    new = alert("p1:d1", 340, "new_cluster", severity="info")
    new[1]["cluster"] = "p1:d1/1/7"
    mine = [alert("p1:d1", 300), emerged("p1:d1", 310, load=5.0, heat=40.0), new]
    theirs = [emerged(f"p{n % 2}:d{n}", 20, load=5.2, heat=41.0) for n in (0, 2)]
    (found,) = incidents(*mine, *theirs)
    assert found["text"] == (
        "p1:d1: records as most other streams have them since 2026-05-06 04:56:00, heat 40, load 5"
    )
    (found,) = incidents(*mine, theirs[0], emerged("p0:d2", 20, load=9.0, heat=41.0), emerged("p1:d3", 20, load=1.0))
    assert found["kind"] == "broke"


@pytest.mark.parametrize(("heat", "usual", "kind", "severity"), [
    (12.1, 12.2, "new_kind", "info"), (14.0, 12.2, "broke", "warning"), (16.0, 12.2, "broke", "critical"),
    # Of many scales, and none that is known.
    (0.0011, 0.0012, "broke", "warning"),
])  # fmt: skip
def test_records_at_night_that_hardly_differ_beside_what_comes_by_day_are_no_break(heat, usual, kind, severity):
    made, over = alert("p1:d1", 3_000, unlike=5.0, records=5.0), alert("p1:d1", 3_100, kind="cleared", outside=0.0)
    # Of what was over, and differed in nothing that can be named, there is nothing to say.
    assert not incidents(NIGHTS, made, over)
    many = alert("p1:d1", 3_100, kind="cleared", outside=0.0, unlike=120.0)
    assert [each["severity"] for each in incidents(NIGHTS, made, many)] == ["info"]
    # What is open and cannot be named may be grave.
    (found,) = incidents(NIGHTS, made)
    assert (found["kind"], found["severity"]) == ("broke", "critical")
    (found,) = incidents(NIGHTS, named(made, heat=(heat, usual)), over)
    assert (found["kind"], found["severity"]) == (kind, severity)


@pytest.mark.parametrize(("minute", "heat", "ends", "outside", "count"), [
    (900, 15.0, True, 0.0, 0), (2_400, 15.0, True, 0.0, 0), (3_000, 15.0, True, 0.0, 1), (900, 38.0, True, 0.0, 1),
    (900, 15.0, False, 0.0, 1), (900, 15.0, True, 1.0, 0), (2_400, 15.0, True, 1.0, 1),
])  # fmt: skip
def test_a_young_stream_that_wanders_a_little_further_for_a_while_is_no_incident(minute, heat, ends, outside, count):
    """Also for days, unless it stays there."""
    first = emerged("p1:d1", 5, 0, heat=12.0)
    made = named(alert("p1:d1", minute, unlike=5.0, records=5.0), heat=(heat, 12.0))
    over = alert("p1:d1", minute + 90, kind="cleared", outside=outside), drift("p0:d1", 4_000, heat=(9.0, 30.0))
    assert sum("p1:d1" in each["streams"] for each in incidents(first, made, *over[not ends :])) == count
    # A fleet that changes is one, however young it is.
    others = [named(alert(f"p1:e{n}", minute, unlike=5.0, records=5.0), heat=(heat, 12.0)) for n in range(3)]
    assert any(len(each["streams"]) > 2 for each in incidents(first, made, *over, *others))


def test_an_alert_that_names_nothing_names_what_the_cluster_that_came_differs_in():
    shown = [alert("p1:d1", 300, unlike=5.0, records=5.0), emerged("p1:d1", 340, heat=12.0, load=3.0)]
    (found,) = incidents(NIGHTS, *shown)
    assert found["features"] == [{"feature": "load", "value": 3.0, "usual": 0.0, "low": 0.0, "high": 0.0}]
    assert found["text"].endswith("load 3, usually 0; alone among 4 streams")


def test_what_comes_beside_what_was_there_is_no_break():
    made = alert("p1:d1", 300, unlike=5.0, records=5.0)
    for heat, severity in ((12.6, "info"), (33.0, "critical")):
        assert incidents(NIGHTS, made, emerged("p1:d1", 310, heat=heat, load=0.0))[-1]["severity"] == severity


@pytest.mark.parametrize("shown", [
    [named(alert("p1:d1", 300), heat=(38.0, 6.2))],
    [named(alert("p1:d1", 300), heat=(38.0, 6.2)), drift("p1:d1", 310, heat=(6.2, 38.0))],
])  # fmt: skip
def test_clusters_from_before_a_stream_had_a_feature_say_nothing_of_it(shown):
    (found,) = incidents(emerged("p1:d1", 20, 0, load=2.0), *shown)
    assert (found["kind"], found["features"][:1]) == ("broke", incidents(*shown)[0]["features"][:1])


@pytest.mark.parametrize(("heat", "kind"), [(150.0, "broke"), (50.5, "broke"), (54.0, "like_others")])
def test_records_are_as_others_have_them_only_where_what_changed_is_too(heat, kind):
    same = {f"of{n}": 5.0 for n in range(9)}
    mine = [
        named(alert("p1:d1", 300), heat=(heat, 46.0)),
        emerged("p1:d1", 310, heat=heat, **same),
        alert("p1:d1", 340, "new_cluster", severity="info"),
    ]
    mine[-1][1]["cluster"] = "p1:d1/1/7"
    (found,) = incidents(*mine, *(emerged(f"p{n % 2}:d{n}", 20, heat=54.5, **same) for n in (0, 2, 3)))
    usual = {"usual": 46.0, "low": pytest.approx(41.4), "high": pytest.approx(50.6)}
    assert (found["kind"], found["features"][0]) == (kind, {"feature": "heat", "value": heat, **usual})


def test_of_a_stream_that_broke_the_drift_and_its_alert_name_first_what_a_later_mean_does_not():
    settled = drift("p1:d1", 900, heat=(48.0, 88.0), noise=(2.0, 12.0), load=(11.0, 13.0))
    settled[1].update(kind="settled", opened=0, seq=1)
    broke = named(alert("p1:d1", 300, records=6.0, unlike=6.0), load=(13.0, 11.0))
    (found,) = incidents(broke, drift("p1:d1", 320, noise=(2.0, 11.0)), settled)
    assert found["text"].startswith("p1:d1: broke 2026-05-06 04:55:00, noise 12, usually 2; alone")
    assert [each["feature"] for each in found["features"]] == ["noise", "load"]


@pytest.mark.parametrize(
    ("load", "heat", "is_again"), [(38.0, 3.0, True), (38.4, 9.9, True), (60.0, 3.0, False), (2.3, 3.0, False)]
)
def test_a_kind_that_a_stream_has_again_is_named_by_when_it_came_first(load, heat, is_again):
    """The heat follows the weather, and the model may not know the kind."""
    first = named(alert("p1:d1", 300), load=(38.0 if load > 3 else 2.3, 2.0), flow=(9.0, 2.0))
    first[1]["features"][0].update(low=1.0, high=3.0)
    over = alert("p1:d1", 400, kind="cleared", outside=0.0)
    later = named(alert("p1:d1", 1_300), load=(load, 2.0), heat=(heat, 6.2))
    later[1]["features"][0].update(low=1.0, high=3.0)
    later[1]["key"] += "later"
    found, _ = incidents(first, over, later, streams=1)
    how = "again the kind of records of 2026-05-06 04:58" if is_again else "a new kind of records"
    assert found["text"].startswith(f"p1:d1: {how} since 2026-05-06 21:38:00, load {load:.3g}, usually 1 to 3")
    assert (found["kind"], found["severity"]) == (("back", "warning") if is_again else ("new_kind", "critical"))


@pytest.mark.parametrize(
    ("feature", "value", "minute", "known", "count"),
    [
        ("heat", 38.0, 430, 0.0, 2),
        ("load", 38.0, 430, 0.0, 1),
        ("heat", 38.0, 350, 0.0, 1),  # What else is off may be seen a little later.
        ("heat", 6.9, 430, 0.0, 1),
        ("heat", 38.0, 430, 1.0, 1),
    ],
)
def test_what_is_far_off_only_in_other_features_and_later_is_another_incident(feature, value, minute, known, count):
    creep = [named(alert("p1:d1", 270), load=(3.0, 2.0)), drift("p1:d1", 300, load=(2.0, 4.0))]
    later = named(again(alert("p1:d1", minute, records=5.0, unlike=5.0, known=known)), **{feature: (value, 6.2)})
    found = incidents(*creep, later, streams=1, every=2)
    assert len(found) == count
    if count == 2:
        assert [each["features"][0]["feature"] for each in found] == ["heat", "load"]


@pytest.mark.parametrize(("minute", "first"), [(302, "heat"), (420, "load")])
def test_what_a_drift_found_comes_first_unless_it_was_seen_long_after_the_alert(minute, first):
    (found,) = incidents(named(alert("p1:d1", 300), load=(900.0, 40.0)), drift("p1:d1", minute, heat=(6.2, 38.0)))
    assert found["features"][0]["feature"] == first
