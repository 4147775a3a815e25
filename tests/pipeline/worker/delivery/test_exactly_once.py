"""When a producer is replaced: once for a doubt, however slowly the new one begins."""

import threading
from types import SimpleNamespace

import pytest
from confluent_kafka import KafkaError, KafkaException, TopicPartition
from faust.types import TP
from resonance.pipeline.errors import DeliveryError, FencedError
from resonance.pipeline.kafka.producer import Batch
from resonance.pipeline.records import Message
from resonance.pipeline.worker.delivery import exactly_once
from resonance.pipeline.worker.delivery.exactly_once import ExactlyOnce
from resonance.pipeline.worker.delivery.open_transactions import LeftOpen

SLOW = KafkaException(KafkaError(KafkaError._TIMED_OUT, retriable=True))


class SlowOutlet:
    """A producer behind long ways: the first two calls of `init_transactions` end before the answer."""

    made = 0

    def __init__(self, *_, **__):
        type(self).made += 1
        self.doubtful, self.waits, self.sent, self.throttled = False, 2, [], ""
        quiet = dict.fromkeys(("begin_transaction", "send_offsets_to_transaction", "commit_transaction", "close"))
        calls = {name: lambda *_: None for name in quiet}
        self.producer = SimpleNamespace(init_transactions=self._init, **calls)

    def _init(self, _):
        self.waits -= 1
        if self.waits >= 0:
            raise SLOW

    def send(self, batch):
        self.sent.append((batch.topic, [message.value for message in batch.messages]))

    def look(self):
        pass

    def denied(self, **_):
        return None

    def is_late(self):
        return False

    def wait_for_quota(self, _):
        pass

    def fatal_error(self):
        return None


@pytest.fixture
def delivery(monkeypatch):
    monkeypatch.setattr(exactly_once, "Outlet", SlowOutlet)
    monkeypatch.setattr(exactly_once, "RETRY_SECONDS", 0.0)
    SlowOutlet.made = 0
    delivery = ExactlyOnce({}, group="group", transactional_id="id")
    delivery._metadata = b"member"
    return delivery


def test_a_producer_that_begins_slowly_is_not_replaced_again(delivery):
    commit = {TP("in", 0): 1}, {}
    delivery.commit(*commit)
    assert SlowOutlet.made == 1
    delivery._outlet.doubtful = True
    delivery.commit(*commit)
    delivery.commit(*commit)
    assert SlowOutlet.made == 2


def test_a_producer_that_cannot_be_closed_is_no_error(delivery, monkeypatch, caplog):
    delivery.commit({TP("in", 0): 1}, {})
    monkeypatch.setattr(exactly_once, "OFFSETS_SECONDS", 0.2)
    old = delivery._outlet.producer
    returned, closed = threading.Event(), threading.Event()

    def close():
        closed.set()
        raise SLOW

    old.send_offsets_to_transaction, old.close = lambda *_: returned.wait(10), close
    delivery.commit({TP("in", 0): 2}, {})
    assert (SlowOutlet.made, closed.is_set()) == (2, False)
    returned.set()
    assert closed.wait(10)
    assert not [record for record in caplog.records if record.levelname == "ERROR"]


def test_a_connection_lost_while_a_new_producer_aborts_brings_another_one(delivery, monkeypatch):
    delivery.commit({TP("in", 0): 1}, {})
    losses = [True, False]

    def find():
        # Between the beginning of a new producer and its first transaction that counts.
        delivery._outlet.doubtful = losses.pop(0)
        return LeftOpen([], [])

    delivery._find_open, delivery._outlet.doubtful = find, True
    delivery.commit({TP("in", 0): 2}, {})
    assert (SlowOutlet.made, delivery._outlet.doubtful, losses) == (3, False, [])


def lose_the_coordinator(delivery, code=KafkaError.COORDINATOR_LOAD_IN_PROGRESS):
    """Let the offsets of the open transaction fail in a way after which it can only be aborted."""

    def fail(*_):
        raise KafkaException(KafkaError(code, txn_requires_abort=True))

    delivery._outlet.producer.send_offsets_to_transaction = fail


