"""Answers of the brokers to a reader of logs."""

from types import SimpleNamespace

import pytest
from confluent_kafka import OFFSET_BEGINNING, KafkaError, KafkaException
from confluent_kafka import TopicPartition as Place
from resonance.pipeline.errors import BrokerError
from resonance.pipeline.kafka.log_reader import LogReader

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
