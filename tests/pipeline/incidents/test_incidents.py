"""What happened to a fleet is one incident for each cause."""

import random
from itertools import permutations

import pytest
from jsonschema import Draft202012Validator
from resonance.engine.prepare.parameters import AUTO_COLUMNS
from resonance.pipeline.incidents import differences, sign_table
from resonance.pipeline.incidents.incidents import IncidentTable, row_of
from resonance.pipeline.incidents.signs import seconds
from resonance.schemas import load_schema


def output(topic, stream, minute, **members):
    """An output of a stream whose records come every minute."""
    time = f"2026-05-{6 + minute // 1_440:02}T{minute // 60 % 24:02}:{minute % 60:02}:00.000Z"
    source = {"topic": "t", "partition": int(stream[1]), "offset": 2 * minute}
    return topic, {"stream": stream, "version": 1, "time": time, "cause": {"id": None, "source": source}, **members}


def alert(stream, minute, rule="unlike", kind="opened", severity="critical", **evidence):
    """An alert, whose text is its rule."""
    made = output("alerts", stream, minute, kind=kind, rule=rule, severity=severity, text=rule)
    made[1].update(key=f"alert/{rule}/{stream}/1/0", since=made[1]["time"], seq=minute)
    made[1]["evidence"] = evidence or {"records": 5.0}
    return made


def drift(stream, minute, seq=0, scope="cluster", **moves):
    """A drift, of features that went from one value to another, and vary so many times as much."""
    features = [
        {
            "feature": name,
            "change": "moved",
            "before": before,
            "after": after,
            "shift": after - before,
            "spread": 1,
            "ratio": ratio[0] if ratio else 1,
        }
        for name, (before, after, *ratio) in moves.items()
    ]
    since = {"offset": 0, "time": output("", stream, minute - 5)[1]["time"]}
    units = [{"cluster": None, "change": ["moved"], "features": features}]
    return output("drift_events", stream, minute, kind="drift", seq=seq, scope=scope, since=since, units=units)


def apart(stream, minute, seq=0, **moves):
    """A drift of features beside what the others of their records say."""
    kind, event = drift(stream, minute, seq, scope="stream", **moves)
    event["units"][0]["beside"] = True
    return kind, event


def incidents(*outputs, streams=4):
    """The incidents of a fleet whose streams have an output at the beginning of the day and at its end."""
    table = IncidentTable()
    quiet = [
        output("cluster_events", f"p{n % 2}:d{n}", minute, kind="vanished", cluster=None, after=[], before=[])
        for n in range(streams)
        for minute in (0, 1_439)
    ]
    for kind, payload in [*quiet, *outputs]:
        table.apply(kind, payload)
    found = table.incidents()
    for each in found:
        Draft202012Validator(load_schema("incident")).validate(each)
    return found


def test_of_true_and_false_one_is_named():
    shares = {"open=false": (0.99, 0.7), "open=true": (0.01, 0.3), "mode=b": (0.2, 0.5), "mode=a": (0.6, 0.2)}
    (found,) = incidents(drift("p0:d0", 700, **shares))
    assert [each["feature"] for each in found["features"]] == ["mode=a", "mode=b", "open=false"]


def test_how_many_features_alerts_name_is_known():
    assert differences.PROJECTED == AUTO_COLUMNS


def named(made, **features):
    """An alert that names features, each with its value and what it usually is, give or take a tenth."""
    made[1]["features"] = [
        {"feature": name, "value": value, "low": 0.9 * usual, "high": 1.1 * usual}
        for name, (value, usual) in features.items()
    ]
    return made


def emerged(stream, minute, number=7, **centre):
    """A cluster of a stream emerges."""
    cluster = {"id": f"{stream}/1/{number}", "size": 5, "centre": centre}
    return output("cluster_events", stream, minute, kind="emerged", cluster=cluster["id"], after=[cluster])


BROKE = [alert("p1:d1", 300), drift("p1:d1", 310, heat=(6.2, 38.0))]
WORK = [
    *(alert(f"p{n % 2}:d{n}", 300 + n) for n in (0, 2, 3)),
    *(drift(f"p{n % 2}:d{n}", 320, load=(2, 5)) for n in (0, 2, 3)),
]


def test_a_stream_that_broke_is_named_with_what_it_was_and_is():
    (found,) = incidents(*BROKE)
    assert found["text"] == "p1:d1: broke 2026-05-06 04:56:00, heat 38, usually 6.2; alone among 4 streams"
    assert (found["signs"], found["certainty"], found["is_open"], found["severity"]) == (2, "sure", True, "critical")


