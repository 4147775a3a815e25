"""What stands on the topics is followed, and what is wrong with them is said in a sentence."""

import time

import orjson
import pytest
from resonance.pipeline.config.settings import Settings
from resonance.pipeline.errors import DeniedError
from resonance.pipeline.kafka.admin import ClusterAdmin
from resonance.pipeline.kafka.embedded import EmbeddedBroker
from resonance.pipeline.kafka.log_reader import LogReader
from resonance.pipeline.page import answers, follower, view
from resonance.pipeline.page.answers import UnknownNameError
from resonance.pipeline.page.follower import Follower
from resonance.pipeline.page.past import StreamPast
from resonance.pipeline.timestamps import epoch_ms
from resonance.schemas import dead_letter_headers

from tests.pipeline.page import outputs

KINDS = ("assignments", "cluster-events", "drift-events", "alerts", "dead-letters", "clusters", "names")
TOPICS = {kind: f"shop.{kind}" for kind in KINDS}
REASON = {"topic": "o", "partition": 0, "offset": 0, "stage": "decode", "class": "not_json", "message": ""}


class Shop:
    """A deployment that has emitted something, and a page that follows it."""

    def __init__(self, broker):
        self.broker = broker
        self.published = []
        self.following = Follower(
            Settings.of({"name": "shop", "broker.bootstrap": broker.bootstrap, "input.topics": ["orders"]}),
            broker.client_settings(),
            self.published.extend,
        )

    @property
    def view(self):
        return self.following.view

    def emit(self, topic, value, key=b"k", headers=(), partition=0):
        self.broker.append(TOPICS[topic], partition, None if value is None else orjson.dumps(value), key, headers)

    def cluster(self, *what, **more):
        key, value = outputs.cluster(*what, **more)
        self.emit("clusters", orjson.loads(value), key)

    def until(self, condition, seconds=30):
        end = time.monotonic() + seconds
        while not condition():
            assert time.monotonic() < end, (self.following.troubles, self.view.headline())
            time.sleep(0.02)


@pytest.fixture
def shop(monkeypatch):
    monkeypatch.setattr(follower, "LOOK_SECONDS", 0.1)
    monkeypatch.setattr(follower, "ROUND_SECONDS", 0.05)
    with EmbeddedBroker(TOPICS.values()) as broker:
        made = Shop(broker)
        made.cluster("p0/1/0")
        made.emit("cluster-events", outputs.event("emerged", "p0/1/0", second=1))
        made.emit("drift-events", outputs.drift("drift", "p0/1/0", second=3))
        made.emit("cluster-events", outputs.event("emerged", "p1/1/0", second=2), partition=1)
        broker.flush()
        try:
            yield made
        finally:
            made.following.stop()


def test_it_begins_with_what_is_there_and_goes_on_with_what_comes(shop):
    shop.following.start()
    shop.until(lambda: shop.following.loaded == 1)
    with shop.view.lock:
        assert [entry.time for entry in shop.view.timeline] == [outputs.time_of(second) for second in (1, 2, 3)]
        assert answers.stream(shop.view, "p0")["table"][0]["id"] == "p0/1/0"
    assert shop.published == []
    shop.emit("alerts", outputs.alert("opened", "p0"))
    shop.emit("cluster-events", outputs.event("emerged", "p0/1/1", 1, 9))
    shop.cluster("p0/1/1")
    shop.until(lambda: len(shop.published) == 2 and "p0/1/1" in shop.view.streams["p0"].clusters)
    assert {entry["kind"] for entry in shop.published} == {"alerts", "events"}
    assert shop.following.sentences() == []


def test_names_are_followed_and_also_what_their_clusters_became_before(shop, monkeypatch):
    monkeypatch.setattr(follower, "HISTORY", 1)
    parsed = []
    parse = view._parsed
    monkeypatch.setattr(view, "_parsed", lambda value: parsed.append(value) or parse(value))
    shop.emit("cluster-events", outputs.event("split", "p0/1/1", 1, 4, other="p0/1/0"))
    shop.emit("cluster-events", outputs.event("emerged", "p0/1/2", 2, 5))
    shop.cluster("p0/1/1")
    shop.broker.flush()
    shop.following.start()
    shop.until(lambda: shop.following.loaded == 1)
    assert len(parsed) == len(set(parsed)), "an output is parsed once"
    shop.emit("names", {"cluster": "p0/1/0", "name": "night batch", "time": outputs.time_of(6)}, b"p0/1/0")
    shop.broker.flush()
    names = {"p0/1/0": "night batch", "p0/1/1": "from night batch"}
    shop.until(lambda: answers.stream(shop.view, "p0")["names"] == names)


def test_reading_the_past_holds_no_more_outputs_than_it_shows(shop, monkeypatch):
    taken = []
    monkeypatch.setattr(follower, "MOST_PAST", 2)
    monkeypatch.setattr(StreamPast, "extend", lambda _, found: taken.extend(record.offset for _, record in found))
    for seq in range(1, 6):
        shop.emit("cluster-events", outputs.event("emerged", f"p0/1/{seq}", seq, seq))
    shop.broker.flush()
    shop.following.start()
    shop.until(lambda: shop.following.loaded == 1)
    shop.following.stored("p0")
    assert len(taken) == 2, "the newest ones alone"