@pytest.mark.parametrize("name", ["COORDINATOR_LOAD_IN_PROGRESS", "INVALID_PRODUCER_ID_MAPPING", "UNKNOWN_PRODUCER_ID"])
def test_a_transaction_is_sent_again_where_the_coordinator_moves_or_has_forgotten_the_producer(delivery, name):
    delivery.send(Batch("answers", 0, [Message(None, b"1", [])]))
    for value in (b"2", b"3"):
        delivery.send(Batch("archive", 0, (Message(None, value, []),)))
    lose_the_coordinator(delivery, getattr(KafkaError, name))
    delivery.commit({TP("in", 0): 1}, {})
    assert SlowOutlet.made == 2
    assert delivery._outlet.sent == [("answers", [b"1"]), ("archive", [b"2"]), ("archive", [b"3"])]


def test_an_output_that_a_failed_transaction_refuses_is_sent_again_with_those_before_it(delivery):
    delivery.send(Batch("answers", 0, [Message(None, b"1", [])]))

    def refuse(_):
        raise KafkaException(KafkaError(KafkaError._STATE))

    delivery._outlet.send = refuse
    delivery.send(Batch("answers", 0, [Message(None, b"2", [])]))
    delivery.commit({TP("in", 0): 1}, {})
    assert SlowOutlet.made == 2
    assert delivery._outlet.sent == [("answers", [b"1"]), ("answers", [b"2"])]


def test_a_transaction_that_is_too_large_to_be_kept_fails(delivery):
    delivery._kept_bytes = 2
    delivery.send(Batch("archive", 0, [Message(None, value, []) for value in (b"2", b"34")]))
    assert delivery._sent == []
    lose_the_coordinator(delivery)
    with pytest.raises(DeliveryError, match="the offsets of the transaction"):
        delivery.commit({TP("in", 0): 1}, {})
    assert SlowOutlet.made == 1


def test_the_size_is_that_of_what_was_sent_since_the_last_commit(delivery):
    for _ in range(2):
        assert delivery.size == 0
        delivery.send(Batch("answers", 0, [Message(None, b"12", []), Message(b"key", None, [])]))
        assert delivery.size == 2
        delivery.commit({TP("in", 0): 1}, {})


def test_an_answer_that_is_late_is_waited_for_and_one_that_is_lost_is_not(delivery, monkeypatch):
    delivery.commit({TP("in", 0): 1}, {})
    monkeypatch.setattr(exactly_once, "OFFSETS_SECONDS", 0.1)
    returned = threading.Event()
    delivery._outlet.producer.send_offsets_to_transaction = lambda *_: returned.wait(10)
    # The broker stores something, or has reported a pause, for three times as long as an answer may take.
    looks = iter(range(100))
    monkeypatch.setattr(exactly_once, "LOOK_SECONDS", 0.01)
    delivery._outlet.is_late = lambda: next(looks) < 30 or returned.set()
    delivery.commit({TP("in", 0): 2}, {})
    assert SlowOutlet.made == 1
    returned.clear()
    delivery._outlet.is_late = lambda: False
    delivery.commit({TP("in", 0): 3}, {})
    assert SlowOutlet.made == 2
    returned.set()


def test_a_worker_that_is_fenced_while_it_starts_names_the_reason(delivery, monkeypatch):
    delivery._find_open = lambda: LeftOpen([TopicPartition("out", 0)], [])
    delivery._deadline = SimpleNamespace(start=lambda: None)
    fenced = KafkaException(KafkaError(KafkaError._FENCED))

    def abort(_):
        raise fenced

    producer = delivery._outlet.producer
    producer.produce, producer.flush, producer.abort_transaction = lambda *_, **__: None, lambda _: 0, abort
    with pytest.raises(FencedError, match="another worker has begun with it"):
        delivery.start()
