"""Answers of the brokers to a reader of logs."""

from types import SimpleNamespace
from typing import NamedTuple

import pytest
from confluent_kafka import OFFSET_BEGINNING, KafkaError, KafkaException
from confluent_kafka import TopicPartition as Place
from resonance.pipeline.errors import BrokerError
from resonance.pipeline.kafka.intake import PublicIntake
from resonance.pipeline.kafka.log_reader import LogReader, sizes
from resonance.pipeline.memory_budget import LEAST, MIB, MemoryBudget

CLIENT = {"bootstrap.servers": "127.0.0.1:9"}


class Broken:
    """A consumer whose requests fail with the given codes, one after the other, and then succeed."""

    def __init__(self, *codes):
        self._codes = list(codes)
        self.requests = []

    def offsets_for_times(self, places, timeout):
        self.requests.append(places)
        if self._codes:
            raise KafkaException(KafkaError(self._codes.pop(0)))
        return [Place(at.topic, at.partition, 3 if at.offset == OFFSET_BEGINNING else 7) for at in places]

    def list_topics(self, topic, timeout):
        self.requests.append(topic)
        return SimpleNamespace(topics={topic: SimpleNamespace(partitions=range(24 if topic == "in" else 0))})

    def poll(self, timeout):
        return None

    def close(self):
        pass


def reader_of(*codes):
    reader = LogReader(CLIENT, "g", 60.0)
    reader._consumer.close()
    reader._consumer = Broken(*codes)
    return reader


def bounds(*codes):
    return reader_of(*codes).bounds([("in", 0)])


def test_requests_are_few_however_many_partitions_there_are():
    reader, places = reader_of(), [("in", number) for number in range(24)]
    assert reader.bounds(places) == dict.fromkeys(places, (3, 7))
    assert len(reader._consumer.requests) == 2
    assert all(map(reader.has, places))
    assert not any(reader.has(place) for place in [("in", 24), ("absent", 0), ("absent", 1)])
    assert reader._consumer.requests[2:] == ["in", "absent"]


@pytest.mark.parametrize("code", [KafkaError._DESTROY, KafkaError._TRANSPORT, KafkaError._TIMED_OUT])
def test_a_connection_that_breaks_under_a_request_is_no_answer(code):
    assert bounds(code, code) == {("in", 0): (3, 7)}


def test_another_error_is_one():
    with pytest.raises(BrokerError, match="log ends of group g"):
        bounds(KafkaError._INVALID_ARG)


class Full:
    """A consumer with so many records of a size, of which it returns as many as are requested."""

    def __init__(self, count, size):
        self.requested, self._left = [], [(offset, bytes(size)) for offset in range(count)]

    def assign(self, places):
        pass

    pause = resume = assign

    def unassign(self):
        pass

    def consume(self, most, timeout):
        self.requested.append(most)
        given, self._left = self._left[:most], self._left[most:]
        return [Message(offset, value) for offset, value in given]


class Message(NamedTuple):
    at: int
    content: bytes

    def offset(self):
        return self.at

    def value(self):
        return self.content

    def timestamp(self):
        return 1, 1000

    topic, partition, key = (lambda _: "in"), (lambda _: 0), (lambda _: None)
    error = headers = lambda _: None


def test_a_process_with_a_budget_reads_no_more_at_once_than_it_has_room_for(monkeypatch):
    monkeypatch.setattr(LogReader, "memory", MemoryBudget(32 * 100_000))
    reader = LogReader(CLIENT, "g", 60.0, foreign=True)
    reader._consumer.close()
    reader._consumer = consumer = Full(500, 9_800)
    read = [record.offset for _, records in reader.read({("in", 0): (0, 499)}) for record in records]
    assert read == list(range(499))
    assert consumer.requested[0] == 64
    assert set(consumer.requested[1:]) == {10}


class Starting(Full):
    """Ten records of one partition, as long as it is not paused; while it starts, requests to go on are lost."""

    def __init__(self):
        super().__init__(0, 0)
        self.is_paused = self.is_starting = False

    def assign(self, places):
        self.is_starting = True

    def pause(self, places):
        self.is_paused = True

    def resume(self, places):
        self.is_paused = self.is_paused and self.is_starting

    def unassign(self):
        self.is_starting = False

    def consume(self, most, timeout):
        return [] if self.is_paused else [Message(offset, b"") for offset in range(10)]


def test_a_pause_ends_although_what_comes_while_a_partition_starts_is_lost():
    reader = LogReader(CLIENT, "g", 0.5)
    reader._consumer.close()
    reader._consumer = consumer = Starting()
    for _ in range(2):
        assert [len(records) for _, records in reader.read({("in", 0): (0, 8)})] == [8]
    assert consumer.is_paused
    PublicIntake(consumer).assign({("in", 0): 0})
    assert not consumer.is_paused


def test_a_process_with_a_budget_fetches_no_more_than_it_can_unpack(monkeypatch):
    assert "fetch.max.bytes" not in sizes(None, foreign=True)
    own, foreign = (sizes(MemoryBudget(1024 * MIB), foreign=foreign) for foreign in (False, True))
    assert own["fetch.max.bytes"] == 16 * MIB
    assert 200_000 < foreign["fetch.max.bytes"] == foreign["fetch.message.max.bytes"] < 300_000
    for memory in (None, MemoryBudget(LEAST)):
        # librdkafka takes the values together.
        monkeypatch.setattr(LogReader, "memory", memory)
        for kind in (False, True):
            LogReader(CLIENT, "g", 60.0, foreign=kind).__exit__(None, None, None)