def test_a_stream_is_shown_as_it_was_at_a_time(shop, monkeypatch):
    reads = []
    shop.emit("cluster-events", outputs.event("split", "p0/1/1", 1, 5, other="p0/1/0"))
    shop.emit("cluster-events", outputs.event("absorbed", "p0/1/1", 2, 9, other="p0/1/0"))
    shop.broker.flush()
    shop.following.start()
    shop.until(lambda: shop.following.loaded == 1)
    for second in range(12):
        shop.view.apply_answer(orjson.dumps(outputs.answer("p0", 0, second)), 1.0, counts=True)
    stored = shop.following.stored("p0")
    assert shop.following.stored("p0") is stored
    monkeypatch.setattr(LogReader, "read", lambda _, ranges: reads.append(ranges) or [])
    monkeypatch.setattr(follower, "PAST_SECONDS", 0.0)
    assert shop.following.stored("p0") is stored
    assert all(begin == end for begin, end in reads[0].values()), "what was read is not read again"

    def at(second):
        return answers.stream(stored.at(epoch_ms(outputs.time_of(second)), shop.view), "p0")

    assert [row["id"] for row in at(2)["table"]] == ["p0/1/0"]
    assert (at(2)["drift"], at(2)["history"]["total"]) == (None, [1, 1, 1])
    assert [row["id"] for row in at(5)["table"]] == ["p0/1/0", "p0/1/1"]
    assert at(5)["drift"] == "p0/1/0 changed, seen at 3"
    lines = {line["id"]: line["ended"] for line in at(9)["lines"]}
    assert lines == {"p0/1/0": None, "p0/1/1": epoch_ms(outputs.time_of(9))}
    assert [entry["what"] for entry in at(5)["events"]] == ["split", "drift", "emerged"]
    with pytest.raises(
        UnknownNameError, match=r"p0 had no cluster at .*its events are stored from 2026-01-05T08:00:01"
    ):
        at(0)
    with pytest.raises(UnknownNameError, match=r"had no cluster at 1970.*Z; its events are not stored any more"):
        StreamPast("p0").at(0, shop.view)
    with pytest.raises(UnknownNameError, match=r"there is no stream p00 \(did you mean p0 or p1\?\)"):
        StreamPast("p00").at(0, shop.view)


def test_of_many_answers_the_newest_are_read_and_stand_for_all(shop, monkeypatch):
    monkeypatch.setattr(follower, "SAMPLED", {"assignments": 80, "dead_letters": 40})
    monkeypatch.setattr(follower, "SAVED", 1.0)
    shop.following.start()
    shop.until(lambda: shop.following.loaded == 1)
    # A first round finds where the topics end.
    shop.emit("assignments", outputs.answer("p0", 0))
    shop.until(lambda: counted(shop) == 1)
    for number in range(2_000):
        shop.emit("assignments", outputs.answer("p0", number % 2, number // 100))
        shop.emit("dead-letters", {}, headers=dead_letter_headers("shop", REASON))
    shop.broker.flush()
    shop.until(lambda: counted(shop) >= 1_990)
    shop.until(lambda: sum(each["count"] for each in shop.view.dead_letters.values()) >= 1_990)
    assert counted(shop) == pytest.approx(2_001, abs=10)


def counted(shop):
    with shop.view.lock:
        return sum(shop.view.streams["p0"].history.as_json()["total"])


def test_a_topic_that_is_not_there_is_waited_for_and_one_that_goes_is_missed(shop, monkeypatch):
    gone = {TOPICS["clusters"]}
    counts = ClusterAdmin.partition_counts
    monkeypatch.setattr(
        ClusterAdmin, "partition_counts", lambda self: {t: n for t, n in counts(self).items() if t not in gone}
    )
    shop.following.start()
    shop.until(lambda: shop.following.loaded == 1)
    (sentence,) = shop.following.sentences()
    assert sentence.startswith("there is no topic shop.clusters on ")
    assert sentence.endswith("a worker of the deployment shop makes it at its start")
    assert shop.view.headline()["clusters"] == 0
    gone.clear()
    shop.until(lambda: shop.view.headline()["clusters"] == 1 and not shop.following.sentences())
    gone.add(TOPICS["cluster-events"])
    shop.until(lambda: "no topic shop.cluster-events on" in " ".join(shop.following.sentences()))
    shop.until(lambda: [entry.kind for entry in shop.view.timeline] == ["drift"])


def test_without_the_right_to_a_topic_the_others_are_shown(shop, monkeypatch):
    poll = follower.DeploymentOutputs.poll

    def denied(self, timeout):
        if any(topic == TOPICS["alerts"] for topic, _ in self.positions):
            raise DeniedError("no right to Read topic shop.alerts")
        return poll(self, timeout)

    monkeypatch.setattr(follower.DeploymentOutputs, "poll", denied)
    shop.following.start()
    shop.until(lambda: shop.view.headline()["clusters"] == 1)
    assert shop.following.sentences() == ["no right to Read topic shop.alerts"]


def test_an_error_of_its_own_ends_no_page(shop, monkeypatch):
    apply, failed = follower.DeploymentView.apply_cluster, []

    def fails_once(self, *what):
        if not failed:
            failed.append(1)
            raise ZeroDivisionError("once")
        apply(self, *what)

    monkeypatch.setattr(follower.DeploymentView, "apply_cluster", fails_once)
    shop.following.start()
    shop.until(lambda: shop.view.headline()["clusters"] == 1)
    assert failed
