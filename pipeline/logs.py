"""One log style for everything that runs in a worker: the product's own lines and those of its libraries."""

import contextlib
import io
import json
import logging
import queue
import re
import sys
import threading
import time
from logging.handlers import QueueHandler
from typing import Any, Final, Literal, TextIO

import orjson

LIBRARIES = {
    # They describe internals; the worker logs what a user needs of them.
    "faust": logging.ERROR,
    "mode": logging.ERROR,
    "aiohttp": logging.ERROR,
    "asyncio": logging.ERROR,
    "httpx2": logging.WARNING,
    "httpcore2": logging.WARNING,
    "mcp": logging.WARNING,
    "numba": logging.WARNING,
    # librdkafka logs its own reports as critical; the worker logs their consequences.
    "resonance.librdkafka": logging.CRITICAL + 1,
}
"""Lowest level that is shown of each library, except at level ``debug``."""


LINES_WAITING: Final = 10_000
"""Lines of the log that wait to be written, at most."""

FLUSH_SECONDS: Final = 2.0
"""How long lines that are not written yet may delay the end of the process."""

_UNSEEN: Final = (
    "\x7f-\x9f\xad\u061c\u180e\u200b\u200e\u200f\u2028-\u202e\u2060-\u206f\ufeff\ufff9-\ufffb\U000e0000-\U000e007f"
)
"""Beside those below a space: characters that a terminal obeys, or that turn or hide others."""

_OBEYED: Final = re.compile(f"[\0-\x1f{_UNSEEN}\ud800-\udfff]")
_OBEYED_IN_JSON: Final = re.compile(f"[{_UNSEEN}]")


def printable(text: str) -> str:
    """Return one line of text with escapes for what a terminal would obey: ids and keys are chosen by senders."""
    return _OBEYED.sub(lambda found: ascii(found[0])[1:-1], text)


def printable_json(text: str) -> str:
    """Return JSON of orjson, which escapes what stands below a space, with escapes of JSON for the rest."""
    return _OBEYED_IN_JSON.sub(_as_units, text)


def _as_units(found: re.Match[str]) -> str:
    units = found[0].encode("utf-16-be")
    return "".join(f"\\u{units[at : at + 2].hex()}" for at in range(0, len(units), 2))


class Format(logging.Formatter):
    """``2025-01-31T12:00:00.123Z INFO    text``; tracebacks only at level ``debug``."""

    def __init__(self, tracebacks: bool, label: str = "") -> None:
        self.converter = time.gmtime
        before = f"[{label}] " if label else ""
        super().__init__(f"%(asctime)s.%(msecs)03dZ %(levelname)-7s {before}%(message)s", "%Y-%m-%dT%H:%M:%S")
        self._tracebacks = tracebacks

    def format(self, record: logging.LogRecord) -> str:
        """Return one line, followed by the traceback where it is shown."""
        if record.exc_info and not self._tracebacks:
            record = logging.makeLogRecord(record.__dict__ | {"exc_info": None, "exc_text": None})
        return super().format(record)

    def formatMessage(self, record: logging.LogRecord) -> str:  # noqa: N802 - a name of logging
        """Return the line, and those of `extra` ``more``, without a traceback."""
        return "\n".join(map(printable, [super().formatMessage(record), *getattr(record, "more", ())]))

    def formatException(self, ei: Any) -> str:  # noqa: N802 - a name of logging
        """Return a traceback."""
        return "\n".join(map(printable, super().formatException(ei).split("\n")))


OWN: Final = frozenset(logging.makeLogRecord({}).__dict__) | {"message", "asctime", "taskName"}
"""Attributes of every log record; all others were passed as `extra`, such as topic and partition."""


