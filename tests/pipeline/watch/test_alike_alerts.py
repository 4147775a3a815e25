"""Alike alerts of many streams become one line."""

import pytest
from resonance.pipeline.records import Record
from resonance.pipeline.watch.alike_alerts import summary, together
from resonance.pipeline.watch.watch import WatchedOutput, as_line


def alert(stream, minute, rule="unlike", kind="opened", **other):
    time = f"2026-05-06T{minute // 60:02}:{minute % 60:02}:00.000Z"
    text = f"{stream} is unlike what its model knows"
    return {
        **{"stream": stream, "rule": rule, "kind": kind, "severity": "critical", "time": time, "since": time},
        **{"text": text, **other},
    }


def grouped(alerts):
    return [[(each["stream"], each["rule"]) for each in group] for group in together(alerts, lambda each: each)]


def test_a_change_of_all_machines_is_one_group_in_the_place_of_its_first_alert():
    alerts = [alert("a", 0), alert("b", 1, "silent"), alert("b", 4), alert("c", 13), alert("d", 40)]
    assert grouped(alerts) == [
        [("a", "unlike"), ("b", "unlike"), ("c", "unlike")],
        [("b", "silent")],
        [("d", "unlike")],
    ]
    assert [len(group) for group in grouped(alerts[::-1])] == [1, 3, 1]


@pytest.mark.parametrize(
    "alerts",
    [
        [alert("a", 0), alert("b", 1)],
        [alert("a", 0), alert("a", 1), alert("b", 2)],
        [alert("a", 0), alert("b", 11), alert("c", 22)],
        [alert("a", 0), alert("b", 0, kind="cleared"), alert("c", 0, severity="info")],
        [alert(None, 0), alert(None, 0), alert(None, 0)],
        [{**alert(each, 0), "time": "later"} for each in "abc"],
        [None, {"a member": "of a later release"}, None],
    ],
    ids=["two streams", "few streams", "apart in time", "unlike", "of partitions", "without times", "no alerts"],
)
def test_what_is_not_alike_stays_apart(alerts):
    assert together(alerts, lambda each: each) == [[each] for each in alerts]


def test_those_of_more_than_an_hour_are_several_groups():
    alerts = [alert(f"m{number}", 9 * number) for number in range(14)]
    assert [len(group) for group in together(alerts, lambda each: each)] == [7, 7]


def test_a_summary_has_the_number_the_first_text_and_some_names():
    alerts = [alert(f"m{number}", number) for number in range(40)]
    assert summary(alerts, alerts[0]["text"]) == (
        "40 streams by 00:39:00 (--each lists them): m0 is unlike what its model knows; likewise m1, m2, m3 and 36 more"
    )
    outputs = [WatchedOutput("alerts", Record("t", 0, 0, 0, None, None), each) for each in alerts[:3]]
    assert as_line(*outputs) == (
        "critical alert opened (unlike): 3 streams by 00:02:00 (--each lists them): m0 is unlike what its model knows; "
        "likewise m1, m2"
    )
