"""One style of log for everything that runs in a worker: our own lines and those of the libraries under it."""

import json
import logging
import sys
import time
from collections.abc import Callable
from typing import Any, Final, Literal

import orjson

LIBRARIES = {
    # Their information is about their inside; what a user needs of it is said in our own lines.
    "faust": logging.WARNING,
    "mode": logging.WARNING,
    "aiokafka": logging.ERROR,
    "aiohttp": logging.ERROR,
    "asyncio": logging.ERROR,
    "numba": logging.WARNING,
    # librdkafka calls its own reports critical; the worker says what follows from them.
    "resonance.librdkafka": logging.CRITICAL + 1,
}
"""Least serious messages of each library, unless everything is asked for."""


QUIET_SECONDS: Final = 30.0
"""How long a library's line is not repeated."""

MAX_LINES: Final = 1_000
"""Lines of libraries that are remembered for that."""


def lower(record: logging.LogRecord) -> bool:
    """Call a library's error a warning: it tries again by itself, and where it cannot the worker says so."""
    if record.levelno == logging.ERROR:
        record.levelno, record.levelname = logging.WARNING, "WARNING"
    return True


LATE: Final = ("Thread keepalive is not responding", "is overlapping (interval=")
"""Parts of what mode says, under Faust, where its threads and timers had to wait for the processor."""


def explain_late(record: logging.LogRecord) -> bool:
    """Say what mode's reports of late threads and timers mean to a user: nothing failed, but the machine is busy."""
    if record.levelno in (logging.WARNING, logging.ERROR) and any(part in str(record.msg) for part in LATE):
        lower(record)
        record.msg = (
            "a thread of the worker had to wait for seconds: this machine has too little processor time for what runs "
            f"on it; answers come late, none is lost ({record.getMessage()})"
        )
        record.args = None
    return True


def hide(record: logging.LogRecord) -> bool:
    """Leave out of a library's line what it sends to log in: under PLAIN that is the password as it is."""
    if "sasl_auth_bytes" in record.getMessage():
        record.msg, record.args = "a request or an answer of the log-in, which no log shows", None
    return True


class Sparing:
    """Lets a library say the same again only after a while: without brokers aiokafka repeats itself all the time.

    Parameters
    ----------
    seconds : float
        How long the same line of a logger is left out.
    clock : callable
        Seconds that only grow.
    """

    def __init__(self, seconds: float = QUIET_SECONDS, clock: Callable[[], float] = time.monotonic) -> None:
        self._seconds = seconds
        self._clock = clock
        # When each was last said, and how often it was left out since.
        self._said: dict[tuple[str, str], tuple[float, int]] = {}

    def __call__(self, record: logging.LogRecord) -> bool:
        """Whether a line is shown; what was left out before is counted at its end."""
        now, line = self._clock(), (record.name, record.getMessage())
        last, left_out = self._said.get(line, (now - self._seconds, 0))
        if now - last < self._seconds:
            self._said[line] = last, left_out + 1
            return False
        if len(self._said) >= MAX_LINES:
            self._said.clear()
        self._said[line] = now, 0
        if left_out:
            record.msg, record.args = f"{line[1]} (and {left_out:,} times more since it was said last)", None
        return True


class Format(logging.Formatter):
    """``2025-01-31T12:00:00.123Z INFO    text``; tracebacks only where everything is asked for."""

    def __init__(self, tracebacks: bool) -> None:
        self.converter = time.gmtime
        super().__init__("%(asctime)s.%(msecs)03dZ %(levelname)-7s %(message)s", "%Y-%m-%dT%H:%M:%S")
        self._tracebacks = tracebacks

    def format(self, record: logging.LogRecord) -> str:
        """Return one line, and the traceback behind it where there is one to show."""
        if record.exc_info and not self._tracebacks:
            record = logging.makeLogRecord(record.__dict__ | {"exc_info": None, "exc_text": None})
        return super().format(record)


OWN: Final = frozenset(logging.makeLogRecord({}).__dict__) | {"message", "asctime", "taskName"}
"""What every log record has; whatever else it has was given as `extra`, such as topic and partition."""


class JsonFormat(logging.Formatter):
    """One JSON object a line: time, level, logger, message, what the line was given besides, and the traceback."""

    def format(self, record: logging.LogRecord) -> str:
        """Return the line."""
        milliseconds = f"{record.msecs:03.0f}"[:3]
        fields: dict[str, Any] = {
            "time": f"{time.strftime('%Y-%m-%dT%H:%M:%S', time.gmtime(record.created))}.{milliseconds}Z",
            "level": record.levelname.lower(),
            "logger": record.name,
            "message": record.getMessage(),
        }
        fields |= {name: value for name, value in record.__dict__.items() if name not in OWN}
        if record.exc_info:
            fields["traceback"] = self.formatException(record.exc_info)
        try:
            return orjson.dumps(fields, default=str, option=orjson.OPT_NON_STR_KEYS).decode()
        except TypeError:
            # Half a surrogate pair, as in the name of a file that is not UTF-8: it has no bytes, but an escape.
            return json.dumps(fields, default=str)


def at(topic: str, partition: int, offset: int | None = None) -> dict[str, Any]:
    """Return the fields (`extra`) of a line that is about a partition, or about a place in it."""
    fields: dict[str, Any] = {"topic": topic, "partition": partition}
    return fields if offset is None else fields | {"offset": offset}


def configure(level: str, style: Literal["text", "json"] = "text") -> None:
    """Send everything to standard error in one style.

    Parameters
    ----------
    level : {"debug", "info", "warning", "error"}
        Least serious messages of ours; ``debug`` shows those of the libraries and tracebacks, too.
    style : {"text", "json"}
        Lines for people, or one JSON object a line.
    """
    debug = level == "debug"
    handler = logging.StreamHandler(sys.stderr)
    handler.setFormatter(JsonFormat() if style == "json" else Format(debug))
    logging.basicConfig(level=level.upper(), handlers=[handler], force=True)
    for name, least in LIBRARIES.items():
        logging.getLogger(name).setLevel(logging.DEBUG if debug else least)
    sparing = Sparing(0.0 if debug else QUIET_SECONDS)

    def shown(record: logging.LogRecord) -> bool:
        # A filter of a logger is asked for its own records only: aiokafka has one for each of its modules.
        explain_late(record)
        return not record.name.startswith("aiokafka") or (hide(record) and lower(record) and sparing(record))

    handler.addFilter(shown)
