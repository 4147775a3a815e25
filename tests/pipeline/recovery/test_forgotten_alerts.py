"""Alerts whose state a command drops: everyone who has seen them open sees them clear; without a broker."""

from functools import partial
from typing import Any, get_args

import orjson
import pytest
from jsonschema import Draft202012Validator
from resonance.pipeline.recovery import recovery
from resonance.pipeline.recovery.forgotten_alerts import ForgottenAlerts
from resonance.pipeline.task.alerts.alert_table import OpenAlertTable
from resonance.schemas import AlertRule, load_schema

from tests.pipeline.memory_deployment import MemoryDeployment, rekeyed
from tests.pipeline.streams import TOPIC

AT = (TOPIC, 0)
OFF: dict[str, Any] = {"alerts__off": get_args(AlertRule)}
KEY = "resonance/dead_letters/features[0]/1/0"
SPOILED = range(220, 300)

pytestmark = pytest.mark.usefixtures("soon_alerts")


def made(patch, **changed):
    """A deployment whose records are of no use for a while."""
    deployment = MemoryDeployment(patch, **changed)
    spoil(deployment, SPOILED)
    return deployment


def spoil(deployment, offsets):
    log = deployment.logs[AT]
    for offset in offsets:
        log[offset] = log[offset]._replace(value=b'{"cpu": "much"}')


@pytest.fixture
def deployment(monkeypatch):
    return made(monkeypatch)


def recorded(deployment, partitions=1):
    return [record for partition in range(partitions) for record in deployment.recorded("alerts", partition)]


def open_keys(deployment, partitions=1):
    table = OpenAlertTable()
    table.apply(recorded(deployment, partitions))
    return [alert["key"] for alert in table.alerts()]


def last(deployment):
    return orjson.loads(deployment.recorded("alerts")[-1].value)


def test_an_alert_that_is_written_again_has_the_digits_of_its_cause(deployment):
    deployment.work(300)
    opened = next(record for record in recorded(deployment) if b'"opened"' in (record.value or b""))
    table = OpenAlertTable()
    table.apply([opened._replace(value=(opened.value or b"").replace(b'"id":null', b'"id":18446744073709551617'))])
    ((place, found),) = table.opened.items()
    cleared = ForgottenAlerts(deployment.source, table)._cleared(found, place, "reset").value or b""
    assert b'"cause":{"id":18446744073709551617,' in cleared


def test_a_reset_clears_what_is_open(deployment, command, capsys):
    deployment.work(250, everything=True)
    assert open_keys(deployment) == [KEY]
    opened = last(deployment)
    reset = partial(command, "reset", "--topics", TOPIC)
    assert reset() == 0
    shown = capsys.readouterr().out
    assert "resonance.alerts (open alerts whose state goes are cleared)" in shown
    assert f"{KEY}  cleared" in shown
    assert open_keys(deployment) == [KEY]
    assert reset("--yes", "--json") == 0
    assert orjson.loads(capsys.readouterr().out)["partitions"][0]["alerts"] == [KEY]
    assert open_keys(deployment) == []
    cleared = last(deployment)
    Draft202012Validator(load_schema("alert"), format_checker=Draft202012Validator.FORMAT_CHECKER).validate(cleared)
    assert (cleared["kind"], cleared["reason"], cleared["seq"]) == ("cleared", "reset", opened["seq"] + 1)
    assert cleared["text"] == "features[0]: the alert ended, because the deployment was reset"
    assert (cleared["since"], cleared["cause"]) == (opened["since"], opened["cause"])
    before, after = deployment.recorded("alerts")[-2:]
    assert after.key == before.key == KEY.encode()
    ids = [dict(record.headers)["ce_id"] for record in (before, after)]
    assert ids[1].startswith(ids[0].removesuffix(b"opened") + b"cleared/reset/")


def test_the_messages_that_clear_are_numbered_for_each_partition(monkeypatch, command):
    deployment = MemoryDeployment(monkeypatch, 2)
    spoil(deployment, SPOILED)
    other = deployment.logs[TOPIC, 1]
    for offset in (*range(50, 70), *range(220, 300)):
        other[offset] = other[offset]._replace(value=b"{")
    deployment.work(250, everything=True)
    assert command("reset", "--topics", TOPIC, "--yes") == 0
    for partition in range(2):
        numbers = [orjson.loads(record.value)["seq"] for record in deployment.recorded("alerts", partition)]
        assert numbers == list(range(len(numbers))) != []


