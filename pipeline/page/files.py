"""The built files of the page, as they are served: with a digest of each, and compressed once."""

import gzip
import hashlib
from collections.abc import Mapping
from functools import cache
from importlib.resources import files
from typing import Final, NamedTuple

TYPES: Final[Mapping[str, str]] = {
    ".html": "text/html; charset=utf-8",
    ".js": "text/javascript; charset=utf-8",
    ".css": "text/css; charset=utf-8",
    ".svg": "image/svg+xml",
    ".txt": "text/plain; charset=utf-8",
}

FOLDER: Final = "static"


class PageFile(NamedTuple):
    """A file of the page."""

    content: bytes
    zipped: bytes
    etag: str
    type: str


@cache
def page_files() -> Mapping[str, PageFile]:
    """Return the files by name."""
    found = {}
    for file in files(__package__).joinpath(FOLDER).iterdir():
        suffix = file.name[file.name.rfind(".") :]
        if suffix in TYPES:
            content = file.read_bytes()
            etag = f'"{hashlib.sha256(content).hexdigest()[:20]}"'
            found[file.name] = PageFile(content, gzip.compress(content, mtime=0), etag, TYPES[suffix])
    return found
