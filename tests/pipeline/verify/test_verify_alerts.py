"""Alerts of whole deployments: written with the other outputs, compared by `verify`, listed while they are open."""

import re
from functools import partial

import orjson
import pytest
from resonance.pipeline import mismatches
from resonance.pipeline.config.settings import Settings
from resonance.pipeline.errors import ConfigurationError, MismatchError
from resonance.pipeline.incidents.incidents import IncidentTable
from resonance.pipeline.records import Message, Record
from resonance.pipeline.recovery import recovery
from resonance.pipeline.replay.sinks import FILES
from resonance.pipeline.task.alerts.alert_table import OpenAlertTable

from tests.pipeline.commands import run
from tests.pipeline.memory_deployment import KEYED, MemoryDeployment
from tests.pipeline.memory_deployment import rekeyed as both_hops
from tests.pipeline.repartition.two_hops import ROUTES
from tests.pipeline.streams import TOPIC

ALERTS = "resonance.alerts"

pytestmark = pytest.mark.usefixtures("soon_alerts")


def spoil(log, offsets):
    for offset in offsets:
        log[offset] = log[offset]._replace(value=b'{"cpu": "much"}')


@pytest.fixture
def deployment(monkeypatch):
    """One partition that is spoiled for a while; a worker is killed after a commit without a snapshot."""
    made = MemoryDeployment(monkeypatch)
    spoil(made.logs[TOPIC, 0], range(220, 240))
    made.work(150, everything=True, archive=True)
    made.work(230, snapshots=False)
    made.work(450, archive=True)
    made.work(600)
    return made


def payloads(records):
    return [orjson.loads(record.value) for record in records]


def test_a_deployment_with_crashes_is_identical_and_its_alerts_count(deployment):
    recorded = payloads(deployment.recorded("alerts"))
    assert [(alert["kind"], alert["rule"]) for alert in recorded] == [
        ("opened", "dead_letters"),
        ("cleared", "dead_letters"),
    ]
    verdict = deployment.verify()
    assert verdict.identical
    assert verdict.as_json()["alerts"] == 2
    assert deployment.verify(begin="470").identical


def test_alerts_of_rekeyed_streams_are_raised_where_they_are_learned(monkeypatch):
    made = both_hops(monkeypatch)
    for partition in range(2):
        log = made.logs[TOPIC, partition]
        # The country is the stream's, so the first stage has no use for the rest of the record.
        spoiled = (record._replace(value=record.value.replace(b'"cpu":', b'"gpu":')) for record in log[200:300])
        log[200:300] = list(spoiled)
    for _ in range(3):
        made.turn(0.6, everything=True)
    made.turn()
    found = payloads(record for part in range(3) for record in made.recorded("alerts", part))
    assert {(alert["kind"], alert["rule"]) for alert in found} >= {("opened", "dead_letters")}
    assert {alert["cause"]["source"]["topic"] for alert in found} == {TOPIC}
    assert made.verify().identical


def test_alerts_of_keyed_roots(monkeypatch):
    made = MemoryDeployment(monkeypatch, routes=2, **KEYED)
    spoil(made.logs[TOPIC, 0], range(220, 240))
    for _ in range(3):
        made.turn(0.6, everything=True)
    made.turn()
    found = payloads(record for part in range(2) for record in made.recorded("alerts", part))
    assert ("opened", "dead_letters") in [(alert["kind"], alert["rule"]) for alert in found]
    assert ROUTES not in {alert["cause"]["source"]["topic"] for alert in found}
    assert made.verify().identical


def test_the_rules_alone_are_counted_and_nothing_is_written(deployment, printed):
    before = {at: len(log) for at, log in deployment.logs.items()}
    printed = printed(run, "replay", "--rules-only", "--processes", "1")
    assert "dead_letters 1 0" in [" ".join(line.split()) for line in printed.out.splitlines()]
    assert "1 alert opened in 600 records" in printed.out
    assert {at: len(log) for at, log in deployment.logs.items()} == before


