"""Answers of the brokers to a reader of logs."""

import pytest
from confluent_kafka import KafkaError, KafkaException
from resonance.pipeline.errors import BrokerError
from resonance.pipeline.kafka.log_reader import LogReader

CLIENT = {"bootstrap.servers": "127.0.0.1:9"}


class Broken:
    """A consumer whose requests fail with the given codes, one after the other, and then succeed."""

    def __init__(self, *codes):
        self._codes = list(codes)

    def get_watermark_offsets(self, place, timeout):
        if self._codes:
            raise KafkaException(KafkaError(self._codes.pop(0)))
        return 3, 7

    def poll(self, timeout):
        return None

    def close(self):
        pass


def bounds(*codes):
    reader = LogReader(CLIENT, "g", 60.0)
    reader._consumer.close()
    reader._consumer = Broken(*codes)
    return reader.bounds([("in", 0)])


@pytest.mark.parametrize("code", [KafkaError._DESTROY, KafkaError._TRANSPORT, KafkaError._TIMED_OUT])
def test_a_connection_that_breaks_under_a_request_is_no_answer(code):
    assert bounds(code, code) == {("in", 0): (3, 7)}


def test_another_error_is_one():
    with pytest.raises(BrokerError, match="log ends of group g"):
        bounds(KafkaError._INVALID_ARG)
