"""What is sent to Alertmanager and to PagerDuty is what their APIs take."""

import re
import time

import pytest
from jsonschema import Draft202012Validator
from resonance.pipeline.config.settings import Settings
from resonance.pipeline.forward.consumer import AlertConsumer
from resonance.pipeline.forward.notices import notice_of
from resonance.pipeline.forward.receivers import receiver
from resonance.pipeline.timestamps import canonical, later
from resonance.schemas import load_schema

from tests.pipeline.commands import run
from tests.pipeline.forward.inbox import alert, notice, record

KEY = "e93facc04764012d7bfb002500d5d1a6"
ENQUEUE = "https://events.pagerduty.com/v2/enqueue"
TEXTS = {"type": "object", "additionalProperties": {"type": "string", "minLength": 1}}
TIME = {"type": "string", "pattern": r"^\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z$"}
ALERTMANAGER = {
    "type": "array",
    "items": {
        "type": "object",
        "properties": {
            "labels": {**TEXTS, "propertyNames": {"pattern": "^[a-zA-Z_][a-zA-Z0-9_]*$"}, "required": ["alertname"]},
            **{"annotations": TEXTS, "startsAt": TIME, "endsAt": TIME, "generatorURL": {"type": "string"}},
        },
        "required": ["labels"],
        "additionalProperties": False,
    },
}
"""postableAlerts of its api/v2/openapi.yaml, and what it checks beside that."""
PAGERDUTY = {
    "type": "object",
    "properties": {
        "routing_key": {"type": "string", "minLength": 32, "maxLength": 32},
        "event_action": {"enum": ["trigger", "acknowledge", "resolve"]},
        "dedup_key": {"type": "string", "maxLength": 255},
        "client": {"type": "string"},
        "payload": {
            "type": "object",
            "properties": {
                **{"summary": {"type": "string", "maxLength": 1024, "minLength": 1}, "timestamp": TIME},
                **{
                    "severity": {"enum": ["critical", "warning", "error", "info"]},
                    "custom_details": {"type": "object"},
                },
                **{name: {"type": "string", "minLength": 1} for name in ("source", "group", "class", "component")},
            },
            "required": ["summary", "severity", "source"],
            "additionalProperties": False,
        },
    },
    "required": ["routing_key", "event_action", "dedup_key"],
    "if": {"properties": {"event_action": {"const": "trigger"}}},
    "then": {"required": ["payload"]},
    "additionalProperties": False,
}
"""The request of its reference/events-v2/openapiv3.json, with the limits of its documentation."""

AHEAD = "2999-01-01T00:00:00.000Z"
ALERTS = [
    alert(),
    alert(kind="cleared"),
    alert(1, rule="new_cluster", cluster="p1:d1/1/4", severity="info", since=AHEAD, time=AHEAD),
    alert(1, kind="cleared", since=AHEAD),
    alert(2, "cleared", time="2026-05-06T09:00:00.000Z"),
    alert(
        rule="dead_letters", stream=None, key="shop/dead_letters/t[3]/1/0", text="é" * 5_000, setting="engine.valley"
    ),
    alert(key=f"shop/unlike/{'x' * 300}/1/0"),
]


def test_every_alert_fits_both_apis():
    for each in ALERTS:
        Draft202012Validator(load_schema("alert")).validate(each)
        (sent,) = receiver("http://am:9093", "", "shop").body([notice(**each)])
        Draft202012Validator(ALERTMANAGER).validate([sent])
        assert sent["startsAt"] <= sent["endsAt"]
        # An end to come is none.
        assert (sent["endsAt"] > later(canonical(int(time.time() * 1000)), 60)) == (each["kind"] == "opened")
        Draft202012Validator(PAGERDUTY).validate(receiver(ENQUEUE, KEY, "shop").body([notice(**each)]))


def test_both_messages_of_an_alert_have_one_identity_and_other_alerts_have_others():
    alertmanager, pagerduty = receiver("http://am:9093", "", "shop"), receiver(ENQUEUE, KEY, "shop")
    for number, rule in ((0, "unlike"), (0, "silent"), (2, "unlike")):
        opened, cleared = alertmanager.body([notice(number, rule=rule), notice(number, "cleared", rule=rule)])
        assert opened["labels"] == cleared["labels"]
        features = alertmanager.body([notice(rule="missing", feature=name) for name in ("a", "b")])
        assert [each["labels"]["feature"] for each in features] == ["a", "b"]
        events = [pagerduty.body([notice(number, kind, rule=rule)]) for kind in ("opened", "cleared")]
        assert [each["event_action"] for each in events] == ["trigger", "resolve"]
        assert len({each["dedup_key"] for each in events}) == 1
    long = [pagerduty.body([notice(key=f"shop/unlike/{'x' * 300}/1/{number}")])["dedup_key"] for number in (0, 1)]
    assert len(set(long)) == 2
    (partition,) = alertmanager.body([notice(**ALERTS[5])])
    assert (partition["labels"]["partition"], "stream" in partition["labels"]) == ("t[3]", False)


