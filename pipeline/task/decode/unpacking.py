"""Takes messages apart that have many records (``input.records``, OTLP), before anything else looks at the records.

The path ``.`` is that of the value itself, which is an array, or has an object on each line. A record of such a message
has the message's offset, key, time and headers. Its value is JSON, whatever the format of the message is, with all
digits of its numbers. A message is never cut: all its records are learned together.
"""

import math
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import suppress
from functools import partial
from typing import Any

import numpy as np
import orjson
from numpy.typing import NDArray
from resonance.pipeline import exact_json
from resonance.pipeline.columns import behind
from resonance.pipeline.config.settings import Settings
from resonance.pipeline.exact_json import Digits
from resonance.pipeline.json_paths import WHOLE, find, is_json, parse_path
from resonance.pipeline.record_columns import MESSAGE, RecordColumns
from resonance.pipeline.records import MOST_ELEMENTS, Record, record_number
from resonance.pipeline.task.decode.dense import kind_of
from resonance.pipeline.task.decode.faults import Fault, FaultError
from resonance.pipeline.task.decode.json_records import InputMapping
from resonance.pipeline.task.decode.mapping import message_mapping
from resonance.pipeline.task.decode.otlp_records import OtlpReader
from resonance.pipeline.text import elements
from resonance.pipeline.text.messages import NULL_KEY, NULL_VALUE


class Unpacker:
    """Takes the messages of input topics apart."""

    def __init__(self, settings: Settings) -> None:
        self._given = settings.input.records or WHOLE
        self._path = () if self._given == WHOLE else parse_path(self._given)
        self._topics = settings.input.topics
        self._mapping: InputMapping = message_mapping(settings)
        self._is_framed = settings.is_framed
        self._otlp = OtlpReader(settings.input.format) if settings.is_otlp else None
        # Many at first: then a batch does not get large.
        self._records_of_byte = 0.1
        self._room = np.empty((MOST_ELEMENTS + 1, 2), np.int64)

    @classmethod
    def of(cls, settings: Settings) -> "Unpacker | None":
        """Return what takes messages apart; None where each message is a record."""
        return cls(settings) if settings.has_many else None

    def messages(self, found: RecordColumns, start: int, records: int) -> int:
        """Return how many messages from `start` on have about so many records, as bytes had of late; at least one."""
        before = found.ends[start:] - found.ends[start]
        return int(np.searchsorted(before, records / self._records_of_byte, "right"))

    def columns(self, messages: RecordColumns) -> tuple[RecordColumns, list[Fault]]:
        """Return the records of messages, and the faults of messages that cannot be taken apart.

        Such a message has a row without value, and its fault has the message itself. Labels are messages of their own.
        """
        if messages.topic not in self._topics:
            return messages, []
        values, counts = list[bytes | None](), list[int]()
        faults, whole = list[Fault](), list[tuple[int, int]]()
        for row, value in enumerate(messages.values()):
            found: Sequence[bytes | None] = [None]
            element = MESSAGE if messages.elements is None else int(messages.elements[row])
            if element > MESSAGE:
                # It was taken apart before.
                found = [value]
            elif value is not None:
                try:
                    found, element = self.elements(value), 0
                except FaultError as error:
                    faults.append(error.at(len(values), messages[row]))
            if element:
                whole.append((len(values), element))
            values += found
            counts.append(len(found))
        self._records_of_byte = len(values) / max(int(messages.ends[-1]), 1)
        numbers = np.arange(len(values)) - np.repeat(behind(np.cumsum(counts)), counts)
        for place, element in whole:
            numbers[place] = element
        return _repeated(messages, values, counts, numbers), faults

    def records(self, messages: Iterable[Record]) -> Iterator[Record]:
        """Yield the records of messages; what cannot be taken apart stays as it is."""
        for message in messages:
            try:
                own = message.topic in self._topics and message.value is not None
                values = self.elements(message.value or b"") if own else None
            except FaultError:
                values = None
            if values is None:
                yield message
            else:
                yield from (message._replace(value=value, element=number) for number, value in enumerate(values))

    def single(self, messages: Iterable[Record]) -> Iterator[Record]:
        """Yield the records of messages as messages of their own, whose offsets grow with those of the messages."""
        for record in self.records(messages):
            yield record._replace(offset=record_number(record.offset, record.element), element=None)

    def elements(self, value: bytes) -> list[bytes]:
        """Return the records of a message as JSON; a `FaultError` says why it has none."""
        self._mapping.check_size(value)
        if self._otlp is not None:
            found = _written(self._otlp.records(value), is_plain=True, is_far=True)
        else:
            found = self._array(value) if self._path or self._is_framed else self._whole(value)
        if len(found) > MOST_ELEMENTS:
            text = f"more than {MOST_ELEMENTS:,} records in a message; send fewer in each"
            raise FaultError("limit", "too_many_records", text)
        return found

    def _whole(self, value: bytes) -> list[bytes]:
        """Return the records of a value that is an array, one object, or an object on each line."""
        if value.lstrip()[:1] == b"[":
            return self._array(value)
        lines = [line for line in value.split(b"\n") if line.strip()]
        # An object over several lines is one, also if it is broken: it has no object on a line without indent. A line
        # that is broken spoils no other one.
        if len(lines) > 1 and (
            is_json(value) or not any(is_json(line) for at, line in enumerate(lines) if at < 2 or line[:1] == b"{")
        ):
            return [value]
        # One that has nothing is read for what is wrong with it.
        return lines or self._array(value)

    def _cut(self, value: bytes) -> list[bytes] | None:
        """Return the elements of an array as they are written; None where reading all of the value has to find them."""
        begin, name = value.find(b"["), b""
        if self._path:
            name = orjson.dumps(self._path[-1])
            begin = value.find(b"[", value.find(name))
        spans, close = elements.spans_of(np.frombuffer(value, np.uint8), begin + 1, self._room)
        # What is around the elements decides whether this is the array.
        around = value[: begin + 1] + value[max(close, 0) :]
        if begin < 0 or close < 0 or b"\\" in around or (name and around.count(name) != 1):
            return None
        with suppress(orjson.JSONDecodeError):
            if find(orjson.loads(around), self._path) == []:
                return [value[first:end] for first, end in spans.tolist()]
        return None

    def _array(self, value: bytes) -> list[bytes]:
        if not self._is_framed and (cut := self._cut(value)) is not None:
            return cut
        document, is_plain = self._mapping.document(value)
        found = find(document, self._path)
        if not isinstance(found, list):
            name = "the value" if self._given == WHOLE else self._given
            text = f"{name} is {kind_of(found)}, and a message has its records in an array there (input.records)"
            raise FaultError("validate", "wrong_type", text)
        return _written(found, is_plain=is_plain, is_far=self._is_framed)


