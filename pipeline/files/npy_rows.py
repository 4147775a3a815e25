"""Arrays of NumPy: a row for each record, one array of features unless the columns are named, or the arrays are."""

import zipfile
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import orjson
from resonance.pipeline.errors import ConfigurationError, InputFileError
from resonance.pipeline.files.members import builder, chosen
from resonance.pipeline.files.rows import BATCH, BadRow, Columns, FileRecord, as_key
from resonance.pipeline.timestamps import timestamp_of

FEATURES = "features"
"""Member with the features of a record without names."""


class NpyRows:
    """The rows of an array of one or two axes, or of those of an archive; numbers that are not finite become null.

    Raises `InputFileError` for another kind of file or array, and `ConfigurationError` where names do not fit.
    """

    def __init__(self, file: Path, columns: Columns) -> None:
        try:
            # Never objects: reading them would run what they say.
            found = np.load(file, mmap_mode="r", allow_pickle=False)
            arrays = {FEATURES: found} if isinstance(found, np.ndarray) else dict(found)
        except (ValueError, zipfile.BadZipFile) as error:
            raise InputFileError(f"{file} is no array of numbers that can be read: {error}") from error
        # Texts may be labels beside the numbers of an archive.
        kinds = "fiub" if len(arrays) == 1 else "fiubU"
        for array in arrays.values():
            if array.ndim not in (1, 2) or array.dtype.kind not in kinds:
                raise InputFileError(
                    f"{file}: an array of shape {array.shape} and type {array.dtype} is no table of numbers; save one "
                    "with a row for each record"
                )
        lengths = {name: len(array) for name, array in arrays.items()}
        if len(set(lengths.values())) != 1:
            raise InputFileError(f"{file}: its arrays {lengths} are no columns of one table; save those of one length")
        # Of an archive of several, one with a single axis is a column.
        self._arrays = [array.reshape(len(array), -1) if len(arrays) == 1 else array for array in arrays.values()]
        width = self._arrays[0].shape[-1]
        if columns.names and (len(arrays) > 1 or len(columns.names) != width):
            raise ConfigurationError(f"--names: {len(columns.names)} names for {width} columns of {file}")
        self.names = list(columns.names) or list(arrays)
        self._used, where = chosen(file, self.names, columns)
        self._build = builder(where)
        self._columns = columns
        self.total = len(self._arrays[0])
        """Rows of the file."""
        self.position = 0
        """Rows read so far."""

    def batches(self) -> Iterator[list[FileRecord | BadRow]]:
        """Yield the rows in order."""
        while self.position < self.total:
            parts = [array[self.position : self.position + BATCH].tolist() for array in self._arrays]
            rows = parts[0] if self._columns.names else list(zip(*parts, strict=True))
            yield [self._record(row, number) for number, row in enumerate(rows, self.position + 1)]
            self.position += len(rows)

    def _record(self, row: Sequence[Any], number: int) -> FileRecord | BadRow:
        cells = dict(zip(self.names, row, strict=True))
        key, times = self._columns.key, self._columns.time
        try:
            value = orjson.dumps(self._build([cells[name] for name in self._used]))
            time = timestamp_of([cells[name] for name in times], self._columns.time_form)
            return FileRecord(as_key([cells[name] for name in key]), value, time)
        except ValueError as error:
            return BadRow(number, str(error))