def test_the_rules_are_counted_after_a_new_version_too(deployment, monkeypatch, capsys):
    given = deployment.given.model_dump()
    deployment.take_settings(Settings.of({**given, "engine": {"name": "modal", "valley": 0.3}}))
    assert recovery.recover(mismatches.NEW_VERSION, deployment.source) == 1
    deployment.work(600)
    replay = partial(run, monkeypatch, "replay", "--processes", "1")
    # The outputs of earlier models cannot be repeated, but the rules need none.
    assert replay() == MismatchError.exit_code
    assert "--fresh" in capsys.readouterr().err
    assert replay("--rules-only") == 0
    printed = capsys.readouterr()
    assert "dead_letters 1 0" in [" ".join(line.split()) for line in printed.out.splitlines()]
    assert "partition 0: empty models at offset 0, because those there are not known" in printed.err


def test_new_models_may_open_an_alert_with_the_record_that_clears_those_of_the_old_ones(monkeypatch):
    eager = {"engine__min_cluster_records": 10_000}
    made = MemoryDeployment(monkeypatch, records=900, **eager)
    log = made.logs[TOPIC, 0]
    # Nothing comes for two hours after the old models' last record.
    log[600:] = [record._replace(timestamp=record.timestamp + 7_200_000) for record in log[600:]]
    made.work(600, everything=True, archive=True)
    made.take_settings(made.changed(**eager, engine__memory=280))
    assert recovery.recover(mismatches.NEW_VERSION, made.source) == 1
    made.work(750, everything=True, archive=True)
    made.work(900)
    first = [alert for alert in payloads(made.recorded("alerts")) if alert["cause"]["source"]["offset"] == 600]
    found = {(alert["kind"], alert["rule"], alert["stream"], alert["version"]) for alert in first}
    assert found == {
        ("cleared", "unconfirmed", "p0:a", 1),
        ("cleared", "unconfirmed", "p0:b", 1),
        # The record is the first one of its own stream after these hours.
        ("opened", "silent", "p0:a", 2),
        ("cleared", "silent", "p0:a", 2),
        ("opened", "silent", "p0:b", 2),
    }
    assert made.verify().identical
    # A difference shows the outputs of both versions, each beside its own.
    place = next(i for i, alert in enumerate(payloads(made.recorded("alerts"))) if alert["rule"] == "silent")
    record = made.recorded("alerts")[place]
    made.replace("alerts", place, value=record.value.replace(b'"warning"', b'"info"'))
    ((_, difference),) = made.verify().differences()
    assert (difference.what, difference.members) == ("other", [("severity", "info", "warning")])


def test_an_alert_that_opened_before_the_range_is_not_counted_twice(deployment, monkeypatch, capsys):
    replay = partial(run, monkeypatch, "replay", "--rules-only", "--processes", "1")
    assert replay("--from", "235") == 0
    # It has opened before the range, and cleared in it.
    assert "dead_letters 0 0" in [" ".join(line.split()) for line in capsys.readouterr().out.splitlines()]
    assert replay("--to", "235") == 0
    assert "dead_letters 1 1" in [" ".join(line.split()) for line in capsys.readouterr().out.splitlines()]


def test_a_router_clears_its_alert_where_the_rule_is_switched_off(monkeypatch):
    made = both_hops(monkeypatch)
    log = made.logs[TOPIC, 1]
    log[200:] = [record._replace(value=b"{}") for record in log[200:]]
    made.turn(0.5, everything=True)
    given = made.given.model_dump()
    made.take_settings(Settings.of({**given, "alerts": {**given["alerts"], "off": ["dead_letters"]}}))
    made.turn()
    alerts = [alert for part in range(3) for alert in payloads(made.recorded("alerts", part))]
    found = [(alert["kind"], alert["key"]) for alert in alerts if "/features[1]/" in alert["key"]]
    assert found == [(kind, "resonance/dead_letters/features[1]/1/0") for kind in ("opened", "cleared")]


