"""What a worker makes of the ids of its topics, and of a broker that does not say them."""

import threading
import time
from contextlib import contextmanager
from dataclasses import replace
from types import SimpleNamespace

import pytest
from resonance.pipeline.checkpoint.compatibility import check_topics
from resonance.pipeline.checkpoint.deployment_context import DeploymentContext
from resonance.pipeline.errors import (
    BrokerError,
    ConfigurationError,
    DeliveryError,
    DeniedError,
    FencedError,
    MismatchError,
)
from resonance.pipeline.kafka.admin import FoundTopic
from resonance.pipeline.kafka.topology import Deployment
from resonance.pipeline.worker import topic_watch
from resonance.pipeline.worker.topic_watch import TopicWatch

from tests.pipeline.repartition.two_hops import ROUTES
from tests.pipeline.streams import TOPIC, settings

GIVEN = settings(stream="partition")
OUTPUTS = {GIVEN.topic(kind): f"id-{kind}" for kind in ("assignments", "snapshots", "archive")}
SOURCE = DeploymentContext.of(GIVEN, {}, Deployment(2, {TOPIC: "id-in"}, output_ids=OUTPUTS))
REKEYED = DeploymentContext.of(
    settings(stream="topic"), {}, Deployment(2, {TOPIC: "id-in", ROUTES: "id-r"}, routes=3, output_ids=OUTPUTS)
)


def found(**changed):
    """The topics of SOURCE, some of them changed, or None for deleted."""
    topics = {TOPIC: FoundTopic("id-in", 2), ROUTES: FoundTopic("id-r", 3)}
    topics |= {name: FoundTopic(topic_id, 2) for name, topic_id in OUTPUTS.items()}
    topics |= {GIVEN.topic(kind) if kind in OUTPUT_KINDS else kind: topic for kind, topic in changed.items()}
    return {name: topic for name, topic in topics.items() if topic is not None}


OUTPUT_KINDS = ("assignments", "snapshots", "archive")


def test_the_same_topics_are_no_reason_to_stop():
    check_topics(SOURCE, found())
    check_topics(SOURCE, found(assignments=FoundTopic("id-assignments", 9)))
    # With re-keyed streams records of an added partition go to where their models are.
    check_topics(REKEYED, found(**{TOPIC: FoundTopic("id-in", 5)}))


@pytest.mark.parametrize(
    ("source", "changed", "error", "text"),
    [
        (SOURCE, {TOPIC: None}, MismatchError, f"topic {TOPIC} was deleted under the running worker.*--reset"),
        (SOURCE, {TOPIC: FoundTopic("new", 2)}, MismatchError, "made again .its id is new.*--reset"),
        (SOURCE, {TOPIC: FoundTopic("new", 7)}, MismatchError, "made again .its id is new"),
        (SOURCE, {TOPIC: FoundTopic("id-in", 3)}, MismatchError, "has 3 partitions, .* when it had 2.*--new-version"),
        (REKEYED, {ROUTES: FoundTopic("id-r", 4)}, MismatchError, "the routes .* have 4 partitions.*--reset"),
        (REKEYED, {ROUTES: None}, MismatchError, "was deleted under the running worker"),
        (
            SOURCE,
            {"assignments": None},
            MismatchError,
            "output topic .*assignments was deleted.*topics create.*--reset",
        ),
        (SOURCE, {"assignments": FoundTopic("new", 2)}, MismatchError, "output topic .*assignments was deleted"),
        (SOURCE, {"snapshots": None}, BrokerError, "the next start makes it again"),
    ],
)
def test_topics_that_changed_stop_the_worker_with_a_remedy(source, changed, error, text):
    with pytest.raises(error, match=text):
        check_topics(source, found(**changed))


class Broker:
    """Answers with topics or raises, from the first one on; the last answer stays."""

    def __init__(self, *answers):
        self.answers = list(answers)

    def __call__(self):
        answer = self.answers.pop(0) if len(self.answers) > 1 else self.answers[0]
        if isinstance(answer, Exception):
            raise answer
        return answer


@pytest.fixture
def watch(monkeypatch):
    """Make a watch over a broker; its clock stands where `watch.now` says."""
    monkeypatch.setattr(topic_watch, "CONFIRM_SECONDS", 0.0)
    failures, made = [], []

    def make(*answers):
        clock = [100.0]
        made.append(
            TopicWatch(
                Broker(*answers), lambda topics: check_topics(SOURCE, topics), failures.append, clock=lambda: clock[0]
            )
        )
        made[-1].failures, made[-1].now = failures, clock
        return made[-1]

    yield make
    for one in made:
        one.stop()


def test_an_answer_from_before_a_commit_does_not_cover_it(watch):
    watched = watch(found())
    assert watched.look() is None
    watched.wait(0.0)
    watched.now[0] += 0.001
    with pytest.raises(DeliveryError, match="no broker described the topics for 0 s"):
        watched.wait(0.0)
    watched.wait(0.0, age=1.0)
    watched.now[0] += 1.0
    with pytest.raises(DeliveryError):
        watched.wait(0.0, age=1.0)


