"""What a deployment wants of its topics, compared with what there is; on the embedded broker, and without any."""

from contextlib import suppress

import pytest
from resonance.pipeline.checkpoint.changelog_writer import CHUNK_BYTES
from resonance.pipeline.cli import main
from resonance.pipeline.config.settings import Settings
from resonance.pipeline.errors import BrokerError, ConfigurationError, ResonanceError
from resonance.pipeline.kafka.admin import ClusterAdmin
from resonance.pipeline.kafka.embedded import EmbeddedBroker
from resonance.pipeline.topics.acls import needed
from resonance.pipeline.topics.configuration import made_with
from resonance.pipeline.topics.kinds import KINDS, SMALL_SEGMENTS, Topics
from resonance.pipeline.topics.start_check import check_start
from resonance.pipeline.topics.topics import checked, make_missing, prepare_topics, read_deployment, survey

from tests.pipeline.fake_cluster import FakeCluster

SHOP = Topics.of(Settings.of({"input.topics": ["in"], "name": "shop"}))


def deployed(**changed):
    """A cluster on which all topics fit but for what is changed, by kind."""
    topics = {"in": (3, {"retention.ms": "86400000"})}
    topics |= {topic.name: (3, made_with(topic, {"retention.ms": "86400000"})) for topic in SHOP.outputs}
    for kind, change in changed.items():
        name = "in" if kind == "input" else f"shop.{kind.replace('_', '-')}"
        partitions = int(change.get("partitions", 3))
        topics[name] = partitions, {**topics[name][1], **{key: v for key, v in change.items() if "." in key}}
    return FakeCluster(topics)


def test_a_deployment_that_fits_is_reported_as_the_worker_needs_it():
    found = checked(survey(deployed(), SHOP))
    assert (found.partitions, found.topic_ids) == (3, {"in": "id-in"})
    assert set(found.message_bytes) == {"in", *(topic.name for topic in SHOP.outputs)}


def test_only_what_can_do_without_routes_opens_a_deployment_before_its_first_worker():
    topics = Topics.of(Settings.of({"input.topics": ["in"], "name": "shop", "stream": "topic"}))
    cluster = FakeCluster({"in": (3, {})})
    found = read_deployment(cluster, topics, or_unrouted=True)
    assert (found.partitions, found.routes, found.topic_ids) == (3, 0, {"in": "id-in"})
    with pytest.raises(BrokerError, match=r"no topic shop\.routes with the routes .* start a worker, which makes it"):
        read_deployment(cluster, topics)


def test_missing_topics_are_made_as_they_are_wanted():
    cluster = FakeCluster({"in": (3, {"retention.ms": "-1"})})
    made = make_missing(cluster, survey(cluster, SHOP))
    assert made == [f"shop.{kind.name.replace('_', '-')}" for kind in KINDS if kind.name != "routes"]
    every = {"message.timestamp.type": "LogAppendTime", "compression.type": "producer", "max.message.bytes": "1048588"}
    assert cluster.topics["shop.clusters"] == cluster.topics["shop.snapshots"] == (3, {**SMALL_SEGMENTS, **every})
    kept = {"cleanup.policy": "delete", "retention.ms": "-1", **every}
    assert cluster.topics["shop.archive"] == cluster.topics["shop.assignments"] == (3, kept)
    assert not make_missing(cluster, survey(cluster, SHOP))
    checked(survey(cluster, SHOP))


@pytest.mark.parametrize(
    ("wanted", "there", "routes", "events"), [(None, None, 3, 3), (5, None, 5, 5), (2, None, 2, 3), (None, 7, 7, 7)]
)
def test_what_goes_with_streams_has_as_many_partitions_as_the_routes(wanted, there, routes, events):
    given = {"input.topics": ["in"], "name": "shop", "stream": "topic", "topics.routes_partitions": wanted}
    topics = Topics.of(Settings.of(given))
    cluster = FakeCluster({"in": (3, {"retention.ms": "-1"})} | ({"shop.routes": (there, {})} if there else {}))
    make_missing(cluster, survey(cluster, topics))
    assert cluster.topics["shop.routes"][0] == routes
    for kind in ("cluster-events", "clusters", "snapshots", "archive"):
        assert cluster.topics[f"shop.{kind}"][0] == events
    for kind in ("assignments", "dead-letters"):
        assert cluster.topics[f"shop.{kind}"][0] == 3
    found = checked(survey(cluster, topics))
    assert (found.partitions, found.routes, found.state_partitions) == (3, routes, events)
    assert set(found.topic_ids) == {"in", "shop.routes"}
    if there is None:
        assert cluster.topics["shop.routes"][1]["retention.ms"] == "-1"