def test_rules_only_writes_nowhere(monkeypatch, capsys):
    assert (
        run(monkeypatch, "replay", "--topics", "features", "--rules-only", "--output", "x")
        == ConfigurationError.exit_code
    )
    assert "leave --output and --to-name out" in capsys.readouterr().err
    assert FILES["alerts"] == "alerts.jsonl"


def serve(deployment, monkeypatch):
    """Let the command read the deployment's alerts."""
    monkeypatch.setattr("resonance.pipeline.kafka.admin.ClusterAdmin", lambda *_: None)
    monkeypatch.setattr("resonance.pipeline.kafka.positions.partitions_of", lambda *_: [(ALERTS, 0)])
    monkeypatch.setattr("resonance.pipeline.kafka.log_reader.LogReader", lambda *_: deployment)


def test_a_published_incident_is_compared_with_the_outputs(deployment, monkeypatch, printed):
    monkeypatch.setattr("resonance.pipeline.forward.published.BEHIND_SECONDS", 0.0)
    table = IncidentTable()
    table.read("alerts", deployment.recorded("alerts"))
    (incident,) = table.incidents()
    for severity, code in ((incident["severity"], 0), ("info", 3)):
        value = orjson.dumps({**incident, "severity": severity})
        deployment.append(("resonance.incidents", 0), Message(incident["key"].encode(), value, []))
        assert f"1 published incident{', 1 of them' * (code == 3)}" in printed(run, "verify", code=code).out
    found = orjson.loads(printed(run, "verify", "--json", code=3).out)
    assert (found["incidents"], found["incidents_that_differ"]) == (1, [incident["key"]])
    # A publisher may have read outputs that have expired since.
    deployment.expire(ALERTS, 1)
    assert "published" not in printed(run, "verify", code=0).out


def test_before_any_output_there_is_nothing_to_say_of_alerts(monkeypatch, printed):
    made = MemoryDeployment(monkeypatch)
    serve(made, monkeypatch)
    assert "there is no output of resonance yet, so that nothing is known" in printed(run, "alerts").err
    made.work(100)
    assert "no alert is open" in printed(run, "alerts").err


def test_open_alerts_are_listed_until_they_clear(deployment, monkeypatch, capsys, printed):
    serve(deployment, monkeypatch)
    said = printed(run, "alerts", "--each")
    assert "no alert is open" in said.err
    assert re.search(r"critical  dead_letters  \d+ of 20 records of features\[0\] were dead", said.out)
    assert run(monkeypatch, "alerts") == 0
    assert re.search(r"critical  over   a partition: \d+ of 20 records of features\[0\] were", capsys.readouterr().out)
    deployment.logs[ALERTS, 0].pop()
    assert run(monkeypatch, "alerts", "--each") == 0
    assert "critical  dead_letters  5 of 20 records of features[0] were dead letters" in capsys.readouterr().out
    listed = orjson.loads(printed(run, "alerts", "--json").out)
    assert [alert["rule"] for alert in listed["open"]] == ["dead_letters"]
    assert listed["cleared"] == []


@pytest.mark.parametrize("most", [0, 1])
def test_cleared_alerts_that_are_left_out_are_mentioned(deployment, monkeypatch, printed, most):
    serve(deployment, monkeypatch)
    monkeypatch.setattr("resonance.pipeline.task.alerts.alert_table.MOST_CLEARED", most)
    monkeypatch.setattr("resonance.pipeline.incidents.incidents.IncidentTable.read", None)
    said = "of cleared alerts the 1 that were read first are left out"
    assert (said in printed(run, "alerts", "--each").err) == (most == 0)