def test_a_commit_is_answered_at_once_and_not_at_the_next_interval(watch, monkeypatch):
    monkeypatch.setattr(topic_watch, "INTERVAL", 3_600.0)
    watched = watch(found(), found(), found(), found(**{TOPIC: None}))
    watched.now[0] = 0.0
    watched.start()
    with pytest.raises(MismatchError, match="was deleted"):
        for _ in range(4):
            watched.now[0] += 1.0
            watched.wait(60.0)


@contextmanager
def waiting(watched):
    """Let a commit wait meanwhile; yield what it ended with, which must be something at the end."""
    ended = []

    def commit():
        try:
            ended.append(watched.wait(60.0))
        except MismatchError as error:
            ended.append(error)

    thread = threading.Thread(target=commit, daemon=True)
    thread.start()
    while not watched._changed._waiters:
        time.sleep(0.001)
    yield ended
    thread.join(60.0)
    assert ended


def test_a_commit_waits_for_an_answer_and_for_nothing_else(watch):
    watched = watch(BrokerError("no answer"), found())
    with waiting(watched) as ended:
        assert watched.look() is None
        assert not ended, "a broker that does not answer covers nothing"
        assert watched.look() is None
    assert watched.failures == []


def test_an_answer_that_takes_long_covers_the_commit_that_waited_for_it(watch):
    watched = watch(found())

    def slow():
        watched.now[0] += 3.0
        return found()

    with waiting(watched):
        watched._describe = slow
        assert watched.look() is None


def test_a_changed_topic_ends_the_waiting_commit_and_the_worker(watch):
    watched = watch(found(**{TOPIC: None}))
    with waiting(watched) as ended:
        error = watched.look()
    assert ended == watched.failures == [error]
    assert watched.look() is error
    assert watched.failures == [error], "reported once"


def test_one_answer_of_a_broker_that_lags_behind_is_no_difference(watch):
    watched = watch(found(**{TOPIC: None}), found())
    assert watched.look() is None
    watched.wait(0.0)
    watched = watch(found(**{TOPIC: None}), BrokerError("no answer"))
    assert watched.look() is None
    with pytest.raises(DeliveryError):
        watched.wait(0.0)
    assert watched.failures == []


def test_a_missing_right_is_named_by_the_client_that_lacks_it(watch):
    watched = watch(DeniedError("no right to describe"))
    assert watched.look() is None
    watched.wait(0.0)


def test_changed_topics_are_the_reason_for_what_the_broker_says(watch):
    gone, away, fenced = MismatchError("truncated"), BrokerError("no such topic"), FencedError("another worker")
    watched = watch(found())
    assert [watched.explained(error) for error in (gone, away)] == [gone, away]
    for error in (gone, away, DeliveryError("not sent")):
        assert "made again" in str(watch(found(**{TOPIC: FoundTopic("new", 2)})).explained(error))
    assert watch(found(**{TOPIC: None})).explained(fenced) is fenced


@pytest.mark.parametrize("error", [ConfigurationError("no certificate"), RuntimeError("unforeseen")])
def test_no_error_ends_the_thread_and_who_waits_in_vain_is_told_it(watch, monkeypatch, error):
    monkeypatch.setattr(topic_watch, "INTERVAL", 0.001)
    watched, away = watch(error, error, found()), BrokerError("no such topic")
    assert watched.explained(away) is away, "the failure that is explained is not replaced"
    with pytest.raises(DeliveryError, match=rf"no broker described the topics for 0 s \(.*{error}.*\), so that"):
        watched.wait(0.0)
    watched.start()
    watched.wait(60.0)
    broken = TopicWatch(dict, lambda _: {}["not there"], pytest.fail)
    broken.start()
    with pytest.raises(DeliveryError, match="KeyError"):
        broken.wait(0.1)
    assert broken._thread.is_alive()
    broken.stop()


def test_the_embedded_broker_is_not_watched():
    embedded = replace(SOURCE, deployment=replace(SOURCE.deployment, embedded=True))
    watched = TopicWatch.of(lambda: embedded, pytest.fail)
    watched.start()
    watched.wait(60.0)
    watched.stop()


def test_a_broker_that_gives_no_answer_is_not_the_one_that_is_requested_next(monkeypatch):
    answers, connections = [found(), BrokerError("no answer"), found()], []

    def connect(*_):
        connections.append(SimpleNamespace(find=lambda _: Broker(answers.pop(0))()))
        return connections[-1]

    monkeypatch.setattr(topic_watch, "ClusterAdmin", connect)
    watched = TopicWatch.of(lambda: SOURCE, pytest.fail)
    for expected in (1, 1, 2):
        assert watched.look() is None
        assert len(connections) == expected
