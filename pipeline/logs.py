"""One style of log for everything that runs in a worker: our own lines and those of the libraries under it."""

import logging
import sys
import time

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


def lower(record: logging.LogRecord) -> bool:
    """Call a library's error a warning: it tries again by itself, and where it cannot the worker says so."""
    if record.levelno == logging.ERROR:
        record.levelno, record.levelname = logging.WARNING, "WARNING"
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


def configure(level: str) -> None:
    """Send everything to standard error in one style.

    Parameters
    ----------
    level : {"debug", "info", "warning", "error"}
        Least serious messages of ours; ``debug`` shows those of the libraries and tracebacks, too.
    """
    debug = level == "debug"
    handler = logging.StreamHandler(sys.stderr)
    handler.setFormatter(Format(debug))
    logging.basicConfig(level=level.upper(), handlers=[handler], force=True)
    for name, least in LIBRARIES.items():
        logging.getLogger(name).setLevel(logging.DEBUG if debug else least)
    # A filter of a logger is asked for its own records only: aiokafka has one for each of its modules.
    handler.addFilter(lambda record: not record.name.startswith("aiokafka") or lower(record))
