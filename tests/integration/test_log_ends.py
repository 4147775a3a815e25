"""What a broker says of the ends of logs, and of the transaction that holds records back."""

import time

import pytest
from confluent_kafka import Producer
from confluent_kafka.admin import AdminClient
from faust.types import TP
from resonance.pipeline.worker.transport import log_ends
from resonance.pipeline.worker.transport.log_ends import LogEnd, OpenTransaction

from tests.brokers import create_topic, topic_name
from tests.integration.workers import wait_until

pytestmark = pytest.mark.broker


def test_both_ends_and_the_first_record_of_an_open_transaction_are_known(broker):
    topic, client = create_topic(broker, "held", partitions=3), {"bootstrap.servers": broker}
    upstream = Producer({**client, "transactional.id": topic_name("upstream")})
    plain, admin = Producer(client), AdminClient(client)
    places = [TP(topic, number) for number in range(4)]

    def write(producer, partition, count, **parts):
        for _ in range(count):
            producer.produce(topic, b"{}", partition=partition, **parts)
        producer.flush(10)

    upstream.init_transactions(20)
    # An aborted transaction, whose marker ends the log.
    upstream.begin_transaction()
    write(upstream, 1, 2)
    upstream.abort_transaction(20)
    write(plain, 0, 5)
    upstream.begin_transaction()
    write(upstream, 0, 1, key=b"cart-7", headers=[("source", b"shop-1"), ("empty", None)], timestamp=1_767_225_600_000)
    write(plain, 0, 30)

    ends = log_ends.query(admin, places)
    assert ends == {TP(topic, 0): LogEnd(5, 36), TP(topic, 1): LogEnd(3, 3), TP(topic, 2): LogEnd(0, 0)}
    begun = OpenTransaction(1_767_225_600_000, b"cart-7", (("source", b"shop-1"), ("empty", None)))
    assert log_ends.open_transaction(client, TP(topic, 0), 5) == begun
    upstream.abort_transaction(20)
    # The markers follow the answer.
    wait_until(lambda: log_ends.query(admin, places) == ends | {TP(topic, 0): LogEnd(37, 37)})
    # Neither a marker nor the end is a record.
    for place, offset in ((TP(topic, 1), 2), (TP(topic, 0), 37), (TP(topic, 0), 99)):
        assert log_ends.open_transaction(client, place, offset) is None


def test_an_absent_broker_is_no_error_and_no_long_wait(monkeypatch):
    monkeypatch.setattr(log_ends, "ANSWER_SECONDS", 0.3)
    client = {"bootstrap.servers": "127.0.0.1:9", "log_level": 0}
    began = time.monotonic()
    assert log_ends.query(AdminClient(client), [TP("in", 0)]) == {}
    assert log_ends.open_transaction(client, TP("in", 0), 5) is None
    assert time.monotonic() - began < 3 * log_ends.ANSWER_SECONDS + 1
