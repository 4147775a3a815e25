"""Records of a file, as they would be produced: JSONL, CSV, Parquet and NumPy arrays.

A row becomes a JSON object with one member for each column; a column whose name has dots becomes a nested member, so
that the path ``geo.lat`` finds it. Each format has its own file; `rows` holds what they share.
"""

import gzip
import io
import os
import zlib
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, Final

from resonance.pipeline.errors import ConfigurationError, InputFileError
from resonance.pipeline.files.csv_rows import CsvRows
from resonance.pipeline.files.jsonl_lines import JsonlRows
from resonance.pipeline.files.members import as_path
from resonance.pipeline.files.npy_rows import NpyRows
from resonance.pipeline.files.rows import BadRow, Columns, FileRecord, Rows, utf_16

FORMATS: Final[Mapping[str, str]] = {
    ".jsonl": "jsonl",
    ".ndjson": "jsonl",
    ".json": "jsonl",
    ".csv": "csv",
    ".tsv": "csv",
    ".txt": "csv",
    ".log": "log",
    ".parquet": "parquet",
    ".pq": "parquet",
    ".npy": "npy",
    ".npz": "npy",
}
"""Format by suffix; JSONL and CSV also with ``.gz`` behind it, and any other name where they begin like one."""

_PACKED: Final = (".gz", ".zip", ".zst", ".bz2", ".xz")
"""Suffixes of compressed files, of which only the first is read."""

_OF_ROWS: Final = ("parquet", "npy")
_BUFFER: Final = 256 * 1024

_OTHERS: Final[Mapping[bytes, str]] = {
    b"PK\3\4": "a zip file or an Excel workbook; unpack it, or save it as CSV",
    b"\x28\xb5\x2f\xfd": "compressed with zstd; unpack it: unzstd",
    b"BZh": "compressed with bzip2; unpack it: bunzip2",
    b"\xfd7zXZ": "compressed with xz; unpack it: unxz",
    b"PAR1": "a Parquet file; let its name end in .parquet",
    b"\x93NUM": "an array of NumPy; let its name end in .npy",
}
"""Files that are none of text, by their first bytes."""


class RecordFile:
    """A file of records, open inside ``with``; its suffix gives the format (`FORMATS`).

    Unusable rows raise an error unless the columns skip them. Raises `ConfigurationError` where the format
    cannot be compressed or a column is missing, and `InputFileError` where the file cannot be read or is empty.

    Examples
    --------
    >>> with RecordFile(Path("flows.csv"), Columns(key="host")) as file:
    ...     for batch in file.batches():
    ...         for key, value, timestamp in batch: ...
    """

    def __init__(self, path: Path, columns: Columns | None = None) -> None:
        self._path = path
        self._columns = columns or Columns()
        self.skipped = 0
        """Bad rows so far."""
        self.bad = ""
        """The first of them, and what is wrong with it."""
        self._format = _format_of(path)
        if self._columns.names and self._format in ("jsonl", "parquet"):
            raise ConfigurationError(f"--names: the columns of {path} have names; leave it out")
        self.unit = "rows" if self._format in _OF_ROWS else "bytes"
        """What `total`, the size of the file, and `position` count: ``bytes`` or ``rows``."""

    def __enter__(self) -> "RecordFile":
        try:
            # Without a buffer, its position is what the formats have really read.
            self._raw = self._path.open("rb", buffering=0)
            self.total = os.fstat(self._raw.fileno()).st_size
            if not self.total:
                raise InputFileError(f"{self._path} is empty: there is nothing to read")
            self._rows = self._open()
        except OSError as error:
            raise InputFileError(f"{self._path} cannot be read: {error.strerror or error}; check the path") from error
        except (EOFError, zlib.error) as error:
            raise self._damaged(error) from error
        self.names = self._rows.names
        """Columns of the file; for JSONL the paths in its first record."""
        is_flat = not isinstance(self._rows, JsonlRows) and not self._columns.members
        self.nested = [name for name in self.names if is_flat and len(as_path(name)) > 1]
        """Columns whose names have dots, which become members of objects."""
        self.decimal: str = getattr(self._rows, "decimal", ".")
        """Decimal separator of its numbers."""
        return self

    def __exit__(self, *_: object) -> None:
        self._raw.close()

    @property
    def position(self) -> int:
        """How far the file has been read."""
        return int(getattr(self._rows, "position", 0)) if self.unit == "rows" else self._raw.tell()

    def batches(self) -> Iterator[list[FileRecord]]:
        """Yield the records in order, about `BATCH` at a time.

        Raises `InputFileError` where the file is damaged, or, with its line, for an unusable row unless these are
        skipped.
        """
        try:
            for rows in self._rows.batches():
                records = [row for row in rows if type(row) is FileRecord]
                if len(records) < len(rows):
                    self.bad = self.bad or self._named(next(row for row in rows if isinstance(row, BadRow)))
                    if not self._columns.skip_bad:
                        raise bad_line(self.bad)
                    self.skipped += len(rows) - len(records)
                if records:
                    yield records
        except (EOFError, OSError, zlib.error) as error:
            raise self._damaged(error) from error

    def _damaged(self, error: Exception) -> InputFileError:
        return InputFileError(f"{self._path} is damaged: {error}; get it again")

    def _named(self, row: BadRow) -> str:
        return f"{self._path}, {'row' if self.unit == 'rows' else 'line'} {row.line:,}: {row.reason}"

    def _open(self) -> Rows:
        if self._format == "parquet":
            from resonance.pipeline.files.parquet_rows import ParquetRows  # noqa: PLC0415 - pyarrow is an extra

            rows = ParquetRows(self._raw, self._path, self._columns)
            self.total = rows.total
            return rows
        if self._format == "npy":
            array = NpyRows(self._path, self._columns)
            self.total = array.total
            return array
        stream: Any = io.BufferedReader(self._raw, _BUFFER)
        head = stream.peek(4)
        for first, what in _OTHERS.items():
            if head.startswith(first):
                raise InputFileError(f"{self._path} is {what}")
        # By its first bytes, too: a download may have lost the suffix.
        if head.startswith(b"\x1f\x8b") or self._path.suffix.lower() == ".gz":
            unpacked: Any = gzip.GzipFile(fileobj=stream)
            stream = io.BufferedReader(unpacked, _BUFFER)
        if b"\0" in (head := stream.peek(1)) and not utf_16(head[:2]):
            raise InputFileError(f"{self._path} holds bytes that are no text; save it as CSV, JSONL or Parquet")
        # A log may be either.
        is_csv = self._format == "csv" or (self._format == "log" and not stream.peek(1).startswith(b"{"))
        return (CsvRows if is_csv else JsonlRows)(stream, self._path, self._columns)


def bad_line(bad: str) -> InputFileError:
    """Return the error for a line that cannot be used, as `RecordFile.bad` has it."""
    return InputFileError(f"{bad}; correct it, or leave such lines out with --skip-bad")


def without_suffixes(path: Path) -> str:
    """Return the name of a file without the suffixes of its format: other dots, as in ``run-0.5.csv``, are its own."""
    while path.suffix.lower() in {*FORMATS, *_PACKED}:
        path = path.with_suffix("")
    return path.name


def _format_of(path: Path) -> str:
    suffix = path.suffix.lower()
    packed = suffix == ".gz"
    if packed:
        suffix = Path(path.stem).suffix.lower()
    # By what it holds, where its name does not say it.
    found = FORMATS.get(suffix, "log")
    if packed and found in _OF_ROWS:
        raise ConfigurationError(f"{path}: of a compressed file only JSONL and CSV are read; unpack it: gunzip")
    return found
