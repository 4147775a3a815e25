"""The librdkafka that confluent-kafka's wheel brings, to call its C functions where a public call makes an object each.

Their header is stable, the place of the client in confluent-kafka's objects is not: nothing here is used without
`self_check.checked`, and only with the version of confluent-kafka that it was written for.
"""

import ctypes
from pathlib import Path
from typing import Any, Final

import confluent_kafka
import numpy as np
from confluent_kafka import Consumer, Producer
from resonance.pipeline.records import Messages

PINNED: Final = "2.16.1"
"""The version of confluent-kafka whose clients have librdkafka's one as their first member."""

COPY: Final = 2
"""RD_KAFKA_MSG_F_COPY."""

MESSAGE: Final = np.dtype(
    [
        ("error", np.int32),
        ("topic", np.intp),
        ("partition", np.int32),
        ("value", np.intp),
        ("value_length", np.uintp),
        ("key", np.intp),
        ("key_length", np.uintp),
        ("offset", np.int64),
        ("private", np.intp),
    ],
    align=True,
)
"""rd_kafka_message_t."""

_POINTER, _TEXT, _NUMBER = ctypes.c_void_p, ctypes.c_char_p, ctypes.c_int
_FUNCTIONS: Final[dict[str, tuple[Any, list[Any]]]] = {
    "rd_kafka_version_str": (_TEXT, []),
    "rd_kafka_name": (_TEXT, [_POINTER]),
    "rd_kafka_topic_new": (_POINTER, [_POINTER, _TEXT, _POINTER]),
    "rd_kafka_topic_destroy": (None, [_POINTER]),
    "rd_kafka_produce_batch": (_NUMBER, [_POINTER, ctypes.c_int32, _NUMBER, _POINTER, _NUMBER]),
    "rd_kafka_topic_name": (_TEXT, [_POINTER]),
    "rd_kafka_queue_new": (_POINTER, [_POINTER]),
    "rd_kafka_queue_destroy": (None, [_POINTER]),
    "rd_kafka_queue_get_partition": (_POINTER, [_POINTER, _TEXT, ctypes.c_int32]),
    "rd_kafka_queue_forward": (None, [_POINTER, _POINTER]),
    "rd_kafka_queue_yield": (None, [_POINTER]),
    "rd_kafka_consume_batch_queue": (ctypes.c_ssize_t, [_POINTER, _NUMBER, _POINTER, ctypes.c_size_t]),
    "rd_kafka_message_errstr": (_TEXT, [_POINTER]),
    "rd_kafka_message_destroy": (None, [_POINTER]),
    "rd_kafka_message_timestamp": (ctypes.c_int64, [_POINTER, _POINTER]),
    "rd_kafka_message_headers": (_NUMBER, [_POINTER, _POINTER]),
    "rd_kafka_header_get_all": (_NUMBER, [_POINTER, ctypes.c_size_t, _POINTER, _POINTER, _POINTER]),
}


class LibraryError(Exception):
    """The bundled library cannot be used, and why."""


def load() -> Any:
    """Return the library of the wheel; raise `LibraryError` where it is not the one that this was written for."""
    if confluent_kafka.__version__ != PINNED:
        raise LibraryError(f"confluent-kafka {confluent_kafka.__version__} is installed, {PINNED} was expected")
    folder = Path(confluent_kafka.__file__).parents[1] / "confluent_kafka.libs"
    found = list(folder.glob("librdkafka-*.so*"))
    if len(found) != 1:
        raise LibraryError(f"{folder} has {len(found)} files of librdkafka, one was expected")
    try:
        library = ctypes.CDLL(str(found[0]))
        for name, (result, arguments) in _FUNCTIONS.items():
            function = getattr(library, name)
            function.restype, function.argtypes = result, arguments
    except (OSError, AttributeError) as error:
        raise LibraryError(f"{found[0]}: {error}") from error
    if (own := library.rd_kafka_version_str().decode()) != confluent_kafka.libversion()[0]:
        raise LibraryError(f"{found[0]} is librdkafka {own}, confluent-kafka uses {confluent_kafka.libversion()[0]}")
    return library


def handle_of(client: Any) -> int | None:
    """Return the address of librdkafka's client in one of confluent-kafka; None where that is closed, or is no client.

    It is valid as long as the object is.
    """
    if not isinstance(client, Producer | Consumer):
        return None
    return ctypes.c_void_p.from_address(id(client) + object.__basicsize__).value


def send(library: Any, producer: Producer, topic: str, partition: int, messages: Messages) -> int:
    """Queue columns for one partition, as the producer's `produce` does with one message after the other.

    No object is made of a message, so that there are no delivery reports, which a transaction does not need.
    Return how many were taken before the first that was not; none of messages with headers, or partitions of their own.
    Where the queue has no room for one, those behind it are not taken either, so that they keep their order.
    """
    # The producer is held while its address is used.
    client = handle_of(producer)
    if client is None or messages.headers or messages.partitions:
        return 0
    table = _table(messages)
    handle = library.rd_kafka_topic_new(client, topic.encode(), None)
    if not handle:
        return 0
    # One partition for all: with one of each message, a topic that the client does not know yet adds a partition to the
    # transaction that does not exist.
    taken: int = library.rd_kafka_produce_batch(handle, partition, COPY, table.ctypes.data, len(table))
    library.rd_kafka_topic_destroy(handle)
    return taken if taken == len(table) else int((table["error"] != 0).argmax())


def _table(messages: Messages) -> np.ndarray[Any, Any]:
    """Return messages as librdkafka takes them."""
    table, keys = np.zeros(len(messages), MESSAGE), messages.keys
    table["value_length"] = np.diff(messages.ends, prepend=0)
    table["value"] = messages.text.ctypes.data + messages.ends - table["value_length"].astype(np.int64)
    table["key_length"] = keys.ends - keys.begins
    table["key"] = keys.text.ctypes.data + keys.begins
    if keys.nulls is not None:
        table["key"][keys.nulls] = 0
    return table