class JsonFormat(logging.Formatter):
    """One JSON object per line: time, level, logger, message, the `extra` fields, and the traceback."""

    def __init__(self, label: str = "") -> None:
        super().__init__()
        self._always = {"worker": label} if label else {}

    def format(self, record: logging.LogRecord) -> str:
        """Return the line."""
        milliseconds = f"{record.msecs:03.0f}"[:3]
        fields: dict[str, Any] = {
            "time": f"{time.strftime('%Y-%m-%dT%H:%M:%S', time.gmtime(record.created))}.{milliseconds}Z",
            "level": record.levelname.lower(),
            "logger": record.name,
            "message": record.getMessage(),
            **self._always,
        }
        fields |= {name: value for name, value in record.__dict__.items() if name not in OWN}
        if record.exc_info:
            fields["traceback"] = self.formatException(record.exc_info)
        try:
            line = orjson.dumps(fields, default=str, option=orjson.OPT_NON_STR_KEYS).decode()
        except TypeError:
            # Half a surrogate pair, as in a file name that is not UTF-8, has no UTF-8 bytes, but a JSON escape.
            line = json.dumps(fields, default=str)
        return printable_json(line)


class QueuedHandler(QueueHandler):
    """Writes lines in a thread of its own: a log that is not read, such as a full pipe, holds up nothing else.

    Lines beyond `LINES_WAITING` are dropped and counted.
    """

    def __init__(self, stream: TextIO) -> None:
        self._lines: queue.Queue[str | threading.Event] = queue.Queue(LINES_WAITING)
        super().__init__(self._lines)
        self._stream = stream
        # Only grows, so that the thread that reads it needs no lock.
        self._dropped = 0
        threading.Thread(target=self._write, name="log", daemon=True).start()

    def prepare(self, record: logging.LogRecord) -> str:
        """Return the line, in the words of this moment."""
        return self.format(record)

    def enqueue(self, line: Any) -> None:
        """Queue a line, or drop it where the queue is full."""
        try:
            self._lines.put_nowait(line)
        except queue.Full:
            self._dropped += 1

    def flush(self, seconds: float = FLUSH_SECONDS) -> None:
        """Wait until the lines until now are written, but not for ever."""
        written = threading.Event()
        try:
            self._lines.put(written, timeout=seconds)
        except queue.Full:
            return
        written.wait(seconds)

    def _write(self) -> None:
        said = 0
        while True:
            line = self._lines.get()
            if isinstance(line, threading.Event):
                line.set()
                continue
            self._put(line)
            if lost := self._dropped - said:
                said += lost
                text = f"{lost:,} lines of the log were dropped: nothing read standard error"
                level = {"levelno": logging.WARNING, "levelname": "WARNING"}
                self._put(self.format(logging.makeLogRecord({"name": __name__, "msg": text, **level})))

    def _put(self, line: str) -> None:
        # A standard error that is closed or on a full disk is no reason to end.
        with contextlib.suppress(OSError, ValueError):
            self._stream.write(f"{line}\n")
            self._stream.flush()


def unbuffer_standard_error() -> None:
    """Let standard error have no buffer of its own.

    What is in one would be written once more at the end: to a full disk, or to a pipe that is not read.
    """
    with contextlib.suppress(OSError, ValueError):
        raw = io.FileIO(sys.stderr.fileno(), "w", closefd=False)
        sys.stderr = io.TextIOWrapper(raw, sys.stderr.encoding, sys.stderr.errors, write_through=True)


def at(topic: str, partition: int, offset: int | None = None) -> dict[str, Any]:
    """Return the `extra` fields of a line about a partition, or about an offset in it."""
    fields: dict[str, Any] = {"topic": topic, "partition": partition}
    return fields if offset is None else fields | {"offset": offset}


def configure(level: str, style: Literal["text", "json"] = "text", label: str = "") -> None:
    """Log everything to standard error in one style, with a `label` on each line if there is one.

    `level` is the lowest level of the product's own lines; ``debug`` also shows those of the libraries, and tracebacks.
    """
    debug = level == "debug"
    unbuffer_standard_error()
    handler = QueuedHandler(sys.stderr)
    handler.setFormatter(JsonFormat(label) if style == "json" else Format(debug, label))
    logging.basicConfig(level=level.upper(), handlers=[handler], force=True)
    for name, least in LIBRARIES.items():
        logging.getLogger(name).setLevel(logging.DEBUG if debug else least)
