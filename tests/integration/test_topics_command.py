"""`resonance topics`: what it prints, for people and for machines, and what it says when something is not there."""

import json

import pytest

from tests.brokers import create_topic, topic_name
from tests.brokers.jvm import free_port
from tests.pipeline.commands import run as run_command

pytestmark = pytest.mark.broker


@pytest.fixture
def topics(broker, monkeypatch, capsys, tmp_path):
    """Runs `resonance topics` on a deployment of its own, which ends with a code; returns results and messages."""
    monkeypatch.chdir(tmp_path)
    name = topic_name("shop")

    def run(command, *arguments, inputs, servers=broker, code=0):
        own = ["--set", f"broker.bootstrap={servers}", "--name", name, "--topics", inputs]
        assert run_command(monkeypatch, "topics", command, *own, *arguments) == code
        return capsys.readouterr()

    run.name = name
    return run


def test_a_deployment_is_planned_created_and_checked(topics, broker):
    source, name = create_topic(broker, "in", partitions=2, retention_ms=86_400_000), topics.name
    out, _ = topics("plan", inputs=source)
    lines = {line.split()[0]: line for line in out.splitlines()}
    assert lines[source].split()[1:6] == ["input", "exists", "2", "delete", "24"]
    assert "would be created" in lines[f"{name}.snapshots"]
    assert f"--create --topic {name}.archive --partitions 2 --config cleanup.policy=delete" in out
    assert lines[f"{name}.incidents"].split()[1:4] == ["incidents", "optional", "1"]
    assert (
        f"`resonance alerts --publish` makes {name}.incidents (topics.create); or make it by\n  kafka-topics.sh" in out
    )
    _, err = topics("check", "--set", "stream=partition", inputs=source, code=69)
    assert f"topic {name}.assignments does not exist" in err
    assert "`resonance topics create`" in err
    made = json.loads(topics("create", "--json", inputs=source)[0])
    assert len(made["made"]) == made["topics"] - 1 == 8
    assert topics("create", inputs=source)[0] == "all 9 topics exist\n"
    assert topics("check", "--set", "stream=partition", inputs=source)[0] == "all 9 topics fit\n"
    out, _ = topics("check", "--set", "stream=partition", "--json", inputs=source)
    assert json.loads(out) == {"fits": True, "topics": 9, "partitions": 2}
    planned = json.loads(topics("plan", "--json", inputs=source)[0])
    assert {topic["kind"]: topic["state"] for topic in planned["optional"]} == {
        "names": "missing",
        "incidents": "missing",
    }
    archive = next(topic for topic in planned["topics"] if topic["kind"] == "archive")
    assert (archive["state"], archive["config"]["retention.ms"]) == ("exists", "86400000")


def test_the_rights_are_commands_or_objects_and_need_no_broker(topics):
    absent = f"127.0.0.1:{free_port()}"
    out, _ = topics("plan", "--acls", "--principal", "User:shop", inputs="in", servers=absent)
    command = f"kafka-acls.sh --bootstrap-server {absent} --add --allow-principal User:shop"
    assert f"{command} --topic in --operation Read --operation DescribeConfigs" in out.splitlines()
    assert f"{command} --group {topics.name} --operation Read" in out.splitlines()
    out, _ = topics("plan", "--acls", "--json", "--set", "delivery.mode=at_least_once", inputs="in")
    listed = json.loads(out)
    assert listed["principal"] == "User:NAME"
    assert {acl["role"] for acl in listed["acls"]} >= {"worker", "subscriber", "producer"}
    workers = [acl for acl in listed["acls"] if acl["role"] == "worker"]
    assert not [acl for acl in workers if acl["resource"] == "transactional-id"]
    assert all(acl["why"] and acl["command"].startswith("kafka-acls.sh") for acl in workers)


def test_a_missing_input_is_made_only_when_asked_for(topics, broker):
    source = topic_name("in")
    create_topic(broker, f"{source}x", partitions=1, exact=True)
    for command in ("plan", "create", "check"):
        _, err = topics(command, inputs=source, code=69)
        assert f"input topic {source} does not exist on {broker} (did you mean {source}x?)" in err
    out, _ = topics("create", "--create-input", "3", inputs=source)
    assert out.splitlines()[0] == f"made {source} with 3 partitions"
    assert topics("create", "--create-input", "5", inputs=source)[0] == "all 9 topics exist\n"


def test_what_does_not_fit_is_shown_and_never_altered(topics, broker):
    source, name = create_topic(broker, "in", partitions=2), topics.name
    create_topic(broker, f"{name}.assignments", partitions=1, exact=True)
    out, _ = topics("plan", inputs=source)
    assert "differs, stops the start" in out
    assert f"--alter --topic {name}.assignments --partitions 2" in out
    for command in ("create", "check"):
        out, err = topics(command, "--set", "stream=partition", inputs=source, code=69)
        assert f"topic {name}.assignments on {broker} has 1 partition, the input {source} has 2" in err
    assert "made" not in out


def test_an_absent_broker_and_options_that_do_not_go_together(topics):
    absent = f"127.0.0.1:{free_port()}"
    for command in ("plan", "create", "check"):
        out, err = topics(command, "--set", "broker.answer_timeout=0.3", inputs="in", servers=absent, code=69)
        assert (out, f"no Kafka broker answers at {absent}" in err) == ("", True)
    topics("plan", "--principal", "User:x", inputs="in", code=2)
    topics("plan", "--record-bytes", "9", inputs="in", code=2)