INCIDENT = {
    **{"key": "shop/unlike/p0:m07/1/0", "kind": "broke", "text": "m07: broke 10:04, pressure 38", "certainty": "sure"},
    **{"severity": "warning", "streams": ["p0:m07"], "known": 12, "alerts": ["shop/unlike/p0:m07/1/0"], "drifts": 0},
    **{"signs": 1, "is_open": True, "since": "2026-05-06T10:04:00.000Z", "time": "2026-05-06T10:09:00.000Z"},
    "features": [{"feature": "pressure", "value": 38.0, "usual": 6.2}],
}


def test_an_incident_fits_both_apis_and_keeps_its_identity_while_it_grows():
    alertmanager, pagerduty = receiver("http://am:9093", "", "shop"), receiver(ENQUEUE, KEY, "shop")
    Draft202012Validator(load_schema("incident")).validate(INCIDENT)
    grown = {**INCIDENT, "severity": "critical", "streams": ["p0:m07", "p1:m08", "p0:m09", "p0:m10"], "signs": 6}
    ended = {**grown, "is_open": False, "within": "shop/unlike/p1:m01/1/0"}
    lists, events, was = [], [], None
    for each in (INCIDENT, grown, ended):
        found = notice_of("incidents", record(each))
        lists.append(alertmanager.body([found._replace(was=was)]))
        was = "warning" if each is INCIDENT else None
        Draft202012Validator(ALERTMANAGER).validate(lists[-1])
        events.append(pagerduty.body([found]))
        Draft202012Validator(PAGERDUTY).validate(events[-1])
    ahead = later(canonical(int(time.time() * 1000)), 60)
    states = [[(each["labels"]["severity"], each["endsAt"] > ahead) for each in sent] for sent in lists]
    # With another severity it is another alert there, and the one of before has ended.
    assert states == [[("warning", True)], [("critical", True), ("warning", False)], [("critical", False)]]
    assert {each["labels"]["incident"] for sent in lists for each in sent} == {INCIDENT["key"]}
    assert [(each["event_action"], each["dedup_key"]) for each in events] == [
        (action, INCIDENT["key"]) for action in ("trigger", "trigger", "resolve")
    ]
    assert events[1]["payload"]["source"] == "p0:m07, p1:m08, p0:m09, ..."


def test_another_severity_is_said_once_and_what_leaves_the_topic_ends():
    settings = Settings.of({"name": "shop", "broker.bootstrap": "127.0.0.1:9", "input.topics": ["t"]})
    consumer, at = AlertConsumer(settings, "shop-out", "incidents"), ("shop.incidents", 0)
    consumer.open = {at: {}}
    urgent = record({**INCIDENT, "severity": "critical"})
    gone = record(INCIDENT)._replace(value=None)
    found = [each.notice for each in consumer._read(at, [record(INCIDENT), urgent, urgent])]
    assert [(each.severity, each.was) for each in found] == [
        ("warning", None),
        ("critical", "warning"),
        ("critical", None),
    ]
    # It is repeated as it is.
    assert [each.notice for each in consumer.open[at].values()] == [found[-1]]
    ended = consumer._read(at, [gone, gone, record({"key": "no incident"})])
    assert [(each.notice.key, each.notice.is_open) for each in ended] == [(INCIDENT["key"], False)]
    assert consumer.open == {at: {}}
    consumer.close()


@pytest.mark.parametrize(
    ("url", "sent_to"),
    [
        ("http://am:9093", "http://am:9093/api/v2/alerts"),
        ("https://am/prefix/?x=1", "https://am/prefix/api/v2/alerts?x=1"),
        ("http://am:9093/api/v2/alerts", "http://am:9093/api/v2/alerts"),
        (ENQUEUE, ENQUEUE),
    ],
)
def test_the_path_of_a_url_says_what_it_takes(url, sent_to):
    found = receiver(url, KEY, "shop")
    assert found.url == sent_to
    assert found.name == ("pagerduty" if url == ENQUEUE else "alertmanager")
    assert found.shown == sent_to.partition("?")[0]
    assert found.without_secrets(f"x=1 {KEY}") == f"{'(secret)' if 'x=1' in url else 'x=1'} (secret)"


@pytest.mark.parametrize("url", ["am:9093", "ftp://am", "http://", "http://me:hunter2@am", "http://am:0", "http://[a"])
def test_a_url_that_is_none_is_refused_unseen(url, printed):
    said = printed(run, "alerts", "--to", url, code=2).err
    assert said.startswith("error: --to: write the URL as http://HOST:PORT of an Alertmanager")
    assert "hunter2" not in said


def test_pagerduty_needs_its_key(monkeypatch, printed):
    monkeypatch.setenv("RESONANCE_ALERTS__TOKEN", "hunter2")
    said = printed(run, "alerts", "--to", ENQUEUE, code=2).err
    assert re.search("32 characters: set RESONANCE_ALERTS__TOKEN", said)
    assert "hunter2" not in said


@pytest.mark.parametrize(
    ("options", "said"),
    [
        (["--to", "http://am", "--each"], "--each: --to sends every alert; leave it out"),
        (["--group", "x", "--port", "1"], "--group, --port: without --to nothing is sent; leave them out"),
        (["--publish", "--each", "--group", "x"], "--each, --group: --publish lists nothing; leave them out"),
    ],
)
def test_options_of_the_list_and_of_sending_do_not_go_together(options, said, printed):
    assert printed(run, "alerts", *options, code=2).err == f"error: {said}\n"