def test_routes_of_another_number_than_the_settings_say_stop_the_start():
    given = {"input.topics": ["in"], "name": "shop", "stream": "topic", "topics.routes_partitions": 4}
    topics = Topics.of(Settings.of(given))
    cluster = FakeCluster({"in": (3, {})})
    make_missing(cluster, survey(cluster, topics))
    cluster.topics["shop.routes"] = (6, cluster.topics["shop.routes"][1])
    with pytest.raises(BrokerError, match=r"has 6 partitions, topics\.routes_partitions = 4"):
        checked(survey(cluster, topics))
    cluster.topics["shop.routes"] = (4, {"cleanup.policy": "compact"})
    with pytest.raises(BrokerError, match="would lose records of streams before they are learned"):
        checked(survey(cluster, topics))


def test_workers_read_and_write_the_routes_and_nobody_else_subscribes():
    rights = needed(Settings.of({"input.topics": ["in"], "name": "shop", "stream": "topic"}))
    (worker,) = [right for right in rights["worker"] if right.name == "shop.routes"]
    assert worker.operations == ("Create", "Write", "Read", "DescribeConfigs")
    assert not any(right.name == "shop.routes" for right in rights["subscriber"])
    plain = needed(Settings.of({"input.topics": ["in"], "name": "shop", "stream": "key"}))
    assert not any(right.name == "shop.routes" for some in plain.values() for right in some)


def test_a_topic_gets_room_for_what_the_settings_allow():
    given = {"input.topics": ["in"], "name": "shop", "stream": "topic", "limits.record_bytes": 5_000_000}
    settings = Settings.of(given)
    cluster = FakeCluster({"in": (1, {})})
    make_missing(cluster, survey(cluster, Topics.of(settings)))
    assert int(cluster.topics["shop.routes"][1]["max.message.bytes"]) > 5_000_000


@pytest.mark.parametrize(
    ("change", "text"),
    [
        ({"assignments": {"partitions": 2}}, "has 2 partitions, the input in has 3.*--alter --topic .* --partitions 3"),
        ({"assignments": {"partitions": 4}}, "has 4 partitions, the input in has 3.*name another"),
    ],
)
def test_a_topic_of_another_shape_stops_the_start(change, text):
    with pytest.raises(BrokerError, match=text):
        checked(survey(deployed(**change), SHOP))


@pytest.mark.parametrize(
    ("topics", "text"),
    [
        ({}, "input topic in does not exist on kafka:9092.*kafka-topics.sh --bootstrap-server"),
        ({"in": 2}, r"shop\.archive does not exist.*--partitions 2 --config cleanup.*unless topics.create is off"),
        ({"in": 2, "more": 3}, "in has 2, more has 3.*--alter --topic in --partitions 3"),
    ],
)
def test_a_topic_that_is_missing_or_differs_from_the_other_inputs_names_the_command_that_helps(topics, text):
    wanted = Topics.of(Settings.of({"input.topics": [*topics] or ["in"], "name": "shop"}))
    cluster = FakeCluster({name: (partitions, {}) for name, partitions in topics.items()})
    for kind in ("assignments", "cluster-events", "drift-events", "alerts", "dead-letters", "clusters", "snapshots"):
        cluster.topics[f"shop.{kind}"] = (2, SMALL_SEGMENTS if kind in ("clusters", "snapshots") else {})
    with pytest.raises(BrokerError, match=f"(?s){text}"):
        prepare_topics(cluster, wanted, create=False)


@pytest.mark.parametrize("kind", ["snapshots", "dead_letters", "archive"])
def test_a_topic_that_takes_too_little_is_refused_at_the_start(kind):
    name = f"shop.{kind.replace('_', '-')}"
    with pytest.raises(ConfigurationError, match=rf"topic {name} takes messages of {CHUNK_BYTES} bytes"):
        checked(survey(deployed(**{kind: {"max.message.bytes": str(CHUNK_BYTES)}}), SHOP))


@pytest.mark.parametrize(
    ("change", "text"),
    [
        ({"archive": {"retention.ms": "3600000"}}, "keeps records for a shorter time (retention.ms=3600000)"),
        ({"input": {"retention.ms": "-1"}}, "than the input (-1)"),
        (
            {"input": {"retention.bytes": "2000000"}, "archive": {"retention.bytes": "1500000"}},
            "keeps fewer bytes (retention.bytes=1500000) than the input (2000000)",
        ),
    ],
)
def test_what_a_worker_can_live_with_is_warned_of(change, text, caplog):
    checked(survey(deployed(**change), SHOP))
    assert text in caplog.text


