"""What a worker compares before it joins its group, from a few records of the snapshots topic."""

from dataclasses import replace

import pytest
from resonance.pipeline import mismatches
from resonance.pipeline.checkpoint import newest_records as newest
from resonance.pipeline.checkpoint.changelog_records import partition_key
from resonance.pipeline.checkpoint.deployment_context import DeploymentContext
from resonance.pipeline.errors import BrokerError, MismatchError
from resonance.pipeline.kafka.admin import FoundTopic
from resonance.pipeline.records import Message
from resonance.pipeline.worker import before_joining

from tests.pipeline.fake_cluster import FakeCluster
from tests.pipeline.memory_deployment import MemoryDeployment
from tests.pipeline.streams import TOPIC

KINDS = ("assignments", "cluster_events", "dead_letters", "clusters", "snapshots", "archive")


@pytest.fixture
def deployment(monkeypatch):
    made = MemoryDeployment(monkeypatch, 2, records=100)
    for until in (40, 70, 100):
        made.work(until)
    made.seen.clear()
    return made


def test_it_is_the_newest_record_of_each_partition_whatever_stands_behind_it(deployment, monkeypatch):
    found = newest.newest_records(deployment, deployment.source)
    assert {at: record.position for at, record in found.items()} == {(TOPIC, 0): 100, (TOPIC, 1): 100}
    for number in range(3):
        deployment.append((deployment.source.snapshots, 0), Message(b"else", b"%d" % number, []))
    deployment.append((deployment.source.snapshots, 1), Message(partition_key(TOPIC), None, []))
    monkeypatch.setattr(newest, "TAIL", 1)
    found = newest.newest_records(deployment, deployment.source)
    assert {at: record.position for at, record in found.items()} == {(TOPIC, 0): 100}
    deployment.append((deployment.source.snapshots, 0), Message(partition_key(TOPIC), b"?", []))
    assert newest.newest_records(deployment, deployment.source) == {}, "a restore says what is wrong"


def test_a_few_records_are_read(deployment, monkeypatch):
    monkeypatch.setattr(newest, "TAIL", 3)
    newest.newest_records(deployment, deployment.source)
    assert len(deployment.seen) <= 4


def test_another_log_is_the_reason_before_other_settings(deployment):
    records = newest.newest_records(deployment, deployment.source)
    newest.check_newest(deployment.source, records)
    other = deployment.changed(engine__memory=177)
    source = DeploymentContext.of(other, {}, deployment.source.deployment)
    with pytest.raises(MismatchError, match=r"engine.memory was \d+, is 177"):
        newest.check_newest(source, records)
    again = replace(deployment.source.deployment, topic_ids={**deployment.source.deployment.topic_ids, TOPIC: "id-9"})
    with pytest.raises(MismatchError, match="made again"):
        newest.check_newest(DeploymentContext.of(other, {}, again), records)


class Cluster(FakeCluster):
    """Topics of a deployment in memory, with the ids that its snapshots know."""

    def find(self, topics, operations=None):
        found = super().find(topics, operations)
        return {name: FoundTopic("id-1", there.partitions) for name, there in found.items()}

    def check_seen(self, topic):
        """It is no secret that a topic is missing."""


@pytest.fixture
def check(deployment, monkeypatch):
    topics = {TOPIC: (2, {}), **{deployment.given.topic(kind): (2, {}) for kind in KINDS}}
    cluster = Cluster(topics)
    monkeypatch.setattr(before_joining, "ClusterAdmin", lambda *_: cluster)

    def run(given=None, recovery="", missing=()):
        for name in missing:
            cluster.topics.pop(name)
        before_joining.check_before_joining(given or deployment.given, {}, recovery)

    return run


def test_a_worker_with_other_settings_does_not_join(check, deployment):
    check()
    other = deployment.changed(engine__memory=177)
    with pytest.raises(MismatchError, match=r"engine.memory was \d+, is 177.*--new-version"):
        check(other)
    check(other, recovery=mismatches.NEW_VERSION)


@pytest.mark.parametrize("recovery", ["", mismatches.NEW_VERSION])
@pytest.mark.parametrize(
    ("changed", "text"),
    [
        ({"stream": "topic"}, "learned with stream = key, it is topic"),
        ({"stream": "field:country"}, "learned with stream = key, it is field:country"),
    ],
)
def test_what_new_models_cannot_change_is_refused_before_topics_are_made(check, deployment, recovery, changed, text):
    # The routes that it would need are not there yet.
    with pytest.raises(MismatchError, match=text):
        check(deployment.changed(**changed), recovery=recovery)


def test_what_each_partition_needs_is_compared(deployment):
    records = newest.newest_records(deployment, deployment.source)
    other = DeploymentContext.of(deployment.changed(engine__memory=177), {}, deployment.source.deployment)
    newest.check_newest(other, records, mismatches.NEW_VERSION)
    first, second = records
    elsewhere = replace(records[second], identity=replace(records[second].identity, pipeline="else"))
    with pytest.raises(MismatchError, match="belongs to pipeline else"):
        newest.check_newest(other, {first: records[first], second: elsewhere}, mismatches.NEW_VERSION)


def test_an_output_that_was_deleted_is_not_made_again_in_silence(check, deployment):
    name = deployment.given.topic("assignments")
    with pytest.raises(MismatchError, match=f"output topic {name} was deleted.*resonance topics create.*--reset"):
        check(missing=[name])
    with pytest.raises(MismatchError):
        check(recovery=mismatches.RESUME)
    check(recovery=mismatches.RESET)


def test_topics_of_the_program_alone_are_made_again(check, deployment):
    check(missing=[deployment.given.topic("archive")])


def test_a_new_deployment_and_missing_inputs_are_left_to_the_check_of_topics(check, deployment, monkeypatch):
    for number in range(2):
        deployment.logs[deployment.source.snapshots, number] = []
    check(missing=[deployment.given.topic("assignments")])

    def no_input(*_, **__):
        raise BrokerError("no input")

    monkeypatch.setattr(before_joining, "read_deployment", no_input)
    check()
