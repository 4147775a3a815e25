"""Several files as one: their records one file behind the other."""

from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Self

from resonance.pipeline.errors import ConfigurationError
from resonance.pipeline.files.record_file import RecordFile
from resonance.pipeline.files.rows import Columns, FileRecord


class SeveralFiles:
    """Files of records, open inside ``with``: what `RecordFile` is for one, and raises what it raises.

    Raises `ConfigurationError` where rows of some and bytes of others would have to be added.
    """

    def __init__(self, paths: Sequence[Path], columns: Columns | None = None) -> None:
        self._open: Callable[[Path], RecordFile] = lambda path: RecordFile(path, columns)
        self._paths = paths
        if len({self._open(path).unit for path in paths}) > 1:
            raise ConfigurationError(f"{', '.join(map(str, paths))}: files of lines and files of rows; name them apart")
        self._skipped = self._read = 0
        self._bad = ""

    def __enter__(self) -> Self:
        others = []
        # All of them, before the first record is read: what is wrong with the last one is then said in time.
        for path in self._paths[1:]:
            with self._open(path) as file:
                others.append(file.total)
        self._file = self._open(self._paths[0]).__enter__()
        self.total = self._file.total + sum(others)
        self.decimal, self.nested = self._file.decimal, self._file.nested
        return self

    def __exit__(self, *error: object) -> None:
        self._file.__exit__(*error)

    @property
    def position(self) -> int:
        """How far the files have been read, in the unit of `total`."""
        return self._read + self._file.position

    @property
    def skipped(self) -> int:
        """Bad rows so far."""
        return self._skipped + self._file.skipped

    @property
    def bad(self) -> str:
        """The first of them, and what is wrong with it."""
        return self._bad or self._file.bad

    def batches(self) -> Iterator[list[FileRecord]]:
        """Yield the records in order."""
        for number, path in enumerate(self._paths):
            if number:
                self._read += self._file.total
                self._skipped, self._bad = self.skipped, self.bad
                self._file.__exit__()
                self._file = self._open(path).__enter__()
            yield from self._file.batches()
