"""Whether the bundled library does what public calls do, at the start of a process: seen on a few messages."""

import functools
import logging
import time
from contextlib import closing
from typing import Any, Final

from confluent_kafka import Consumer, KafkaError, Producer
from resonance.pipeline.kafka import librdkafka
from resonance.pipeline.kafka.embedded import SILENT
from resonance.pipeline.kafka.intake import Intake, PublicIntake, QueueIntake
from resonance.pipeline.kafka.librdkafka import LibraryError, handle_of, load
from resonance.pipeline.kafka.threads import CLIENT_THREADS, require_threads
from resonance.pipeline.records import Message, Messages, SourceRecord
from resonance.pipeline.text import messages as kernels

CHECK_SECONDS: Final = 5.0
"""How long the messages of the check may take."""

_CHECKED: Final = [Message(b"key", b'{"a":1}', []), Message(None, b"", []), Message(b"", b"\0", [])]
"""What the check sends: keys that are there, null and empty."""

_HEADERS: Final = [("name", b"value"), ("empty", b""), ("null", None)]

_log = logging.getLogger(__name__)


@functools.cache
def checked() -> Any:
    """Return the bundled library once messages that went by it came as the same went by public calls; else None."""
    try:
        library = load()
        _check(library)
    except Exception as error:  # whatever is wrong with it, public calls need none of it
        _log.warning("records and outputs take a call each, and more processor time: %s", error)
        return None
    return library


def _check(library: Any) -> None:
    """Raise `LibraryError` where messages do not come through librdkafka's mock cluster as by public calls."""
    name = "resonance-check"
    kernels.compile()
    require_threads(2 * CLIENT_THREADS)
    producer = Producer({"test.mock.num.brokers": 1, "bootstrap.servers": name, "client.id": name}, logger=SILENT)
    _check_name(library, producer, f"{name}#producer-")
    # The request makes the topic.
    brokers = producer.list_topics(name, CHECK_SECONDS).brokers.values()
    for message in _CHECKED:
        producer.produce(name, message.value, message.key, 0)
    taken = librdkafka.send(library, producer, name, 1, Messages.of(_CHECKED))
    producer.produce(name, None, b"key", 2, headers=_HEADERS)
    left = producer.flush(CHECK_SECONDS)
    if taken != len(_CHECKED) or left:
        raise LibraryError(f"librdkafka took {taken} of {len(_CHECKED)} messages and stored all but {left}")
    address = ",".join(f"{broker.host}:{broker.port}" for broker in brokers)
    public, own = _read(address, name, None), _read(address, name, library)
    sent = [[(record.key, record.value) for record in public if record.partition == number] for number in (0, 1)]
    if sent[0] != sent[1] or len(sent[1]) != len(_CHECKED):
        raise LibraryError(f"librdkafka stored {sent[1]} instead of {sent[0]}")
    if public != own:
        raise LibraryError(f"librdkafka read {own} instead of {public}")


def _check_name(library: Any, client: Any, begin: str) -> None:
    handle = handle_of(client)
    found = library.rd_kafka_name(handle) if handle else None
    if not (found or b"").startswith(begin.encode()):
        raise LibraryError(f"librdkafka calls its client {found}")


def _read(address: str, topic: str, library: Any) -> list[SourceRecord]:
    """Return all records of a topic, by public calls or by the functions of a library."""
    own = {"group.id": topic, "client.id": topic, "fetch.wait.max.ms": 10, "enable.partition.eof": True}
    places = [(topic, number) for number in range(3)]
    found: list[SourceRecord] = []
    with closing(Consumer({"bootstrap.servers": address, **own}, logger=SILENT)) as consumer:
        if library:
            _check_name(library, consumer, f"{topic}#consumer-")
        intake: Intake = QueueIntake(library, consumer) if library else PublicIntake(consumer)
        with closing(intake):
            intake.assign(dict.fromkeys(places, 0))
            end, ends = time.monotonic() + CHECK_SECONDS, set[int]()
            while len(ends) < len(places) and time.monotonic() < end:
                taken, events = intake.take(0.1, 100)
                found += [record for part in taken for record in part]
                ends |= {event.partition for event in events if event.error.code() == KafkaError._PARTITION_EOF}
    return sorted(found, key=lambda record: (record.partition, record.offset))
