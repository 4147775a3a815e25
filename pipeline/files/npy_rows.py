"""Arrays of NumPy: a row for each record, one array of features unless the columns are named."""

from collections.abc import Iterator
from pathlib import Path

import numpy as np
import orjson
from resonance.pipeline.errors import ConfigurationError, InputFileError
from resonance.pipeline.files.members import builder, chosen
from resonance.pipeline.files.rows import BATCH, BadRow, Columns, FileRecord, as_key
from resonance.pipeline.timestamps import timestamp_of

FEATURES = "features"
"""Member with the features of a record without names."""


class NpyRows:
    """The rows of an array of one or two axes; numbers that are not finite become null.

    Raises `InputFileError` for another kind of file or array, and `ConfigurationError` where names do not fit.
    """

    def __init__(self, file: Path, columns: Columns) -> None:
        try:
            # Never objects: reading them would run what they say.
            array = np.load(file, mmap_mode="r", allow_pickle=False)
        except ValueError as error:
            raise InputFileError(f"{file} is no array of numbers that can be read: {error}") from error
        if array.ndim not in (1, 2) or array.dtype.kind not in "fiub":
            raise InputFileError(
                f"{file}: an array of shape {array.shape} and type {array.dtype} is no table of numbers; save one with "
                "a row for each record"
            )
        self._array = array.reshape(len(array), -1)
        width = self._array.shape[1]
        if columns.names and len(columns.names) != width:
            raise ConfigurationError(f"--names: {len(columns.names)} names for {width} columns of {file}")
        self.names = list(columns.names) or [FEATURES]
        self._used, where = chosen(file, self.names, columns)
        self._build = builder(where)
        self._columns = columns
        self.total = len(self._array)
        """Rows of the file."""
        self.position = 0
        """Rows read so far."""

    def batches(self) -> Iterator[list[FileRecord | BadRow]]:
        """Yield the rows in order."""
        while self.position < self.total:
            rows = self._array[self.position : self.position + BATCH].tolist()
            yield [self._record(row, number) for number, row in enumerate(rows, self.position + 1)]
            self.position += len(rows)

    def _record(self, row: list[float], number: int) -> FileRecord | BadRow:
        cells = dict(zip(self.names, row if self._columns.names else [row], strict=True))
        key, times = self._columns.key, self._columns.time
        try:
            value = orjson.dumps(self._build([cells[name] for name in self._used]))
            time = timestamp_of([cells[name] for name in times], self._columns.time_form)
            return FileRecord(None if key is None else as_key(cells[key]), value, time)
        except ValueError as error:
            return BadRow(number, str(error))
