"""Where the bundled library does not do what public calls do, these are made: the same records, and the same bytes."""

import ctypes
import functools
import re
from contextlib import closing

import confluent_kafka
import pytest
from confluent_kafka import Consumer
from resonance.pipeline.errors import ResourceError
from resonance.pipeline.kafka import librdkafka, self_check
from resonance.pipeline.kafka.embedded import EmbeddedBroker
from resonance.pipeline.kafka.intake import PublicIntake
from resonance.pipeline.kafka.producer import Batch, Outlet, producer_settings
from resonance.pipeline.records import Message, Messages

MESSAGES = [Message(b"k", b"%d" % number, []) for number in range(20)]


class Broken:
    """A library that does something otherwise than public calls do."""

    def __init__(self, **instead):
        self._library, self._instead, self._kept = librdkafka.load(), instead, []

    def __getattr__(self, name):
        return self._instead.get(name) or getattr(self._library, name)

    # As it takes messages.

    def partly(self, handle, partition, flags, messages, count):
        return self._library.rd_kafka_produce_batch(handle, partition, flags, messages, count - 1)

    def elsewhere(self, handle, partition, flags, messages, count):
        return self._library.rd_kafka_produce_batch(handle, partition, flags, messages + 72, count - 1) + 1

    def nowhere(self, handle, partition, flags, messages, count):
        return count

    # As it hands them out.

    def nothing(self, queue, timeout, places, most):
        return 0

    def moved(self, queue, timeout, places, most):
        return self._changed(queue, timeout, places, most, "offset", lambda offset: offset + 1)

    def keyless(self, queue, timeout, places, most):
        return self._changed(queue, timeout, places, most, "key_length", lambda length: 0)

    def of_another_partition(self, queue, timeout, places, most):
        return self._changed(queue, timeout, places, most, "partition", lambda partition: 0)

    def endless(self, queue, timeout, places, most):
        return self._changed(queue, timeout, places, most, "value_length", lambda length: 1 << 60 if length else 0)

    def _changed(self, queue, timeout, places, most, column, change):
        count = self._library.rd_kafka_consume_batch_queue(queue, timeout, places, most)
        kind, at = librdkafka.MESSAGE.fields[column]
        for number in range(count):
            address = ctypes.c_void_p.from_address(places + 8 * number).value
            place = (ctypes.c_int32 if kind.itemsize == 4 else ctypes.c_int64).from_address(address + at)
            if not ctypes.c_int32.from_address(address).value:
                place.value = change(place.value)
        return count

    def lost(self, queue, timeout, places, most):
        """Hand out the events alone."""
        count = self._library.rd_kafka_consume_batch_queue(queue, timeout, places, most)
        taken = [ctypes.c_void_p.from_address(places + 8 * number).value for number in range(count)]
        if all(ctypes.c_int32.from_address(address).value for address in taken):
            return count
        # All of them: a consumer does not close before it has every message back.
        for address in taken:
            self._library.rd_kafka_message_destroy(address)
        return 0


def _of_another_version(monkeypatch):
    monkeypatch.setattr(confluent_kafka, "__version__", "2.17.0")


def _without_a_file(monkeypatch):
    monkeypatch.setattr(confluent_kafka, "__file__", "/usr/lib/python3/dist-packages/confluent_kafka/__init__.py")


def _of_another_library(monkeypatch):
    monkeypatch.setattr(confluent_kafka, "libversion", lambda: ("1.0.0", 0))


def _with_other_clients(monkeypatch):
    library = Broken(rd_kafka_name=lambda _: b"rdkafka#consumer-1")
    monkeypatch.setattr(self_check, "load", lambda: library)


def _whose(function, how):
    def broken(monkeypatch):
        library = Broken()
        library._instead[function] = getattr(library, how)
        monkeypatch.setattr(self_check, "load", lambda: library)
        monkeypatch.setattr(self_check, "CHECK_SECONDS", 1.0)

    return broken


def _that_takes(how):
    return _whose("rd_kafka_produce_batch", how)


def _that_hands_out(how):
    return _whose("rd_kafka_consume_batch_queue", how)


def _that_answers(function, answer):
    """Let a function that kernels call give one answer only."""

    def broken(monkeypatch):
        instead = ctypes.CFUNCTYPE(ctypes.c_int64, ctypes.c_void_p, ctypes.c_void_p)(lambda *_: answer)
        library = Broken(**{function: instead})
        monkeypatch.setattr(self_check, "load", lambda: library)

    return broken


def _without_threads(monkeypatch):
    def refuse(count):
        raise ResourceError("no thread is left")

    monkeypatch.setattr(self_check, "require_threads", refuse)


READ = r"^.*librdkafka read \[.*\] instead of \[Record"
BROKEN = [
    (_of_another_version, r"confluent-kafka 2\.17\.0 is installed, 2\.16\.1 was expected"),
    (_without_a_file, r"/usr/lib/python3/dist-packages/confluent_kafka\.libs has 0 files of librdkafka"),
    (_of_another_library, r"is librdkafka 2.*, confluent-kafka uses 1\.0\.0"),
    (_with_other_clients, r"librdkafka calls its client b'rdkafka#consumer-1'"),
    (_that_takes("partly"), r"librdkafka took 0 of 3 messages and stored all but 0$"),
    (_that_takes("elsewhere"), r"librdkafka stored \[\(None, b''\), \(b'', b'.x00'\)\] instead of"),
    (_without_threads, "no thread is left"),
    (_that_takes("nowhere"), r"librdkafka stored \[\] instead of"),
    (_that_hands_out("nothing"), r"librdkafka read \[\] instead of"),
    (_that_hands_out("lost"), READ),
    (_that_hands_out("moved"), READ),
    (_that_hands_out("keyless"), READ),
    (_that_hands_out("of_another_partition"), READ),
    (_that_hands_out("endless"), "Maximum allowed|Unable to allocate|array is too big"),
    (_that_answers("rd_kafka_message_timestamp", 7), READ),
    (_that_answers("rd_kafka_message_headers", 1), READ),
]


@pytest.mark.parametrize(("broken", "reason"), BROKEN)
def test_a_check_that_fails_leaves_public_calls_and_one_line(monkeypatch, caplog, broken, reason):
    broken(monkeypatch)
    checked = functools.cache(self_check.checked.__wrapped__)
    assert [checked(), checked()] == [None, None]
    (line,) = [record.getMessage() for record in caplog.records if record.name == self_check.__name__]
    assert line.startswith("records and outputs take a call each, and more processor time: ")
    assert re.search(reason, line), line


def test_without_the_library_the_same_bytes_are_sent_and_read(monkeypatch):
    _of_another_version(monkeypatch)
    monkeypatch.setattr(self_check, "checked", functools.cache(self_check.checked.__wrapped__))
    monkeypatch.setattr(librdkafka, "send", None)
    with EmbeddedBroker(["answers"]) as broker:
        outlet = Outlet(
            producer_settings(broker.client_settings()) | {"transactional.id": "worker"}, 10.0, reports=False
        )
        outlet.producer.init_transactions(10)
        outlet.producer.begin_transaction()
        outlet.send(Batch("answers", 1, Messages.of(MESSAGES)))
        outlet.producer.commit_transaction(10)
        outlet.producer.close()
        found = []
        with closing(Consumer(broker.client_settings() | {"group.id": "test"})) as consumer:
            intake = PublicIntake(consumer)
            intake.assign({("answers", 1): 0})
            while len(found) < len(MESSAGES):
                found += [record for part in intake.take(1.0, 7)[0] for record in part]
    assert [Message(record.key, record.value, list(record.headers)) for record in found] == MESSAGES
