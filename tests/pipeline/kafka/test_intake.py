"""Records come as columns from a queue of our own as they come by public calls: the same ones, each once, in order."""

import random
import threading
import time
from contextlib import contextmanager

import pytest
from confluent_kafka import Consumer, KafkaError
from resonance.pipeline.kafka import librdkafka
from resonance.pipeline.kafka.embedded import PARTITIONS, EmbeddedBroker
from resonance.pipeline.kafka.intake import PublicIntake, QueueIntake

from tests.brokers.raw import produce_raw

TOPICS = ("in", "other")
PLACES = [(topic, partition) for topic in TOPICS for partition in range(PARTITIONS)]
ENOUGH = 20.0
"""Seconds in which a mock cluster surely answers."""


def queue_intake(consumer):
    return QueueIntake(librdkafka.load(), consumer)


WAYS = pytest.mark.parametrize("make", [queue_intake, PublicIntake], ids=["queue", "public"])


def random_messages(count, draw):
    """Messages as producers send them, each with the partition it goes to."""
    for number in range(count):
        value = draw.choice((None, b"", b"\0", draw.randbytes(draw.randrange(2000)), b'{"id":%d}' % number))
        key = draw.choice((None, b"", draw.randbytes(20)))
        names = draw.choices(("h", "h", "", "größe", "other"), k=draw.choice((0, 0, 0, 1, 3)))
        yield draw.choice(PLACES), value, key, [(name, draw.choice((None, b"", b"\xff"))) for name in names]


@pytest.fixture(scope="module")
def filled():
    """A mock cluster, and what is in each partition of it."""
    content = {place: [] for place in PLACES}
    with EmbeddedBroker(TOPICS) as broker:
        for place, value, key, headers in random_messages(1500, random.Random(8)):
            content[place].append((key, value, tuple(headers)))
            broker._running().produce(place[0], value, key, place[1], headers=headers)
        broker.append("in", 0, b"x" * 900_000)
        content["in", 0].append((None, b"x" * 900_000, ()))
        broker.flush()
        yield broker, content


@contextmanager
def reading(broker, make, **settings):
    """A consumer and its intake, which are closed in their order."""
    own = {"group.id": "test", "enable.partition.eof": True, "fetch.wait.max.ms": 10, "auto.offset.reset": "error"}
    consumer = Consumer(broker.client_settings() | own | settings)
    intake = make(consumer)
    yield intake
    intake.close()
    began = time.monotonic()
    consumer.close()
    assert time.monotonic() - began < 2


def read(intake, mosts, until):
    """Take again and again, at most so many in turn; return the records by partition, and the events."""
    records, events, end = {}, [], time.monotonic() + ENOUGH
    while not until(records, events):
        assert time.monotonic() < end
        assert intake.poll() is None
        most = next(mosts)
        taken, own = intake.take(0.1, most)
        assert len({(part.topic, part.partition) for part in taken}) == len(taken)
        assert sum(map(len, taken)) <= most
        for part in taken:
            records.setdefault((part.topic, part.partition), []).extend(part)
        events += own
    return records, events


def whole(places):
    return lambda records, events: {(event.topic, event.partition) for event in events} >= set(places)


def repeated(*mosts):
    while True:
        yield from mosts


@WAYS
@pytest.mark.parametrize("mosts", [(1,), (7, 1, 300), (100_000,)], ids=str)
def test_every_record_comes_once_and_in_order_however_many_are_taken(filled, make, mosts):
    broker, content = filled
    with reading(broker, make) as intake:
        intake.assign(dict.fromkeys(PLACES, 0))
        records, events = read(intake, repeated(*mosts), whole(PLACES))
    for place in PLACES:
        assert [(r.key, r.value, tuple(r.headers)) for r in records[place]] == content[place]
        assert [r.offset for r in records[place]] == list(range(len(content[place])))
        assert {(r.topic, r.partition) for r in records[place]} == {place}
        assert all(abs(r.timestamp / 1000 - time.time()) < 600 for r in records[place])
    ends = {(event.topic, event.partition): event.offset for event in events}
    assert ends == {place: len(own) for place, own in content.items()}
    assert {event.error.code() for event in events} == {KafkaError._PARTITION_EOF}


