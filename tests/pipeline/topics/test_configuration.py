"""What Kafka may do to each kind of topic: what stops a start, what is warned of, and that what is made fits."""

import logging

import pytest
from confluent_kafka import KafkaError, KafkaException
from resonance.pipeline.config.settings import Settings
from resonance.pipeline.errors import ResonanceError
from resonance.pipeline.kafka.admin import ClusterAdmin
from resonance.pipeline.topics.configuration import DAY_MS, WEEK_MS, made_with
from resonance.pipeline.topics.kinds import KINDS, Topics
from resonance.pipeline.topics.topics import checked, make_inputs, make_missing, prepare_topics, survey

from tests.pipeline.fake_cluster import FakeCluster

ROUTED = Settings.of({"input.topics": ["in"], "name": "shop", "stream": "topic"})
SHOP = Topics.of(ROUTED)
COMPACTED = ("clusters", "snapshots")
KEPT = [kind.name for kind in KINDS if kind.name not in COMPACTED]
WRITTEN = [kind.name for kind in KINDS]


def changed(kind, **config):
    """A cluster whose topics fit, but for the configuration of one kind."""
    cluster = FakeCluster({"in": (2, {"retention.ms": str(DAY_MS)})})
    make_missing(cluster, survey(cluster, SHOP))
    name = "in" if kind == "input" else ROUTED.topic(kind)
    config = {key.replace("_", "."): value for key, value in config.items()}
    cluster.topics[name] = (2, cluster.topics[name][1] | config)
    return cluster, name


@pytest.mark.parametrize("retention", ["1", "300000", str(DAY_MS), str(30 * DAY_MS), "-1"])
@pytest.mark.parametrize("copies", [-1, 1, 3])
def test_a_topic_that_is_made_fits_whatever_the_brokers_defaults_are(retention, copies, caplog):
    cluster = FakeCluster({"in": (2, {"retention.ms": retention, "retention.bytes": retention})})
    cluster.copies = copies
    make_missing(cluster, survey(cluster, SHOP))
    for name, (partitions, config) in cluster.topics.items():
        defaults = {"cleanup.policy": "compact", "retention.ms": "1", "retention.bytes": "1", "max.message.bytes": "9"}
        defaults |= {"compression.type": "gzip", "message.timestamp.type": "CreateTime"}
        defaults |= {"message.timestamp.before.max.ms": "1", "message.timestamp.after.max.ms": "1"}
        cluster.topics[name] = (partitions, config if name == "in" else defaults | config)
    outputs = [status for status in survey(cluster, SHOP).all if not status.topic.kind.of_others]
    assert not [each.text for status in outputs for each in status.differences]


@pytest.mark.parametrize("policy", ["compact", "compact,delete", "delete,compact"])
@pytest.mark.parametrize("kind", KEPT)
def test_an_output_that_kafka_thins_out_stops_the_start(kind, policy):
    cluster, name = changed(kind, cleanup_policy=policy)
    with pytest.raises(ResonanceError, match=f"topic {name} has cleanup.policy={policy} and would") as caught:
        checked(survey(cluster, SHOP))
    assert caught.value.exit_code == 69
    assert f"--entity-name {name} --add-config cleanup.policy=delete" in str(caught.value)


def test_a_start_that_is_refused_for_one_topic_has_made_no_other(caplog):
    cluster = FakeCluster({"in": (2, {"retention.ms": "1"}), "shop.alerts": (2, {"cleanup.policy": "compact"})})
    with pytest.raises(ResonanceError, match=r"cleanup\.policy=compact"):
        prepare_topics(cluster, SHOP)
    assert set(cluster.topics) == {"in", "shop.alerts"}
    assert not caplog.messages, "what stops comes before what is only unwise"


@pytest.mark.parametrize("kind", COMPACTED)
def test_a_topic_of_the_newest_that_kafka_deletes_by_age_stops_the_start(kind):
    for policy in ("delete", "compact,delete", ""):
        cluster, name = changed(kind, cleanup_policy=policy)
        with pytest.raises(ResonanceError, match=f"topic {name} has cleanup.policy={policy} and would lose"):
            checked(survey(cluster, SHOP))


@pytest.mark.parametrize("kind", KEPT)
@pytest.mark.parametrize(("name", "value"), [("retention.ms", "1000"), ("retention.bytes", "0")])
def test_an_output_that_is_deleted_before_it_can_be_read_stops_the_start(kind, name, value):
    cluster, topic = changed(kind, **{name: value})
    with pytest.raises(ResonanceError, match=f"topic {topic} has {name}={value}: Kafka deletes messages before"):
        checked(survey(cluster, SHOP))


