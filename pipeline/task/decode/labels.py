"""Labels of records, sent beside the features or later on a topic of their own.

A message of the topic of labels is a JSON object:

==========  ===========================================================================================================
``id``      the record's id, as its assignment has it
``labels``  a label, or a list of them; an empty list means that the record has none
``stream``  the record's stream, as its assignment has it; may be left out where the deployment has only one
==========  ===========================================================================================================
"""

from typing import Any, Final, NamedTuple

import orjson
from resonance.pipeline import exact_json
from resonance.pipeline.config.checks import LABELS
from resonance.pipeline.config.settings import Settings
from resonance.pipeline.config.values import category_text
from resonance.pipeline.exact_json import Digits
from resonance.pipeline.json_paths import ABSENT
from resonance.pipeline.records import STREAM_BYTES, RoutedRecord, SourceRecord, bytes_beside
from resonance.pipeline.task.decode.dense import kind_of
from resonance.pipeline.task.decode.faults import FaultError, long_name
from resonance.pipeline.task.decode.foreign_values import no_object, not_json
from resonance.pipeline.task.decode.stream_names import StreamNames

TEXT_BYTES: Final = 100
"""Most bytes of a label's text as JSON."""

MESSAGE_BYTES: Final = 20_000
"""Most bytes of a message of the topic of labels: its value, its key, and the names and values of its headers. States
hold such messages while these wait for their records."""

Labels = tuple[str, ...]
"""The labels of one record, each once, in the order given; messages show a label as its text."""


class LateLabels(NamedTuple):
    """Content of a message of the topic of labels."""

    id: bytes
    """Id of the record, as JSON."""
    labels: Labels
    stream: bytes
    """Key of the record's stream."""


class RowLabels(NamedTuple):
    """What is known of a row beside its features."""

    id: bytes | None
    """Id of the record, as JSON."""
    labels: Labels | None
    """None where none were sent."""
    late: RoutedRecord | None = None
    """The message that brings the labels on a topic of their own; the row then holds no features."""


def labels_of(found: Any, where: str) -> Labels | None:
    """Return the labels in a member of a record, or None if there are none to learn.

    A member with other content raises `FaultError`, which calls it `where`.
    """
    if found is ABSENT or found is None:
        return None
    listed = found if type(found) is list else [found]
    try:
        texts = tuple(dict.fromkeys(map(category_text, listed)))
    except ValueError:
        odd = next(item for item in listed if type(item) not in (str, int, bool))
        within = " with " + kind_of(odd) if type(found) is list else ""
        raise FaultError(
            "label",
            "wrong_type",
            f"{where} is {kind_of(found)}{within}; a label is text, an integer, true or false, and several are a list",
        ) from None
    if len(texts) > LABELS:
        raise too_many(f"{where} has {len(texts):,} labels")
    for text in texts:
        if (size := len(orjson.dumps(text)) - 2) > TEXT_BYTES:
            problem = f"{where} has a label of {size:,} bytes, {TEXT_BYTES} are allowed; send a shorter name for it"
            raise FaultError("label", "label_too_long", problem)
    return texts


def too_many(what: str, most: int = LABELS) -> FaultError:
    """Return the fault of labels beyond the `most` that a stream can have."""
    return FaultError(
        "label",
        "too_many_labels",
        f"{what}, and a stream can have {most:,}; labels are classes that come again, not names of single records",
    )


class LabelMessages:
    """Reads the messages of the topic of labels."""

    def __init__(self, settings: Settings) -> None:
        self._names = StreamNames.of(settings, "", 0)
        self._whole = settings.stream == "topic"
        self._inputs = settings.input.topics
        self._choice = settings.stream

    def read(self, record: SourceRecord) -> LateLabels:
        """Return the content of a message that has a value; a `FaultError` says why it cannot be used."""
        value = record.value or b""
        if (size := len(value) + bytes_beside(record)) > MESSAGE_BYTES:
            raise FaultError(
                "limit",
                "record_too_large",
                f"{size:,} bytes with its key and its headers, {MESSAGE_BYTES:,} are allowed on the topic of labels",
            )
        try:
            parsed = exact_json.loads(value)
        except orjson.JSONDecodeError as error:
            raise not_json(value, error) from None
        if not isinstance(parsed, dict):
            raise FaultError(
                "decode",
                "not_an_object",
                'a message of the topic of labels is an object, {"id": ..., "labels": [...]}; '
                f"this one is {kind_of(parsed)}{no_object(parsed)}",
            )
        own = parsed.get("id", ABSENT)
        if type(own) not in (str, int, float, Digits):
            raise FaultError(
                "label",
                "wrong_type",
                f"id is {kind_of(own)}; it is that of a record, as its assignment has it: text or a number",
            )
        labels = labels_of(parsed.get("labels", ABSENT), "labels")
        if labels is None:
            raise FaultError(
                "label",
                "wrong_type",
                "labels are missing; they are a list of text, integers, true or false, empty where a record has none",
            )
        return LateLabels(exact_json.dumps(own), labels, self._stream(parsed.get("stream")))

    def _stream(self, name: Any) -> bytes:
        """Return the key of the stream with a name."""
        if name is None and self._whole and len(self._inputs) == 1:
            return self._inputs[0].encode()
        if type(name) is not str or not name:
            found = "empty text" if name == "" else "missing" if name is None else kind_of(name)
            raise FaultError(
                "label",
                "no_key",
                f"stream is {found}; with stream = {self._choice} it says whose record this is, as its assignment does",
            )
        key = self._names.key_of(name) or b""
        if self._whole and key.decode(errors="replace") not in self._inputs:
            raise FaultError(
                "label",
                "unknown_stream",
                f"there is no stream {name!r}; with stream = topic they are {', '.join(self._inputs)}",
            )
        if len(key) > STREAM_BYTES:
            raise long_name(f"stream has {len(key):,} bytes")
        return key