@WAYS
def test_a_header_whose_name_is_not_utf_8_harms_no_record(make):
    headers = [[("a", b"1")], [("a", b"1"), (b"\xff\xfe", b"2")], [("\u00e4", None)], []]
    rows = [(b"k%d" % n, b"v%d" % n, own) for n, own in enumerate(headers)]
    with EmbeddedBroker(["in"]) as broker:
        produce_raw(broker.bootstrap, "in", 1, rows)
        with reading(broker, make) as intake:
            intake.assign({("in", 1): 0})
            records, _ = read(intake, repeated(100), whole([("in", 1)]))
    assert [(r.key, r.value, list(r.headers)) for r in records["in", 1]] == [
        (key, value, own if number != 1 else []) for number, (key, value, own) in enumerate(rows)
    ]


def test_a_client_closes_at_once_with_records_left_in_the_queue(filled):
    for _ in range(5):
        with reading(filled[0], queue_intake) as intake:
            intake.assign(dict.fromkeys(PLACES, 0))
            read(intake, repeated(1), lambda records, events: records)
            # Others have come meanwhile.
            time.sleep(0.05)


def test_a_queue_that_is_given_up_is_given_up_once(filled):
    with reading(filled[0], queue_intake) as intake:
        intake.assign(dict.fromkeys(PLACES, 0))
        intake.close()
        intake.wake()


def test_a_closed_consumer_has_no_queue(filled):
    consumer = Consumer(filled[0].client_settings() | {"group.id": "test"})
    consumer.close()
    with pytest.raises(RuntimeError, match="Consumer closed"):
        queue_intake(consumer)


def test_another_thread_ends_the_wait_for_a_first_record(filled):
    with reading(filled[0], queue_intake) as intake:
        intake.assign({("in", 0): len(filled[1]["in", 0])})
        read(intake, repeated(1), whole([("in", 0)]))
        threading.Timer(0.05, intake.wake).start()
        began = time.monotonic()
        assert intake.take(ENOUGH, 10) == ([], [])
        assert time.monotonic() - began < ENOUGH / 2
        # Before the wait, too: it is for what was requested meanwhile.
        intake.wake()
        assert intake.take(ENOUGH, 10) == ([], [])
        assert time.monotonic() - began < ENOUGH / 2


@WAYS
@pytest.mark.parametrize("between", ["nothing", "no assignment", "another partition"])
def test_a_take_behind_an_assignment_brings_nothing_of_before(filled, make, between):
    broker, content = filled
    place, draw = ("other", 2), random.Random(3)
    end = len(content[place])
    with reading(broker, make) as intake:
        for _ in range(40):
            offset = draw.randrange(end)
            if between == "no assignment":
                intake._consumer.unassign()
            elif between == "another partition":
                intake.assign({("in", 1): 0})
            intake.assign({place: offset})
            # Sometimes before anything is fetched, sometimes with all of it in the queue.
            time.sleep(draw.choice((0.0, 0.0, 0.02)))
            most = draw.choice((1, 5, 1000))
            records, _ = read(intake, repeated(most), lambda records, events: records)
            assert [r.offset for r in records[place]] == list(range(offset, offset + len(records[place])))
            assert list(records) == [place]


@WAYS
def test_an_offset_that_is_gone_is_an_event_with_its_place(filled, make):
    with reading(filled[0], make) as intake:
        intake.assign({("in", 1): 10_000})
        _, events = read(intake, repeated(100), lambda records, events: events)
    assert [(e.error.code(), e.topic, e.partition, e.offset) for e in events] == [
        (KafkaError._AUTO_OFFSET_RESET, "in", 1, 10_000)
    ]
