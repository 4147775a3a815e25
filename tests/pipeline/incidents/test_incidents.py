"""Incidents are a function of the outputs, in any order and of any release; their texts name the streams."""

import random

import pytest
from resonance.engine.prepare.parameters import AUTO_COLUMNS
from resonance.pipeline.incidents import differences, sign_table
from resonance.pipeline.incidents.incidents import IncidentTable

from tests.pipeline.incidents.outputs import BROKE, WORK, alert, incidents, named, output


def test_how_many_features_alerts_name_is_known():
    assert differences.PROJECTED == AUTO_COLUMNS


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


@pytest.mark.parametrize("member", [
    {"severity": "urgent"}, {"rule": {}}, {"text": 1}, {"seq": "1"}, {"since": 10**400},
    {"evidence": {"records": 1e308}}, {"evidence": {"records": 10**400}},
    {"features": [{"feature": "heat", "value": 10**400, "low": 0, "high": 1}]},
])  # fmt: skip
def test_an_alert_of_no_worker_changes_nothing_else(member):
    strange = alert("p0:d2", 300)
    strange[1].update(member)
    assert incidents(*BROKE)[0] in incidents(strange, *BROKE)


def test_outputs_in_any_order_and_twice_give_the_same_and_foreign_ones_nothing():
    outputs = [*BROKE, *WORK, ("alerts", {"a member": "of a later release"}), ("alerts", None)]
    expected = incidents(*BROKE, *WORK)
    for seed in range(5):
        assert incidents(*random.Random(seed).choices(outputs, k=99), *outputs) == expected


@pytest.mark.parametrize(("others", "said"), [
    (["redox.d8"], "all 8 streams of temp"), (["temp.d8"], "8 of 9 streams"), ([], "all 8 streams"),
    (["redox.d8", *(f"redox.d{n}" for n in range(20))], "all 8 streams of temp"),
    (["temp.d8", *(f"redox.d{n}" for n in range(20))], "p0:temp.d0, p0:temp.d2, p0:temp.d4 and 5 more of 29 streams"),
])  # fmt: skip
def test_all_streams_of_a_parameter_are_named_by_it(others, said):
    names = [f"p{n % 2}:temp.d{n}" for n in range(8)]
    quiet = [
        output("cluster_events", f"p0:{name}", 5, kind="vanished", cluster=None, after=[], before=[]) for name in others
    ]
    (found,) = incidents(*quiet, *(named(alert(name, 300), load=(5.0, 2.0)) for name in names), streams=0)
    assert found["text"].startswith(f"{said}: a new kind of records")