@pytest.mark.parametrize("kind", WRITTEN)
@pytest.mark.parametrize(
    ("config", "stops", "text"),
    [
        ({"min.insync.replicas": "4"}, True, "has min.insync.replicas=4 and 3 copies of each partition, so that it"),
        ({"min.insync.replicas": "3"}, False, "takes no message while one broker is away"),
        ({"min.insync.replicas": "2"}, False, None),
        ({"min.insync.replicas": "1"}, False, "what only one of 3 copies of each partition has is lost"),
        ({"compression.type": "gzip"}, False, "has compression.type=gzip: brokers unpack and pack every batch"),
        ({"unclean.leader.election.enable": "true"}, False, "a broker that lacks messages may come first"),
        ({"message.timestamp.type": "CreateTime"}, False, None),
        ({"message.timestamp.before.max.ms": "1"}, False, None),
        (
            {"message.timestamp.type": "CreateTime", "message.timestamp.before.max.ms": "1"},
            True,
            "has message.timestamp.before.max.ms=1 and message.timestamp.type=CreateTime: it refuses messages",
        ),
        (
            {"message.timestamp.type": "CreateTime", "message.timestamp.after.max.ms": "600000"},
            False,
            "has message.timestamp.after.max.ms=600000 and message.timestamp.type=CreateTime",
        ),
    ],
)
def test_what_kafka_does_to_a_topic_stops_the_start_or_is_warned_of(kind, config, stops, text, caplog):
    cluster, name = changed(kind, **config)
    if stops:
        with pytest.raises(ResonanceError, match=f"topic {name} {text}.* kafka-configs.sh .* --entity-name {name} "):
            checked(survey(cluster, SHOP))
        return
    checked(survey(cluster, SHOP))
    said = [line for line in caplog.messages if f"topic {name} " in line]
    assert len(said) == (text is not None)
    if text is not None:
        assert text in said[0]
        assert f"--entity-name {name} --add-config {next(iter(config))}=" in said[0] or "timestamp" in text


def test_tombstones_that_kafka_soon_forgets_are_warned_of(caplog):
    cluster, name = changed("snapshots", delete_retention_ms="1000")
    checked(survey(cluster, SHOP))
    assert f"snapshots topic {name} has delete.retention.ms=1000" in caplog.text


@pytest.mark.parametrize(
    ("config", "text"),
    [
        ({"cleanup.policy": "compact"}, "it takes no record without a key, and records that the broker removes"),
        ({"cleanup.policy": "compact,delete"}, "is compacted"),
        ({"retention.ms": "60000"}, "has retention.ms=60000: records that wait longer for a worker are lost"),
        ({"retention.bytes": "1000"}, "has retention.bytes=1000: records are deleted before they can be read"),
        ({"message.timestamp.type": "LogAppendTime"}, "a record's time is that of its arrival"),
    ],
)
def test_what_kafka_does_to_the_input_is_warned_of(config, text, caplog):
    cluster, _ = changed("input", **config)
    checked(survey(cluster, SHOP))
    assert any(text in line and "input topic in " in line for line in caplog.messages)


def test_times_of_their_own_make_the_time_of_arrival_unimportant(caplog):
    cluster, _ = changed("input", message_timestamp_type="LogAppendTime")
    topics = Topics.of(Settings.of({"input.topics": ["in"], "name": "shop", "stream": "topic", "input.time_path": "t"}))
    checked(survey(cluster, topics))
    assert not caplog.messages


def test_topics_for_others_are_made_to_keep_every_record():
    cluster = FakeCluster({})
    make_inputs(cluster, SHOP, 2)
    assert cluster.topics["in"] == (2, {"cleanup.policy": "delete"})


def test_an_answer_is_kept_for_a_week_or_for_as_long_as_its_record():
    answers = next(topic for topic in SHOP.outputs if topic.kind.name == "assignments")
    kept = [made_with(answers, {"retention.ms": given})["retention.ms"] for given in ("1000", str(60 * DAY_MS), "-1")]
    assert kept == [str(WEEK_MS), str(60 * DAY_MS), "-1"]
    assert made_with(answers, {})["retention.ms"] == str(WEEK_MS)
    assert made_with(answers, {}, copies=3)["min.insync.replicas"] == "2"


def test_a_configuration_that_may_not_be_read_is_said_once(caplog):
    class Refusing:
        def describe_configs(self, resources, request_timeout):
            return dict.fromkeys(resources, self)

        def result(self, _):
            raise KafkaException(KafkaError(KafkaError.TOPIC_AUTHORIZATION_FAILED))

    cluster = ClusterAdmin.__new__(ClusterAdmin)
    cluster.servers, cluster._client, cluster._unread = "kafka:9092", {"bootstrap.servers": "kafka:9092"}, set()
    cluster._admin, cluster._timeout = Refusing(), 1.0
    with caplog.at_level(logging.WARNING):
        for _ in range(3):
            assert cluster.configs(["b", "a"]) == {}
    (said,) = caplog.messages
    assert said.startswith("the configuration of a, b cannot be read (Broker: Topic authorization failed)")
    assert "--topic a --operation DescribeConfigs" in said