def test_rights_that_are_missing_are_named_with_the_command_that_gives_them():
    cluster = deployed()
    cluster.operations = {"in": frozenset({"Describe"}), "shop.snapshots": frozenset({"Describe", "Read", "Write"})}
    with pytest.raises(
        BrokerError, match=r"gives User:shop no right to Read topic in; .* --topic in --operation Read "
    ):
        checked(survey(cluster, SHOP))
    cluster.operations = {"shop.snapshots": frozenset({"Describe"})}
    with pytest.raises(BrokerError, match=r"no right to Write and Read topic shop\.snapshots"):
        checked(survey(cluster, SHOP))


def test_a_cluster_that_does_not_tell_its_configuration_is_taken_as_it_is():
    cluster = deployed()
    cluster.configs = lambda topics: {}
    assert checked(survey(cluster, SHOP)).message_bytes == {}


def test_a_connection_that_cannot_be_set_up_names_its_settings():
    client = {"bootstrap.servers": "127.0.0.1:9", "security.protocol": "SASL_PLAINTEXT"}
    with pytest.raises(ConfigurationError, match=r"^\[broker\.librdkafka\]: no connection can be made with .*SASL"):
        prepare_topics(ClusterAdmin(client), Topics.named(["in"]))


def test_the_embedded_broker_has_its_topics_touched():
    with EmbeddedBroker([]) as broker:
        cluster = ClusterAdmin({"bootstrap.servers": broker.bootstrap})
        topics = Topics.named(["in"], assignments="out", snapshots="snap")
        found = prepare_topics(cluster, topics)
        assert found.embedded
        assert (found.partitions, found.topic_ids) == (4, {"in": ""})
        assert prepare_topics(cluster, topics, create=False) == found


@pytest.mark.parametrize(
    ("given", "text"), [({}, "stream is not set, and in has 3 partitions"), ({"input.topics": ["inn"]}, "inn does not")]
)
def test_a_start_that_is_refused_has_made_no_topics(monkeypatch, given, text):
    cluster = FakeCluster({"in": (3, {})})
    monkeypatch.setattr("resonance.pipeline.topics.start_check.ClusterAdmin", lambda *_: cluster)
    with pytest.raises(ResonanceError, match=text):
        check_start(Settings.of({"input.topics": ["in"], **given}), {}, create=True)
    assert set(cluster.topics) == {"in"}


@pytest.mark.parametrize(
    ("named", "text"), [((), "deployment resonance (name is not set)\n"), (("--name", "shop"), "")]
)
def test_topics_are_not_made_under_a_name_that_was_not_given_without_a_word(monkeypatch, capsys, tmp_path, named, text):
    monkeypatch.chdir(tmp_path)
    cluster = FakeCluster({"in": (3, {})})
    monkeypatch.setattr("resonance.pipeline.cli.topics._cluster", lambda *_: cluster)
    monkeypatch.setattr("sys.argv", ["resonance", "topics", "create", "--topics", "in", *named])
    with suppress(SystemExit):
        main.main()
    printed = capsys.readouterr()
    assert printed.err == text
    assert f"made {named[-1] if named else 'resonance'}.snapshots with 3 partitions" in printed.out


def test_the_topic_of_labels_may_have_any_number_of_partitions():
    by_labels = {"engine.name": "mlca_c", "input.id_path": "id", "input.dimension": 2, "stream": "topic"}
    wanted = Topics.of(Settings.of({"input.topics": ["in"], "name": "shop", "labels.topic": "said", **by_labels}))
    cluster = FakeCluster({"in": (3, {"retention.ms": "500000"}), "said": (4, {"retention.ms": "900000"})})
    make_missing(cluster, survey(cluster, wanted))
    counts = {name: partitions for name, (partitions, _) in cluster.topics.items()}
    assert {name.removeprefix("shop."): count for name, count in counts.items()} == {
        "in": 3,
        "said": 4,
        "assignments": 3,
        "cluster-events": 3,
        "drift-events": 3,
        "alerts": 4,
        "dead-letters": 4,
        "clusters": 3,
        "snapshots": 4,
        "archive": 4,
        "routes": 3,
    }
    assert cluster.topics["shop.routes"][1]["retention.ms"] == "900000"
    found = checked(survey(cluster, wanted))
    assert (found.partitions, found.labels, found.routes, found.state_partitions, found.dead_letters) == (3, 4, 3, 4, 4)
    assert found.topic_ids.keys() == {"in", "said", "shop.routes"}
    cluster.topics["said"] = 4, {"cleanup.policy": "compact"}
    assert any("labels topic said is compacted" in d.text for s in survey(cluster, wanted).all for d in s.differences)
    del cluster.topics["said"]
    with pytest.raises(BrokerError, match=r"no topic said with labels on .*; check labels\.topic, or create it"):
        survey(cluster, wanted)
