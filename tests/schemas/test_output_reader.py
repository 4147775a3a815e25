"""A topic that did not exist is looked for again without harm to the outputs of the others."""

import signal
from types import SimpleNamespace

import pytest
from confluent_kafka import KafkaError, KafkaException
from resonance.schemas import OutputReader, output_reader

ABSENT = SimpleNamespace(error=KafkaError(KafkaError.UNKNOWN_TOPIC_OR_PART), partitions={})
THERE = SimpleNamespace(error=None, partitions={0: None, 1: None})


class FakeConsumer:
    """A consumer of a broker that has the alerts, and no names until they are put among the topics."""

    def __init__(self, _):
        self.topics = {"shop.alerts": THERE, "shop.names": ABSENT}
        self.looks, self.waits, self.handlers, self.assigned = [], [], [], []
        self.failure, self.spent = None, 0.0

    def list_topics(self, topic, timeout):
        self.looks.append((topic, timeout))
        self.handlers.append(signal.getsignal(signal.SIGINT))
        Clock.now += self.spent
        if self.failure is not None:
            raise KafkaException(KafkaError(self.failure))
        return SimpleNamespace(topics={topic: self.topics[topic]})

    def consume(self, _, timeout):
        self.waits.append(timeout)
        return []

    def assign(self, places):
        self.assigned = [(place.topic, place.partition) for place in places]


class Clock:
    now = 1000.0

    @classmethod
    def monotonic(cls):
        return cls.now


@pytest.fixture
def reader(monkeypatch):
    """A reader whose next poll looks for the names again."""
    monkeypatch.setattr(output_reader, "_Consumer", FakeConsumer)
    monkeypatch.setattr(output_reader, "time", Clock)
    reader = OutputReader("127.0.0.1:9", "shop", ["alerts", "names"])
    reader._consumer.looks.clear()
    Clock.now += 11
    return reader


@pytest.mark.parametrize("code", [KafkaError._TRANSPORT, KafkaError._TIMED_OUT, KafkaError._ALL_BROKERS_DOWN])
def test_a_look_in_an_outage_takes_no_longer_than_the_poll_and_raises_nothing(reader, code):
    consumer = reader._consumer
    consumer.failure, consumer.spent = code, 0.8
    assert reader.poll(1.0) == []
    assert consumer.looks == [("shop.alerts", 1.0)]
    assert consumer.waits == [pytest.approx(0.2)]
    # Not again at once, and again later.
    assert reader.poll(1.0) == []
    assert (len(consumer.looks), consumer.waits[1:]) == (1, [1.0])
    Clock.now += 11
    consumer.failure, consumer.topics["shop.names"] = None, THERE
    reader.poll(60.0)
    assert consumer.looks[1:] == [("shop.alerts", 10.0), ("shop.names", pytest.approx(9.2))]
    assert consumer.assigned == [("shop.alerts", 0), ("shop.alerts", 1), ("shop.names", 0), ("shop.names", 1)]


def test_who_never_waits_finds_the_topic_too(reader):
    reader._consumer.topics["shop.names"] = THERE
    reader.poll(0.0)
    assert reader._consumer.looks == [("shop.alerts", 0.5), ("shop.names", 0.5)]
    assert ("shop.names", 1) in reader._consumer.assigned
    assert reader._consumer.waits == [0.0]


@pytest.mark.parametrize("code", [KafkaError.TOPIC_AUTHORIZATION_FAILED, KafkaError._AUTHENTICATION])
def test_a_look_that_the_cluster_refuses_raises(reader, code):
    reader._consumer.failure = code
    with pytest.raises(KafkaException):
        reader.poll(1.0)


def test_ctrl_c_in_a_look_is_an_instance(reader):
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    try:
        reader._consumer.handlers.clear()
        reader.poll(1.0)
        assert signal.default_int_handler not in reader._consumer.handlers
        assert signal.getsignal(signal.SIGINT) is signal.default_int_handler
    finally:
        signal.signal(signal.SIGINT, before)