def test_a_change_of_all_and_a_broken_stream_at_the_same_time_are_two():
    found = incidents(*BROKE, *WORK)
    assert sorted((each["kind"], len(each["streams"])) for each in found) == [("broke", 1), ("new_kind", 3)]


NEW = alert("p1:d1", 480, "new_cluster", severity="info", share=0.9)
NEW[1]["cluster"] = "p1:d1/1/9"


@pytest.mark.parametrize("shown", [
    [named(alert("p1:d1", 430), heat=(38.0, 6.2))],
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
    for each in shown:
        if each[1].get("rule") == "unlike":
            each[1]["key"] += "again"
    change = [*WORK, alert("p1:d1", 302), drift("p1:d1", 322, load=(2, 5)), emerged("p1:d1", 20, 0, heat=6.2, load=2)]
    broke, work = incidents(*[*change, *shown][::order])
    assert (broke["kind"], broke["severity"], broke["streams"]) == ("broke", "critical", ["p1:d1"])
    assert broke["text"].endswith(":00, heat 38, usually 6.2; alone among 4 streams")
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


@pytest.mark.parametrize(("value", "streams"), [(20.0, [4]), (60.0, [1, 4])])
def test_what_a_stream_of_a_change_shows_later_as_others_do_is_of_the_change(value, streams):
    names = [f"p{n % 2}:d{n}" for n in range(4)]
    change = [each for name in names for each in (alert(name, 302), drift(name, 320, load=(2, 5)))]
    night = [named(alert(name, 440), heat=(20.0, 30.0)) for name in names[:3]]
    late = named(alert(names[3], 500), heat=(value, 30.0))
    for each in (*night, late):
        each[1]["key"] += "night"
    assert [len(each["streams"]) for each in incidents(*change, *night, late)] == streams


@pytest.mark.parametrize(("broken", "behind", "streams"), [(2, 5, [2, 6]), (2, 40, [2, 6]), (3, 5, [6])])
def test_few_of_a_change_of_all_that_break_alike_later_are_one_incident(broken, behind, streams):
    names = [f"p{n % 2}:d{n}" for n in range(6)]
    change = [each for name in names for each in (alert(name, 302), drift(name, 320, load=(2, 5)))]
    broke = [named(alert(name, 440 + behind * at), heat=(38.0, 6.2)) for at, name in enumerate(names[:broken])]
    for each in broke:
        each[1]["key"] += "again"
    assert sorted(len(each["streams"]) for each in incidents(*change, *broke, streams=6)) == streams


@pytest.mark.parametrize(("known", "broken", "after", "streams"), [
    (5, {0: 440, 1: 790}, (), [2, 5]), (8, {0: 440, 1: 990, 2: 990}, (), [3, 8]),
    (8, {0: 700, 1: 700}, range(2, 8), [2, 6, 8]),  # What most streams show is with no part.
])  # fmt: skip
def test_a_part_of_a_change_is_with_what_as_few_show_by_themselves(known, broken, after, streams):
    names = [f"p1:d{n}" for n in range(known)]
    change = [
        each for name in names for each in (named(alert(name, 302), load=(5.0, 2.0)), drift(name, 320, load=(2, 5)))
    ]
    again = [named(alert(names[at], minute), heat=(38.0, 6.2)) for at, minute in broken.items()]
    again += [alert(names[at], 1_000) for at in after]
    for each in again:
        each[1]["key"] += "again"
    assert sorted(len(each["streams"]) for each in incidents(*change, *again, streams=known)) == streams


@pytest.mark.parametrize(("later", "streams"), [(1_000, [3, 4]), (1_900, [1, 3, 4])])
def test_what_one_stream_shows_is_its_own_unless_others_come_to_it_within_a_day(later, streams):
    names = [f"p{n % 2}:d{n}" for n in range(4)]
    change = [
        each for name in names for each in (named(alert(name, 302), load=(5.0, 2.0)), drift(name, 320, load=(2, 5)))
    ]
    again = [named(alert(name, later if at else 440), heat=(38.0, 6.2)) for at, name in enumerate(names)]
    for each in again:
        each[1]["key"] += "again"
    assert sorted(len(each["streams"]) for each in incidents(*change, *again)) == streams


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
        each
        for n in range(4)
        for each in (emerged(f"p{n % 2}:d{n}", 20, 0, load=5.0, heat=6.2), drift(f"p{n % 2}:d{n}", 310, wait=(2, 5)))
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


@pytest.mark.parametrize(("own", "common", "streams"), [
    ((60.0, 27.0, 33.0), 8, [1, 4]),
    ((60.0, 27.0, 33.0), 9, [4]),  # Of many features one is far by chance.
    ((33.4, 33.0, 33.0), 1, [4]), ((0.6, 0.5, 0.5), 1, [1, 4]),  # It never varied.
    ((20.0, 29.9, 30.1), 1, [4]),  # It varies less than the same feature of others, which went as far.
])  # fmt: skip
def test_what_one_stream_has_beside_what_all_have_is_its_own_where_it_is_far_and_not_one_of_many(own, common, streams):
    names = [f"p{n % 2}:d{n}" for n in range(4)]
    change = [each for name in names for each in (alert(name, 302), drift(name, 320, load=(2, 5)))]
    night = [
        named(alert(name, 440), heat=(20.0, 30.0), **{f"f{n}": (20.0, 30.0) for n in range(common)}) for name in names
    ]
    night[3][1]["features"][0] |= zip(("value", "low", "high"), own, strict=True)
    for each in night:
        each[1]["key"] += "again"
    assert sorted(len(each["streams"]) for each in incidents(*change, *night)) == streams


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


def test_a_silence_of_many_began_with_the_first_that_fell_silent():
    outputs = [alert(f"p0:d{n}", 600 + n, "silent", severity="warning", seconds=300.0) for n in range(5)]
    (found,) = incidents(*outputs, streams=5)
    assert (len(found["streams"]), found["since"][11:19]) == (5, "09:55:00")


@pytest.mark.parametrize("after", [-1.6, 1.5])
def test_streams_with_levels_of_their_own_that_go_the_same_way_are_one(after):
    levels = [20.0 * n + 10 for n in range(4)]
    drifts = [drift(f"p{n % 2}:d{n}", 320 + n, heat=(low, low + after * (5 + n))) for n, low in enumerate(levels)]
    alerts = [named(alert(f"p{n % 2}:d{n}", 310), heat=(low * (1 + 0.2 * after), low)) for n, low in enumerate(levels)]
    assert [len(each["streams"]) for each in incidents(*drifts)] == [4]
    assert [len(each["streams"]) for each in incidents(*alerts)] == [4]


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


def test_a_share_that_changed_is_one_incident_with_its_drift_and_says_which():
    drifted = drift("p1:d1", 310)
    share = {"before": 0.05, "after": 0.14}
    drifted[1]["units"] = [{"cluster": "p1:d1/1/4", "change": ["more"], "features": [], "share": share}]
    of_share = alert("p1:d1", 310, "share", severity="warning", before=0.05, after=0.14)
    of_share[1]["cluster"] = "p1:d1/1/4"
    (found,) = incidents(of_share, drifted)
    assert found["text"] == "p1:d1: p1:d1/1/4 has 14 % of the records, 5 % before, since 2026-05-06 05:05:00"


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
        "p1:d1, p0:d2: a rare, known kind of records since 2026-05-06 09:06:00, 5 times, last 2026-05-06 23:06, "
        "disk 122, usually 40"
    )


def test_records_of_a_known_kind_alone_are_no_break():
    known = named(alert("p1:d1", 300, records=6.0, unlike=6.0, known=1.0), heat=(38.0, 6.2))
    assert incidents(known)[0]["kind"] == "back"
    assert incidents(known, drift("p1:d1", 310, heat=(6.2, 38.0)))[0]["kind"] == "broke"


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


@pytest.mark.parametrize(("load", "until", "streams"), [
    ((2, 5), 700, [4]), ((20, 28), 700, [4]),
    ((2, 12.5), 700, [1, 3]),  # More than three times as far as any other.
    ((5, 2), 700, [1, 3]), ((2, 5), 480, [1, 3]),  # The others have settled before.
])  # fmt: skip
def test_a_drift_that_goes_with_the_change_of_most_streams_meanwhile_is_of_that(load, until, streams):
    change = [drift(f"p{n % 2}:d{n}", 300, load=(2, 5)) for n in (0, 2, 3)]
    change += [
        output("drift_events", f"p{n % 2}:d{n}", until, kind="settled", opened=0, seq=1, units=[]) for n in (0, 2, 3)
    ]
    found = incidents(*change, drift("p1:d1", 520, load=load))
    assert sorted(len(each["streams"]) for each in found) == streams
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
    assert len(incidents(*(drift(f"p{n % 2}:d{n}", 300, load=(2, 5)) for n in (0, 2, 3)), made)) == count


def test_a_wave_of_most_streams_takes_the_drifts_of_one_that_end_where_it_was_and_a_climb_goes_not_to_and_fro():
    wave = [
        drift(f"p{n % 2}:d{n}", 240 + 300 * at + 40 * n, seq=at, load=((2.0, 5.0), (5.0, 2.0))[at % 2])
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
    names = [f"p{n % 2}:d{n}" for n in range(4)]
    known = [emerged(name, 20 + at, at, heat=21.0, co2=(400.0, 760.0)[at]) for name in names for at in range(2)]
    change = [named(alert(name, 302), heat=(19.0, 21.0)) for name in names]
    monday = [named(alert(name, 1_300), co2=(co2, 400.0)) for name in names]
    for each in monday:
        each[1]["key"] += "monday"
    assert len(incidents(*known, *change, *monday)) == count


def test_a_feature_of_many_scales_that_is_a_thousand_times_what_it_was_is_in_another_unit():
    made = drift("p1:d1", 310, scope="stream", heat=(0.118, 109.0, 0.75))
    made[1]["units"][0]["features"][0]["shift"] = 1_668.0
    (found,) = incidents(made)
    assert found["text"] == "p1:d1: heat in another unit since 2026-05-06 05:05:00, x 1,000"


@pytest.mark.parametrize(("share", "before", "is_named"), [(0.97, 0.4, True), (0.7, 0.4, False), (0.97, 1.0, False)])
def test_a_new_kind_names_the_value_of_a_category_that_nearly_all_its_records_have_and_not_all_others(
    share, before, is_named
):
    new = alert("p0:d0", 480, "new_cluster", severity="info", share=0.2)
    new[1]["cluster"] = "p0:d0/1/9"
    usual = emerged("p0:d0", 20, 0, load=2.0, **{"shop=x": before})
    (found,) = incidents(usual, emerged("p0:d0", 430, 9, load=50.0, **{"shop=x": share}), new, streams=1)
    assert found["text"].endswith("; nearly all shop=x") == is_named


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


def test_streams_that_are_off_in_other_ways_are_not_one():
    work = [named(alert(f"p{n % 2}:d{n}", 300 + n), heat=(50.0, 77.0), load=(30.0, 40.0)) for n in (0, 2, 3)]
    found = incidents(*work, named(alert("p1:d1", 301), heat=(15.0, 35.0), noise=(9.0, 3.0)))
    assert {each["kind"]: each["streams"] for each in found} == {
        "new_kind": ["p0:d0", "p0:d2", "p1:d3"],
        "broke": ["p1:d1"],
    }
    (of_work,) = (each["features"] for each in found if each["kind"] == "new_kind")
    assert of_work[0] == {"feature": "heat", "value": 50.0, "usual": pytest.approx(77.0)}
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


def test_what_comes_long_after_is_another_incident_and_silences_are_none_of_the_data():
    again = alert("p1:d1", 900)
    again[1]["key"] += "1"
    silent = [alert(f"p0:d{n}", 300, "silent", severity="warning", seconds=600.0) for n in (0, 2)]
    found = incidents(*BROKE, again, *silent)
    assert [(each["kind"], len(each["streams"])) for each in found] == [("broke", 1), ("broke", 1), ("silent", 2)]


def test_a_new_cluster_belongs_to_the_drift_that_has_not_settled():
    later = alert("p1:d1", 900, "new_cluster", severity="info")
    (found,) = incidents(*BROKE, later)
    assert (found["kind"], found["signs"]) == ("broke", 3)
    assert len(incidents(BROKE[0], later)) == 2


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
def test_a_lasting_step_of_one_feature_says_what_is_usual_though_a_wave_moves_others(known, kind):
    # The first alert of the wave is of records that are partly usual still.
    first = named(alert("p1:d1", 300, records=72.0, unlike=12.0, known=known), load=(2.2, 2.0), heat=(37.0, 6.2))
    (found,) = incidents(first, drift("p1:d1", 310, heat=(6.2, 38.0), flow=(5, 7)))
    assert found["text"] == (
        f"p1:d1: a {kind} kind of records since 2026-05-06 03:49:00, "
        "heat 38, usually 6.2, load 2.2, usually 2, flow 7, usually 5"
    )


@pytest.mark.parametrize(
    ("unlike", "heat", "kind"), [(6.0, 5.2, "new_kind"), (6.0, 38.0, "broke"), (9.0, 5.2, "broke")]
)
def test_records_that_leave_what_is_usual_by_and_by_have_not_broken(unlike, heat, kind):
    (found,) = incidents(named(alert("p1:d1", 300, records=9.0, unlike=unlike), heat=(heat, 6.2)))
    assert found["kind"] == kind


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
        assert each["text"] == "p0:d0: a new kind of records since 2026-05-10 03:57:30, heat 70, usually 20"
        assert row_of(each)[:2] == ("info", "learned")


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


def test_streams_that_lack_the_same_feature_are_one_incident_and_what_is_new_beside_it_is_said_first():
    several = incidents(*(lacking(f"p0:d{n}", 600 + n) for n in range(3)), lacking("p1:d3", 601, "ph"))
    assert sorted(len(each["streams"]) for each in several) == [1, 3]
    (found,) = incidents(lacking("p0:d1", 600), named(alert("p0:d1", 602, unlike=5.0, records=5.0), ph=(9.1, 7.0)))
    assert found["kind"] == "broke"


def changed(name, kind, **members):
    """What a drift, or its end, says of a feature."""
    feature = {"feature": name, "change": kind, "before": 6.2, "after": 6.5, "spread": 1, **members}
    return [{"cluster": None, "change": [kind], "features": [feature]}]


@pytest.mark.parametrize(("shift", "ratio", "said"), [
    (0.4, 6.8, "broke 2026-05-06 04:56:00, heat varies 6.8 times as much"),
    (0.4, 2.4, "at a new level since 2026-05-06 04:56:00, heat 8, usually 6.2"),
    (3.4, 6.8, "at a new level since 2026-05-06 04:56:00, heat 6.5, usually 6.2"),
    (0.4, 6.9, "broke 2026-05-06 04:56:00, heat jumps 6.9 times as far from record to record"),
    (2.9, 0.05, "broke 2026-05-06 04:56:00, heat stays at 6.5, usually varies about 6.2"),
    (9.4, 0.05, "broke 2026-05-06 04:56:00, heat stays at 6.5, usually varies about 6.2"),
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
    assert found["text"].endswith(", volt stays at 0, usually varies about 399")
    assert found["features"] == [{"feature": "volt", "value": 0.0, "usual": 398.6, "ratio": 0.0}]


@pytest.mark.parametrize(("name", "count", "said"), [
    ("p0:d", 2, "p0:d0, p0:d1"), ("p0:d", 6, "p0:d0, p0:d1, p0:d2, p0:d3, p0:d4, p0:d5"),
    ("p0:d", 13, "13 of 20 streams"), ("p0:d", 20, "all 20 streams"), ("p0:device-in-hall-", 10, "10 of 20 streams"),
    ("p0:device-in-hall-", 4, "p0:device-in-hall-0, p0:device-in-hall-1, p0:device-in-hall-2 and 1 more of 20 streams"),
])  # fmt: skip
def test_a_handful_of_streams_is_named_where_their_names_are_short(name, count, said):
    fallen = [alert(f"{name}{n}", 300, "silent", severity="warning", seconds=600.0) for n in range(count)]
    others = [alert(f"p0:x{n}", 900, "dead_letters", severity="info") for n in range(20 - count)]
    found = incidents(*fallen, *others, streams=0)
    (text,) = (each["text"] for each in found if each["kind"] == "silent")
    assert text.startswith(f"{said}: no record for")


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


@pytest.mark.parametrize(("load", "apart"), [(6.9, 1), (19.0, 2)])
def test_hours_that_a_changed_stream_has_not_had_are_no_news_where_they_are_near(load, apart):
    new = alert("p1:d1", 310, "new_cluster", severity="info", share=0.9)
    later = named(alert("p1:d1", 600), load=(load, 6.2))
    assert len(incidents(named(alert("p1:d1", 300), heat=(31.0, 6.2)), new, later)) == apart


@pytest.mark.parametrize(("after", "said"), [
    (0.012, "drifted since 2026-05-06 05:05:00, error 0.08, usually 0.01; back since 2026-05-06 13:15"),
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
    assert found["text"].endswith("; back since 2026-05-06 13:20")


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
    assert (len(found), "heat stays at 6.5, usually varies about 6.2" in found[-1]["text"]) == (count, True)


@pytest.mark.parametrize(
    ("outside", "state", "how", "end"),
    [(1.0, "learned", "at a new level since", ""), (0.0, "over", "broke", "; over since 2026-05-06 08:20")],
)
def test_what_an_alert_shows_is_learned_where_the_record_that_clears_it_is_as_far(outside, state, how, end):
    shown = named(alert("p1:d1", 300), heat=(8.0, 6.2)), alert("p1:d1", 500, kind="cleared", outside=outside)
    (found,) = incidents(*shown)
    assert row_of(found) == (
        "critical", state, f"p1:d1: {how} 2026-05-06 04:56:00, heat 8, usually 6.2; alone among 4 streams{end}",
    )  # fmt: skip
    recovered = output("drift_events", "p1:d1", 800, kind="recovered", opened=0, seq=1, units=[])
    (found,) = incidents(*shown, drift("p1:d1", 310, heat=(6.2, 8.0)), recovered)
    assert row_of(found)[1] == "over" and ": broke " in found["text"]


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


def test_an_incident_is_over_with_its_alerts():
    (found,) = incidents(alert("p1:d1", 300), alert("p1:d1", 330, kind="cleared"))
    assert not found["is_open"]


def split(stream, minute, number, left, began):
    """A cluster splits off, and leaves another."""
    after = [{"id": f"{stream}/1/{n}", "size": 5, "centre": each} for n, each in ((0, left), (number, began))]
    return output("cluster_events", stream, minute, kind="split", cluster=after[1]["id"], after=after)


NIGHTS = split("p1:d1", 100, 1, {"heat": 60.0, "load": 5.0}, {"heat": 12.0, "load": 0.0})


@pytest.mark.parametrize(("heat", "usual", "kind", "severity"), [
    (12.1, 12.2, "new_kind", "info"), (14.0, 12.2, "broke", "warning"), (16.0, 12.2, "broke", "critical"),
    # Of many scales, and none that is known.
    (0.0011, 0.0012, "broke", "warning"),
])  # fmt: skip
def test_records_at_night_that_hardly_differ_beside_what_comes_by_day_are_no_break(heat, usual, kind, severity):
    made, over = alert("p1:d1", 1_500, unlike=5.0, records=5.0), alert("p1:d1", 1_600, kind="cleared", outside=0.0)
    # Of what was over, and differed in nothing that can be named, there is nothing to say.
    assert not incidents(NIGHTS, made, over)
    many = alert("p1:d1", 1_600, kind="cleared", outside=0.0, unlike=120.0)
    assert [each["severity"] for each in incidents(NIGHTS, made, many)] == ["info"]
    # What is open and cannot be named may be grave.
    (found,) = incidents(NIGHTS, made)
    assert (found["kind"], found["severity"]) == ("broke", "critical")
    (found,) = incidents(NIGHTS, named(made, heat=(heat, usual)), over)
    assert (found["kind"], found["severity"]) == (kind, severity)


@pytest.mark.parametrize(("minute", "heat", "ends", "count"), [
    (900, 15.0, True, 0), (1_500, 15.0, True, 1), (900, 38.0, True, 1), (900, 15.0, False, 1)
])  # fmt: skip
def test_a_young_stream_that_wanders_a_little_further_for_a_while_is_no_incident(minute, heat, ends, count):
    first = emerged("p1:d1", 5, 0, heat=12.0)
    made = named(alert("p1:d1", minute, unlike=5.0, records=5.0), heat=(heat, 12.0))
    over = alert("p1:d1", minute + 90, kind="cleared", outside=0.0), drift("p0:d1", 3_000, heat=(9.0, 30.0))
    assert sum("p1:d1" in each["streams"] for each in incidents(first, made, *over[not ends :])) == count
    # A fleet that changes is one, however young it is.
    others = [named(alert(f"p1:e{n}", minute, unlike=5.0, records=5.0), heat=(heat, 12.0)) for n in range(3)]
    assert any(len(each["streams"]) > 2 for each in incidents(first, made, *over, *others))


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


def test_an_alert_that_names_nothing_names_what_the_cluster_that_came_differs_in():
    shown = [alert("p1:d1", 300, unlike=5.0, records=5.0), emerged("p1:d1", 340, heat=12.0, load=3.0)]
    (found,) = incidents(NIGHTS, *shown)
    assert found["features"] == [{"feature": "load", "value": 3.0, "usual": 0.0}]


def test_what_is_next_to_nothing_beside_what_was_or_is_there_is_zero():
    (found,) = incidents(drift("p1:d1", 310, rpm=(1.4e-14, 92.0), fuel=(80.0, 1.5e-6), noise=(80.0, 1.5e-3)))
    assert {each["feature"]: (each["value"], each["usual"]) for each in found["features"]} == {
        "rpm": (92.0, 0.0), "fuel": (0.0, 80.0), "noise": (1.5e-3, 80.0),
    }  # fmt: skip
    waves = [drift("p1:d1", 240 + 300 * at, seq=at, rpm=((1e-9, 9.0), (9.0, 1e-9))[at % 2]) for at in range(4)]
    assert "rpm 0 to 9" in incidents(*waves)[0]["text"]


def test_streams_that_vary_and_that_are_off_at_the_same_time_are_not_one():
    noisy = drift("p0:d2", 310, noise=(5.0, 5.0, 6.0))
    noisy[1]["units"][0]["features"][0]["change"] = "widened"
    found = incidents(noisy, named(alert("p1:d1", 308), heat=(38.0, 6.2)))
    assert {each["streams"][0]: each["features"][0]["feature"] for each in found} == {"p0:d2": "noise", "p1:d1": "heat"}
    # So are those that are off and those that drift, but where they go the same way.
    for after, count in ((38.0, 1), (5.0, 2)):
        moved = drift("p0:d2", 310, heat=(6.2, after))
        assert len(incidents(moved, named(alert("p1:d1", 308), heat=(38.0, 6.2)))) == count


def test_what_comes_beside_what_was_there_is_no_break():
    made = alert("p1:d1", 300, unlike=5.0, records=5.0)
    for heat, severity in ((12.6, "info"), (33.0, "critical")):
        assert incidents(NIGHTS, made, emerged("p1:d1", 310, heat=heat, load=0.0))[-1]["severity"] == severity


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


@pytest.mark.parametrize(("load", "kind"), [(5.2, "like_others"), (9.0, "broke")])
def test_a_stream_that_becomes_at_another_time_what_most_others_did_is_not_unlike_them(load, kind):
    late, _ = incidents(*WORK, alert("p1:d1", 900), drift("p1:d1", 920, load=(2, load)))
    assert (late["kind"], late["streams"], "alone among" in late["text"]) == (kind, ["p1:d1"], kind == "broke")


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


def test_a_stream_is_not_like_others_by_what_it_has_itself_in_their_change():
    own = drift("p1:d1", 320, load=(2, 5), temp=(20.0, 24.0))
    again = [named(alert("p1:d1", 900), temp=(23.0, 20.0)), drift("p1:d1", 920, seq=1, temp=(20.0, 23.0))]
    again[0][1]["key"] += "again"
    late, _ = incidents(*WORK, alert("p1:d1", 302), own, *again)
    assert (late["kind"], late["streams"]) == ("broke", ["p1:d1"])


@pytest.mark.parametrize("back", [0, 700])
def test_a_stream_whose_first_outputs_have_expired_has_the_pace_of_the_others(back):
    table = sign_table.SignTable()
    for n in range(4):
        for minute in (600 if n < 2 else 10, 900):
            kind, payload = alert(f"p1:d{n}", minute, records=10.0)
            payload["key"] += str(minute)
            if back and minute == 900:
                for name in ("time", "since"):
                    payload[name] = output("", "p1:d0", minute - back)[1]["time"]
            table.apply(kind, payload)
    assert set(table.paces().values()) == {120.0 if not back else 60 * 4 * 190 / 1_780}


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


def test_records_of_one_message_are_counted_by_their_indexes():
    def in_messages(made):
        """The same output where each message has a hundred records: its offset counts messages."""
        source = made[1]["cause"]["source"]
        source.update(offset=source["offset"] // 100, index=99)
        return made

    alone = alert("p1:d1", 300, records=50.0)
    table = IncidentTable()
    quiet = {"kind": "vanished", "cluster": None, "after": [], "before": []}
    for kind, payload in map(
        in_messages, [output("cluster_events", "p1:d1", m, **quiet) for m in (0, 1_400)] + [alone]
    ):
        table.apply(kind, payload)
    (found,) = table.incidents()
    # Fifty records, two a minute, not fifty messages.
    assert found["since"].startswith("2026-05-06T04:35")


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


def test_an_alert_that_opens_again_under_its_key_is_open_in_whichever_order_it_is_read():
    first, cleared, again = alert("p1:d1", 300), alert("p1:d1", 330, kind="cleared"), alert("p1:d1", 360)
    for order in permutations((first, cleared, again)):
        (found,) = incidents(*order)
        assert (found["is_open"], found["since"]) == (True, "2026-05-06T05:56:00.000Z")


def test_only_the_newest_signs_are_kept_in_whichever_order_they_come(monkeypatch):
    monkeypatch.setattr(sign_table, "MOST", 3)
    made = [alert(f"p{n % 2}:d{n}", 100 * n) for n in range(1, 13)]
    expected = incidents(*made[-3:], streams=13)
    for seed in range(5):
        assert incidents(*random.Random(seed).sample(made, 12), streams=13) == expected


@pytest.mark.parametrize(("rule", "wrong"), [("unlike", {"evidence": None}), ("share", {"since": [1]})])
def test_an_alert_of_no_worker_makes_no_incident(rule, wrong):
    broken = alert("p1:d1", 300, rule=rule)
    broken[1].update(wrong)
    assert incidents(broken) == []


def test_outputs_in_any_order_and_twice_give_the_same_and_foreign_ones_nothing():
    outputs = [*BROKE, *WORK, ("alerts", {"a member": "of a later release"}), ("alerts", None)]
    expected = incidents(*BROKE, *WORK)
    for seed in range(5):
        assert incidents(*random.Random(seed).choices(outputs, k=99), *outputs) == expected


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
    assert (found["kind"], found["features"][0]) == (kind, {"feature": "heat", "value": heat, "usual": 46.0})


def test_of_a_stream_that_broke_the_drift_and_its_alert_name_first_what_a_later_mean_does_not():
    settled = drift("p1:d1", 900, heat=(48.0, 88.0), noise=(2.0, 12.0), load=(11.0, 13.0))
    settled[1].update(kind="settled", opened=0, seq=1)
    broke = named(alert("p1:d1", 300, records=6.0, unlike=6.0), load=(13.0, 11.0))
    (found,) = incidents(broke, drift("p1:d1", 320, noise=(2.0, 11.0)), settled)
    assert found["text"].startswith("p1:d1: broke 2026-05-06 04:55:00, noise 12, usually 2; alone")
    assert [each["feature"] for each in found["features"]] == ["noise", "load", "heat"]


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


def test_what_a_stream_has_become_is_learned_and_takes_the_hours_that_it_meets_anew():
    def again(minute, known, **features):
        made = named(alert("p1:d1", minute, records=8.0, unlike=4.0, known=known), **features)
        made[1]["key"] += str(minute)
        return [made, (made[0], {**made[1], "kind": "cleared", "seq": minute + 1})]

    new = alert("p1:d1", 340, "new_cluster", severity="info", share=1.0)
    new[1]["cluster"] = "p1:d1/1/7"
    changed = [*again(300, 0.0, load=(0.6, 50.0)), new, alert("p1:d1", 900, "new_cluster", kind="cleared", share=0.04)]
    night, nameless, burst = again(700, 1.0, heat=(1.0, 5.0)), again(1_000, 0.0), again(1_100, 0.0, noise=(9.0, 1.0))
    of_burst, of_change = incidents(*changed, *night, *nameless, *burst, streams=1)
    assert [(row_of(each)[1], each["signs"]) for each in (of_burst, of_change)] == [("over", 1), ("learned", 4)]
    vanished = output("cluster_events", "p1:d1", 1_200, kind="vanished", cluster="p1:d1/1/7", after=[], before=[])
    assert row_of(incidents(*changed, vanished, streams=1)[0])[1] == "over"


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


@pytest.mark.parametrize("member", [
    {"severity": "urgent"}, {"rule": {}}, {"text": 1}, {"seq": "1"}, {"since": 10**400},
    {"evidence": {"records": 1e308}}, {"evidence": {"records": 10**400}},
    {"features": [{"feature": "heat", "value": 10**400, "low": 0, "high": 1}]},
])  # fmt: skip
def test_an_alert_of_no_worker_changes_nothing_else(member):
    strange = alert("p0:d2", 300)
    strange[1].update(member)
    assert incidents(*BROKE)[0] in incidents(strange, *BROKE)


def test_a_cluster_that_no_alert_shows_began_with_the_first_record_after_a_silence():
    change = [*WORK, alert("p1:d1", 302), drift("p1:d1", 322, load=(2, 5)), emerged("p1:d1", 20, 0, heat=6.2, load=2)]
    silent = [
        alert("p1:d1", 370, "silent", severity="warning", seconds=600.0),
        alert("p1:d1", 438, "silent", kind="cleared", seconds=4_680.0),
    ]
    shown = [emerged("p1:d1", 440, each, heat=38.0, load=each) for each in (8, 9, 10)]
    broke = [each["since"][11:16] for each in incidents(*change, *silent, *shown) if each["kind"] == "broke"]
    assert broke == ["07:18"]


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


def test_what_comes_soon_after_another_unit_names_it():
    lasts = drift("p1:d1", 310, scope="stream", cpu=(45.0, 30.0))
    unit = named(alert("p1:d1", 312, records=6.0, unlike=6.0), cpu=(0.46, 45.0))
    burst = named(alert("p1:d1", 900, records=6.0, unlike=6.0), cpu=(0.87, 0.46))
    burst[1]["key"] += "1"
    of_burst, _ = incidents(unit, lasts, burst, streams=1)
    assert of_burst["text"].endswith("; cpu in another unit since 2026-05-06 05:09")


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


def test_what_is_stuck_is_not_one_with_what_is_noisy():
    noisy, stuck = drift("p1:d1", 300, heat=(3.0, 3.0, 4.0)), drift("p0:d2", 300, heat=(3.0, 3.4, 0.0))
    for (_, event), change in ((noisy, "widened"), (stuck, "narrowed")):
        event["units"][0]["features"][0]["change"] = change
    assert sorted(each["streams"] for each in incidents(noisy, stuck)) == [["p0:d2"], ["p1:d1"]]


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
