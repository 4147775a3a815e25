"""What the newest messages of a topic hold: in which format, and the settings with which a worker would read them."""

from collections import Counter
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from typing import Any, Final, NamedTuple

import numpy as np
import orjson
from resonance.pipeline.config.settings import Settings
from resonance.pipeline.errors import ConfigurationError
from resonance.pipeline.files.notes import Note
from resonance.pipeline.files.suggest import OTLP_ROOTS, Suggestion, suggest
from resonance.pipeline.files.survey import FileSurvey
from resonance.pipeline.json_paths import WHOLE
from resonance.pipeline.kafka.log_reader import LogReader
from resonance.pipeline.records import Record, TopicPartition
from resonance.pipeline.task.decode.faults import FaultError
from resonance.pipeline.task.decode.float_records import WIDTH
from resonance.pipeline.task.decode.foreign_values import description
from resonance.pipeline.task.decode.otlp_records import SIGNALS, OtlpReader
from resonance.pipeline.task.decode.unpacking import Unpacker

MESSAGES: Final = 2_000
"""Newest messages that are looked at."""

BYTES: Final = 64_000_000
"""Bytes of them, about."""

RECORDS: Final = 20_000
"""Records in them that are looked at, about."""

COMES_AGAIN: Final = 10
"""Messages of a key, on average, from which on each key is suggested to have a model."""

_GIVEN: Final[Mapping[str, Mapping[str, Any]]] = {
    "json": {},
    "many": {"input.records": WHOLE},
    **{form: {"input.format": form, "input.time_path": "time"} for form in SIGNALS},
}
"""Settings that a format needs."""


class Look(NamedTuple):
    """What was seen in the newest messages of a topic."""

    kinds: Counter[str]
    """How many messages there are of each kind, in words."""
    records: int = 0
    """Records of the most frequent format that settings can name."""
    suggestion: Suggestion | None = None
    """For them; None without any."""
    given: Mapping[str, Any] = _GIVEN["json"]
    """Settings beside those of the suggestion, by dotted name."""


def newest(reader: LogReader, partitions: Sequence[TopicPartition]) -> list[Record]:
    """Return the newest messages of a topic, the same number of each partition where they have so many."""
    own, left, found = -(-MESSAGES // len(partitions)), BYTES, list[Record]()
    ranges = {at: (max(first, end - own), end) for at, (first, end) in reader.bounds(partitions).items()}
    for _, records in reader.read(ranges):
        for record in records:
            found.append(record)
            left -= len(record.value or b"")
        if left < 0:
            break
    return found


def look(messages: Sequence[Record]) -> Look:
    """Say what messages hold, and which settings suit most of them."""
    readers = {}
    with suppress(ConfigurationError):  # Without the library nothing else is missing.
        readers = {form: OtlpReader(form) for form in SIGNALS}
    values: dict[str, list[bytes]] = {}
    kinds = Counter[str]()
    for value in (message.value for message in messages):
        form, kind = ("", "no value") if value is None else _kind_of(value, readers)
        kinds[kind] += 1
        if form:
            values.setdefault(form, []).append(value or b"")
    if not values:
        return Look(kinds)
    form = max(values, key=lambda each: len(values[each]))
    given = _GIVEN[form]
    seen = FileSurvey(_objects(values[form], given))
    suggestion = suggest(seen)
    # Most of them are about how a file is read.
    suggestion.notes[:] = [Note(note.text) for note in suggestion.notes if note.dead_letters]
    if form in SIGNALS:
        own = {"input.id_path": "span_id"} if form == "otlp_spans" else {}
        named = {"stream": "field:service"} if "service" in seen.columns else {}
        return Look(kinds, seen.records, _of_signal(suggestion, form), {**given, **own, **named})
    keys = {message.key for message in messages}
    if None not in keys and 1 < len(keys) <= len(messages) / COMES_AGAIN:
        suggestion = replace(suggestion, stream="key")
    return Look(kinds, seen.records, suggestion, given)


def _kind_of(value: bytes, readers: Mapping[str, OtlpReader]) -> tuple[str, str]:
    """Return the format of a message, empty where settings do not name it, and what it is in words."""
    with suppress(orjson.JSONDecodeError):
        parsed = orjson.loads(value)
        if isinstance(parsed, dict):
            form = next((each for root, each in OTLP_ROOTS.items() if root in parsed), "json")
            return form, "a JSON object" if form == "json" else f"{form} of OpenTelemetry in JSON"
        if isinstance(parsed, list) and parsed and all(isinstance(each, dict) for each in parsed):
            return "many", "an array of JSON objects"
    lines = value.splitlines()
    if len(lines) > 1 and all(line[:1] == b"{" for line in lines):
        return "many", "a JSON object on each line"
    for form, reader in readers.items():
        with suppress(FaultError):
            reader.records(value)
            return form, f"{form} of OpenTelemetry in Protobuf"
    with suppress(UnicodeDecodeError):
        value.decode()
        return "", description(value) or "not known"
    if len(value) % WIDTH == 0:
        numbers = np.abs(np.frombuffer(value, "<f4").astype(np.float64))
        if ((numbers < 1e9) & ((numbers > 1e-9) | (numbers == 0))).all():
            return "", f"perhaps an array of {len(numbers):,} numbers; set input.format = float32"
    return "", description(value) or "not known"


def _objects(values: Sequence[bytes], given: Mapping[str, Any]) -> list[dict[str, Any]]:
    """Return the records of messages."""
    unpacker = Unpacker.of(Settings.of({"input.topics": ["any"], "input.features": ["any"], **given}))
    found: list[dict[str, Any]] = []
    for value in values:
        with suppress(FaultError, orjson.JSONDecodeError):
            texts = [value] if unpacker is None else unpacker.elements(value)
            found += [each for each in map(orjson.loads, texts) if isinstance(each, dict)]
        if len(found) >= RECORDS:
            break
    return found


def _of_signal(found: Suggestion, form: str) -> Suggestion:
    """Return what suits records of OpenTelemetry: their times, ids and streams are known, and a span's error counts."""
    own = ["duration_ms", "error"] if form == "otlp_spans" else []

    def is_free(path: str) -> bool:
        return path not in ("time", "service", *own) and not path.startswith("resource.")

    return replace(
        found,
        features=[*own, *filter(is_free, [] if isinstance(found.features, str) else found.features)],
        sparse=None,
        id_path=None,
        time_path=None,
        left_out={path: reason for path, reason in found.left_out.items() if is_free(path)},
        categories={path: values for path, values in found.categories.items() if is_free(path)},
    )
