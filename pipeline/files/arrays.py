"""Records of a file in the input format of a deployment: their JSON objects become arrays where it takes arrays."""

from collections.abc import Callable
from functools import partial
from pathlib import Path

from resonance.pipeline.config.settings import Settings
from resonance.pipeline.errors import ConfigurationError, InputFileError
from resonance.pipeline.files.rows import FileRecord
from resonance.pipeline.json_paths import WHOLE
from resonance.pipeline.records import Record
from resonance.pipeline.task.decode.dense import Layout
from resonance.pipeline.task.decode.faults import FaultError
from resonance.pipeline.task.decode.float_records import as_float32
from resonance.pipeline.task.decode.json_records import InputMapping
from resonance.pipeline.task.decode.unpacking import wrapped

Encode = Callable[[list[FileRecord]], list[FileRecord]]


def encoder(settings: Settings, path: Path) -> Encode:
    """Return what gives the records of a file the format that the settings name.

    ``input.features`` says where the numbers stand in a row. The result raises `InputFileError` for a row without them;
    a format whose values have a schema is a `ConfigurationError`.
    """
    # A Collector's file exporter writes a request a line.
    if settings.input.format == "json" or settings.is_otlp:
        records = settings.input.records
        return _unchanged if records in (None, WHOLE) else partial(_wrapped, records)
    if settings.is_framed:
        raise ConfigurationError(
            f"input.format = {settings.input.format}: {path} has rows without a schema; send them with a producer that "
            "has one and name the topic, or read the file as JSON: --input.format json"
        )
    return _Arrays(Settings.of({**settings.model_dump(), "input.format": "json"}), path)


def _unchanged(records: list[FileRecord]) -> list[FileRecord]:
    """Return the records as they are; a function of the module can be sent to another process."""
    return records


def _wrapped(path: str, records: list[FileRecord]) -> list[FileRecord]:
    """Return the records of a file as messages with one record each."""
    return [each._replace(value=wrapped(path, each.value)) for each in records]


class _Arrays:
    """Encodes batches as arrays of float32."""

    def __init__(self, settings: Settings, path: Path) -> None:
        self._settings, self._path = settings, path
        self._mapping = InputMapping(settings)
        self._count = 0

    def __call__(self, batch: list[FileRecord]) -> list[FileRecord]:
        """Return the records of the next batch with arrays as values."""
        records = [Record("", 0, i, 0, None, each.value) for i, each in enumerate(batch)]
        try:
            if self._mapping.layout is None and batch:
                self._mapping.layout = Layout(self._settings, self._mapping.shape_of(batch[0].value))
            decoded = self._mapping.decode(records)
            for fault in decoded.faults[:1]:
                self._count += fault.index
                raise FaultError(fault.stage, fault.kind, fault.message)
        except FaultError as error:
            raise InputFileError(
                f"{self._path}, record {self._count + 1:,} has no array for input.format = float32: {error.message}; "
                "say where its numbers stand (input.features), or correct it"
            ) from error
        self._count += len(batch)
        return [each._replace(value=value) for each, value in zip(batch, as_float32(decoded.rows), strict=True)]
