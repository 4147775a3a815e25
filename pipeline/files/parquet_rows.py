"""Parquet, by pyarrow: times become text as in every other record, numbers that are not finite become null."""

from collections.abc import Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, BinaryIO

import orjson
from resonance.pipeline import exact_json
from resonance.pipeline.errors import ConfigurationError, InputFileError, missing_extra
from resonance.pipeline.files.members import builder, chosen
from resonance.pipeline.files.rows import BATCH, BadRow, Columns, FileRecord, are_names, as_key, cleaned, null_numbers
from resonance.pipeline.timestamps import TimeTexts, timestamp_of

try:
    import pyarrow
    from pyarrow import parquet, types
except ImportError as error:
    raise missing_extra("Parquet", "pyarrow", "parquet") from error


class ParquetRows:
    """The rows of a Parquet file.

    Raises `InputFileError` for another kind of file, and `ConfigurationError` for a column that is missing or of a type
    that JSON cannot represent.
    """

    def __init__(self, stream: BinaryIO, file: Path, columns: Columns) -> None:
        try:
            self._file = parquet.ParquetFile(stream)
        except pyarrow.ArrowException as error:
            raise InputFileError(f"{file} is no Parquet file that can be read: {error}") from error
        schema = self._file.schema_arrow
        self._path = file
        self.names: list[str] = list(schema.names)
        self.total: int = self._file.metadata.num_rows
        """Rows of the file."""
        self.position = 0
        """Rows read so far."""
        self._used, where = chosen(file, self.names, columns)
        self._build = builder(where)
        self._key, self._time, self._columns = columns.key, columns.time, columns
        self._texts = TimeTexts()
        self._naming: dict[str, bool] = {}
        for name in {*self._used, *columns.besides}:
            kind = schema.field(name).type
            if not _has_like(kind):
                others = ", ".join(other for other in self.names if _has_like(schema.field(other).type))
                raise ConfigurationError(
                    f"{file}: column {name} is of type {kind}, which JSON has no like of; choose others with --map, "
                    f"such as {others}"
                )

    def batches(self) -> Iterator[list[FileRecord | BadRow]]:
        """Yield the rows in order."""
        wanted = list(dict.fromkeys([*self._used, *self._columns.besides]))
        try:
            for batch in self._file.iter_batches(BATCH, columns=wanted):
                yield self._records_of(batch)
                self.position += batch.num_rows
        except pyarrow.ArrowException as error:
            raise OSError(str(error)) from error

    def _records_of(self, batch: Any) -> list[FileRecord | BadRow]:
        try:
            return list(self._records(batch))
        except (ValueError, OverflowError) as error:
            # Columns are read as a whole, so pyarrow does not report the row.
            rows = f"rows {self.position + 1:,} to {self.position + batch.num_rows:,}"
            raise InputFileError(
                f"{self._path}, {rows}: a value cannot be written in JSON ({error}); choose other columns with --map"
            ) from error

    def _records(self, batch: Any) -> Iterator[FileRecord | BadRow]:
        columns = {name: self._values(name, batch.column(name)) for name in batch.schema.names}
        nothing: list[tuple[()]] = [()] * batch.num_rows
        keys, times = (
            zip(*(columns[name] for name in names), strict=True) if names else nothing
            for names in (self._key, self._time)
        )
        rows = zip(*(columns[name] for name in self._used), strict=True)
        for number, (row, key, time) in enumerate(zip(rows, keys, times, strict=True), self.position + 1):
            try:
                value = exact_json.dumps(self._build(row), orjson.OPT_NAIVE_UTC | orjson.OPT_UTC_Z)
                yield FileRecord(as_key(key), value, timestamp_of(time, self._columns.time_form))
            except (ValueError, TypeError) as error:
                yield BadRow(number, str(error))

    def _values(self, name: str, column: Any) -> Sequence[Any]:
        kind = column.type
        if types.is_dictionary(kind):
            return self._values(name, column.dictionary_decode())
        if types.is_timestamp(kind):
            # Text with milliseconds, whatever the unit; a time without a zone counts as UTC.
            stamps = column.cast(pyarrow.timestamp("ms", kind.tz), safe=False).cast(pyarrow.int64()).to_pylist()
            return [None if stamp is None else self._texts[stamp] for stamp in stamps]
        if types.is_date(kind):
            return [None if day is None else str(day) for day in column.to_pylist()]
        if types.is_float16(kind):
            column = column.cast(pyarrow.float64())
        values: list[Any] = column.to_pylist()
        if types.is_decimal(kind):
            return [None if value is None else exact_json.number(str(value)) for value in values]
        if self._columns.changes_texts and (not types.is_primitive(kind) or null_numbers(self._columns.nulls)):
            # By its first batch, so that a column is of one type.
            if name not in self._naming:
                self._naming[name] = are_names(values)
            values = cleaned(values, replace(self._columns, numbers=False) if self._naming[name] else self._columns)
        return values


def _has_like(kind: Any) -> bool:
    """Whether JSON can represent the values of a type."""
    if types.is_dictionary(kind):
        return _has_like(kind.value_type)
    if types.is_list(kind) or types.is_large_list(kind) or types.is_fixed_size_list(kind):
        return _has_like(kind.value_type)
    if types.is_struct(kind):
        return all(_has_like(kind.field(number).type) for number in range(kind.num_fields))
    return bool(
        types.is_integer(kind)
        or types.is_floating(kind)
        or types.is_boolean(kind)
        or types.is_string(kind)
        or types.is_large_string(kind)
        or types.is_timestamp(kind)
        or types.is_date(kind)
        or types.is_decimal(kind)
        or types.is_null(kind)
    )