def test_a_cleared_alert_that_was_learned_has_the_clusters_that_became_normal():
    table = OpenAlertTable()

    def alert(kind, rule, stream, second, cluster=""):
        key = "/".join(["n", rule, stream, *([cluster.replace("/", ":")] if cluster else []), "1", str(second)])
        severity = "critical" if rule == "unlike" else "info"
        named = {"key": key, "kind": kind, "rule": rule, "stream": stream, "seq": second, "severity": severity}
        more = {"cluster": cluster, "evidence": {}, "time": f"2026-01-01T00:00:{second:02}Z"}
        return Record("n.alerts", 0, second, 0, None, orjson.dumps({**named, **more}), [])

    table.apply(
        [
            alert("opened", "new_cluster", "a", 1, "a/1/1"),
            alert("opened", "unlike", "a", 2),
            alert("opened", "unlike", "b", 3),
            alert("opened", "new_cluster", "a", 4, "a/1/2"),
            alert("cleared", "unlike", "b", 5),
            alert("cleared", "unlike", "a", 6),
            alert("cleared", "new_cluster", "a", 7, "a/1/3"),
            # What was over before the same opens again is listed beside it.
            alert("opened", "unlike", "b", 8),
        ]
    )
    found = [(each.payload["rule"], each.payload["stream"], list(each.learned)) for each in table.ended()]
    assert found == [("unlike", "a", ["a/1/2"]), ("unlike", "b", []), ("new_cluster", "a", [])]


def test_a_record_that_is_no_alert_is_left_out(deployment):
    table = OpenAlertTable()
    deployment.append((ALERTS, 0), Message(None, b"[]", []))
    deployment.append((ALERTS, 0), Message(None, None, []))
    table.apply(deployment.recorded("alerts"))
    assert (table.alerts(), table.foreign) == ([], 2)


def test_drift_events_of_keyed_roots_are_compared(monkeypatch):
    made = MemoryDeployment(monkeypatch, records=2_400, routes=2, **{**KEYED, "drift__rarity": 100})
    for _ in range(3):
        made.turn(0.6, everything=True)
    made.turn()
    count = len(made.recorded("drift_events"))
    verdict = made.verify()
    assert (verdict.identical, verdict.as_json()["drift_events"]) == (True, count)
    assert count > 0
    record = made.recorded("drift_events")[0]
    made.replace("drift_events", 0, value=record.value.replace(b'"watch"', b'"other"'))
    ((_, difference),) = made.verify().differences()
    assert (difference.kind, difference.members) == ("drift_events", [("detector", "other", "watch")])


def test_records_that_cannot_be_routed_raise_an_alert_where_they_are_read(monkeypatch):
    made = both_hops(monkeypatch)
    log = made.logs[TOPIC, 1]
    log[200:230] = [record._replace(value=b"{}") for record in log[200:230]]
    for _ in range(4):
        # Each turn ends with a kill, and the state of the router is written before the first one alone.
        made.turn(0.5)
    made.turn()
    alerts = [alert for part in range(3) for alert in payloads(made.recorded("alerts", part))]
    found = [alert for alert in alerts if "/features[1]/" in alert["key"]]
    assert [(alert["kind"], alert["rule"], alert["stream"]) for alert in found] == [
        ("opened", "dead_letters", None),
        ("cleared", "dead_letters", None),
    ]
    assert found[0]["text"] == "5 of 20 records of features[1] were dead letters"
    assert 200 <= found[0]["cause"]["source"]["offset"] < 210
    assert found[0]["key"] == found[1]["key"]
    assert made.verify().identical
    place = next(i for i, one in enumerate(payloads(made.recorded("alerts", 1))) if one == found[0])
    log = made.recorded("alerts", 1)
    log[place] = log[place]._replace(value=log[place].value.replace(b'"critical"', b'"info"'))
    ((_, difference),) = made.verify().differences()
    assert (difference.kind, difference.members) == ("alerts", [("severity", "info", "critical")])