def of_single_records(settings: Settings) -> Settings:
    """Return the settings under which the records of messages are read as `Unpacker.single` gives them."""
    if not settings.has_many:
        return settings
    given = settings.input.model_copy(update={"records": None, "format": "json"})
    return settings.model_copy(update={"input": given})


def wrapping(settings: Settings) -> Callable[[bytes], bytes] | None:
    """Return what makes messages of single records; None where these would need a schema, or an export request."""
    if settings.input.records is None:
        return None if settings.is_otlp else bytes
    return None if settings.is_framed else partial(wrapped, settings.input.records)


def wrapped(records: str, record: bytes) -> bytes:
    """Return the value of a message of JSON with one record, at the path of its `records`."""
    alone = records == WHOLE and record[:1] != b"[" and b"\n" not in record
    # What stood between two commas is no JSON; it must not become a message without records.
    value = record if alone else b"[%b]" % (record or b"null")
    for name in () if records == WHOLE else reversed(parse_path(records)):
        value = b"{%b:%b}" % (orjson.dumps(name), value)
    return value


def _written(found: Sequence[Any], *, is_plain: bool, is_far: bool) -> list[bytes]:
    """Return records as JSON; `is_plain` ones lose nothing by orjson, `is_far` ones may have infinite numbers."""
    if len(found) > MOST_ELEMENTS:
        # Refused by their number: they need not be written.
        return [b""] * len(found)
    write = orjson.dumps if is_plain else exact_json.dumps
    try:
        texts = list(map(write, found))
        if is_far:
            # JSON has no infinite number, and orjson writes null.
            pairs = zip(found, texts, strict=True)
            return [exact_json.dumps(_far(each)) if b"null" in text else text for each, text in pairs]
    except TypeError:
        raise FaultError("decode", "too_deep", "objects and arrays nested too deep; send flat records") from None
    return texts


def _far(value: Any) -> Any:
    """Return a value with numbers beyond float64, which no JSON reader takes, in the place of infinite ones."""
    if isinstance(value, dict):
        return {name: _far(each) for name, each in value.items()}
    if isinstance(value, list):
        return [_far(each) for each in value]
    return Digits("1e999") if type(value) is float and math.isinf(value) else value


def _repeated(
    messages: RecordColumns, values: list[bytes | None], counts: list[int], elements: NDArray[np.int64]
) -> RecordColumns:
    """Return records that have, beside their values, what messages have that have so many of them."""
    at = np.repeat(np.arange(len(counts)), counts)
    keys = [(key or b"") * count for key, count in zip(messages.named_keys(), counts, strict=True)]
    nulls = messages.nulls[at] & np.uint8(NULL_KEY)
    if None in values:
        nulls[[value is None for value in values]] |= NULL_VALUE
    has_headers = enumerate(at.tolist()) if messages.headers else ()
    return RecordColumns(
        messages.topic,
        messages.partition,
        np.frombuffer(b"\0".join([*(value or b"" for value in values), b""]), np.uint8),
        np.cumsum([len(value or b"") + 1 for value in values], dtype=np.int64) - 1,
        np.frombuffer(b"".join(keys), np.uint8),
        np.cumsum((messages.key_ends - behind(messages.key_ends))[at]),
        messages.offsets[at],
        messages.times[at],
        nulls,
        {place: messages.headers[row] for place, row in has_headers if row in messages.headers},
        elements,
    )