def test_a_reset_clears_what_is_open_though_every_rule_is_off_now(deployment, command):
    deployment.work(250, everything=True)
    assert open_keys(deployment) == [KEY]
    deployment.take_settings(deployment.changed(**OFF))
    assert command("reset", "--topics", TOPIC, "--yes") == 0
    assert open_keys(deployment) == []


def test_after_a_reset_the_alert_opens_again_and_the_command_is_no_difference(deployment, command):
    deployment.work(250, everything=True)
    assert command("reset", "--topics", TOPIC, "--yes") == 0
    deployment.work(250)
    assert open_keys(deployment) == [KEY]
    deployment.work(600)
    assert open_keys(deployment) == []
    assert deployment.verify().identical


def test_a_reset_of_rekeyed_streams_clears_the_alerts_of_both_hops(monkeypatch, command):
    made = rekeyed(monkeypatch, engine__min_cluster_records=10_000)
    log = made.logs[TOPIC, 1]
    log[200:] = [record._replace(value=b"{}") for record in log[200:]]
    made.turn()
    made.turn()
    rules = {key.split("/")[1] for key in open_keys(made, 3)}
    assert rules == {"dead_letters", "unconfirmed"}
    assert command("reset", "--topics", TOPIC, "--yes") == 0
    assert open_keys(made, 3) == []


def test_a_rollback_clears_what_its_state_does_not_have(deployment, command):
    deployment.work(200, everything=True, archive=True)
    deployment.work(250, everything=True)
    assert open_keys(deployment) == [KEY]
    assert command("reset", "--topics", TOPIC, "--to-archive", "210", "--yes") == 0
    assert open_keys(deployment) == []
    assert last(deployment)["reason"] == "rollback"
    deployment.work(600)
    assert open_keys(deployment) == []
    assert deployment.verify().identical


def test_a_rollback_leaves_open_what_its_state_has_open(deployment, command):
    deployment.work(240, everything=True, archive=True)
    deployment.work(250, everything=True)
    assert command("reset", "--topics", TOPIC, "--to-archive", "245", "--yes") == 0
    assert open_keys(deployment) == [KEY]
    deployment.work(600)
    kinds = [orjson.loads(record.value)["kind"] for record in recorded(deployment) if record.key == KEY.encode()]
    assert kinds == ["opened", "cleared"]


def test_an_import_clears_what_its_state_does_not_have(monkeypatch, command):
    # Nearly no record has a cluster.
    deployment = made(monkeypatch, engine__min_cluster_records=10_000)
    deployment.work(140, everything=True)
    assert command("snapshots", "export", "early", "--topics", TOPIC) == 0
    deployment.work(600, everything=True)
    before = open_keys(deployment)
    assert {key.split("/")[2] for key in before} == {"p0:a", "p0:b"}
    at = {key: orjson.loads(r.value)["cause"]["source"]["offset"] for r in recorded(deployment) for key in [r.key]}
    # As if one had opened before the file was written, in a history that was given up.
    log = deployment.recorded("alerts")
    place = next(i for i, record in enumerate(log) if b"p0:a" in record.key)
    offset = b'"offset":%d' % at[log[place].key]
    log[place] = log[place]._replace(value=log[place].value.replace(offset, b'"offset":100'))
    assert command("snapshots", "import", "early", "--topics", TOPIC, "--yes") == 0
    assert open_keys(deployment) == []


def test_new_models_clear_what_no_state_has(monkeypatch):
    deployment = made(monkeypatch)
    deployment.work(200, everything=True)
    deployment.work(250, snapshots=False)
    deployment.expire(TOPIC, 250)
    assert open_keys(deployment) == [KEY]
    deployment.take_settings(deployment.changed(engine__memory=300))
    # The records with which it opened are gone, so that the old models cannot be had again.
    assert recovery.begin_versions(deployment.source) == 1
    assert open_keys(deployment) == []
    assert last(deployment)["reason"] == "new_version"


def test_without_a_topic_of_alerts_a_reset_goes_on(monkeypatch, command):
    deployment = made(monkeypatch)
    deployment.work(100)
    del deployment.logs[deployment.given.topic("alerts"), 0]
    assert command("reset", "--topics", TOPIC, "--yes") == 0
