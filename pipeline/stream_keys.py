"""Names of streams in texts for people: with keys as they are, which ids have percent-encoded."""

import re
from contextlib import suppress
from typing import Final
from urllib.parse import quote, unquote

_QUOTED: Final = re.compile(r"(?:[\w.~-]|%[0-9A-F]{2})*", re.ASCII)
_PREFIX: Final = re.compile(r"(?:[\w.-]+\.)?p[0-9]+:|", re.ASCII)


def readable(text: str, *streams: str | None) -> str:
    """Return a text that has the ids of streams with their keys instead, but in ids of clusters."""
    # An alert of a partition has no stream, and a text names few of many.
    for name in (each for each in streams if each and each in text):
        with suppress(UnicodeDecodeError):
            text = re.sub(rf"{re.escape(name)}(?![\w%/])", unquote(name, errors="strict").replace("\\", r"\\"), text)
    return text


def stream_id(name: str) -> str:
    """Return the id of a stream, which may be given with its key as texts have it."""
    prefix: str = _PREFIX.findall(name)[0]
    key = name.removeprefix(prefix)
    return name if _QUOTED.fullmatch(key) else prefix + quote(key, safe="")
