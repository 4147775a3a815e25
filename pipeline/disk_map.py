"""A mapping of bytes in a temporary file, for what need not stay in memory.

SQLite keeps it: a small one never leaves the page cache, and the file has no name, so that nothing stays behind.
"""

import logging
import sqlite3
import tempfile
import weakref
from collections.abc import Iterator, Mapping
from functools import cache, cached_property
from typing import Any, Final

from resonance.pipeline.errors import ResourceError

CACHE_KB: Final = 2_000
"""Kilobytes of it that stay in memory; a smaller map needs no file."""

PAGE: Final = 1_000
"""Keys that are read at once."""

_log = logging.getLogger(__name__)


class DiskMap(Mapping[bytes, bytes]):
    """Bytes by keys that are bytes; several threads may use it, one after the other."""

    @cached_property
    def _rows(self) -> sqlite3.Connection:
        rows = sqlite3.connect(_place(), isolation_level=None, check_same_thread=False)
        weakref.finalize(self, rows.close)
        # The file is of no use after a crash.
        for setting in ("journal_mode = OFF", "synchronous = OFF", f"cache_size = -{CACHE_KB}"):
            rows.execute(f"PRAGMA {setting}")
        rows.execute("CREATE TABLE map (key BLOB PRIMARY KEY, value BLOB NOT NULL)")
        return rows

    def __len__(self) -> int:
        return int(self._run("SELECT count(*) FROM map")[0][0])

    def __getitem__(self, key: bytes) -> bytes:
        if (found := self.get(key)) is None:
            raise KeyError(key)
        return found

    def get(self, key: bytes) -> bytes | None:  # type: ignore[override]
        """Return the value of a key; None where it has none."""
        found = self._run("SELECT value FROM map WHERE key = ?", key)
        return found[0][0] if found else None

    def put(self, key: bytes, value: bytes) -> None:
        """Set the value of a key."""
        self._run("INSERT INTO map VALUES (?, ?) ON CONFLICT (key) DO UPDATE SET value = excluded.value", key, value)

    def pop(self, key: bytes) -> bytes | None:
        """Remove a key and return its value; None where it has none."""
        found = self.get(key)
        if found is not None:
            self._run("DELETE FROM map WHERE key = ?", key)
        return found

    def __iter__(self) -> Iterator[bytes]:
        """Yield the keys, sorted; those that are yet to come may change meanwhile."""
        start = b""
        while found := self._run("SELECT key FROM map WHERE key >= ? ORDER BY key LIMIT ?", start, PAGE):
            yield from (key for (key,) in found)
            start = found[-1][0] + b"\0"

    @property
    def size(self) -> int:
        """Bytes of the file."""
        return int(self._run("SELECT page_count * page_size FROM pragma_page_count, pragma_page_size")[0][0])

    def _run(self, statement: str, *values: Any) -> list[Any]:
        try:
            return self._rows.execute(statement, values).fetchall()
        except sqlite3.OperationalError as error:
            raise ResourceError(
                f"a temporary file cannot be written or read ({error}); name a folder with room in TMPDIR, or lower "
                "limits.streams"
            ) from None


@cache
def _place() -> str:
    """Return SQLite's name for a new temporary file, or for memory where no folder takes one."""
    try:
        tempfile.gettempdir()
    except FileNotFoundError as error:
        _log.warning("%s: what would be in a temporary file stays in memory; TMPDIR names a folder", error)
        return ":memory:"
    return ""
