"""The built files of the page, as they are served: with a digest of each, and compressed once."""

import gzip
import hashlib
from collections.abc import Mapping
from functools import cache
from importlib.resources import files
from typing import Final, NamedTuple, Self

TYPES: Final[Mapping[str, str]] = {
    ".html": "text/html; charset=utf-8",
    ".js": "text/javascript; charset=utf-8",
    ".css": "text/css; charset=utf-8",
    ".svg": "image/svg+xml",
    ".txt": "text/plain; charset=utf-8",
}

FOLDER: Final = "static"
ZIPPED_BYTES: Final = 1_000


class PageFile(NamedTuple):
    """A file of the page, or one of its answers."""

    content: bytes
    zipped: bytes
    etag: str
    type: str

    @classmethod
    def of(cls, content: bytes, kind: str, level: int = 9) -> Self:
        """Return a file of some content, compressed where that pays."""
        zipped = gzip.compress(content, level, mtime=0) if len(content) > ZIPPED_BYTES else b""
        return cls(content, zipped, f'"{hashlib.sha256(content).hexdigest()[:20]}"', kind)


@cache
def page_files() -> Mapping[str, PageFile]:
    """Return the files by name."""
    found = {}
    for file in files(__package__).joinpath(FOLDER).iterdir():
        suffix = file.name[file.name.rfind(".") :]
        if suffix in TYPES:
            content = file.read_bytes()
            found[file.name] = PageFile.of(content, TYPES[suffix])
    return found
