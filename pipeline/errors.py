"""Errors that end the program, with their exit codes.

ResonanceError
├── ConfigurationError   2   a setting or a command line cannot be used
├── BrokerError         69   the broker does not answer, or a topic is missing or of the wrong shape
│   └── DeniedError     69   the cluster refuses the log-in, the certificate or a right
├── WorkerPageError     69   a worker does not answer on its HTTP port, or refuses the request
├── InputFileError      66   a file cannot be read, or a line of it cannot be used
├── MismatchError       65   startup mismatch: log, committed offset and snapshots do not belong together
├── DeliveryError       70   a transaction or a delivery failed; nothing was committed, start the worker again
└── FencedError         71   another worker with the same worker id took over
"""

import difflib
from collections.abc import Iterable, Sequence
from typing import ClassVar, Final

DIFFERS: Final = 3
"""Exit code of a comparing command that found a difference, which is a result and not an error."""


class ResonanceError(Exception):
    """Base of every error that is written for the user: what is wrong, where, and what to do."""

    exit_code: ClassVar[int] = 1


class ConfigurationError(ResonanceError):
    """A setting or a command line cannot be used; the text names setting, value, what is allowed and what to do."""

    exit_code = 2


class BrokerError(ResonanceError):
    """The broker does not answer, or a topic is missing or of the wrong shape."""

    exit_code = 69


class InputFileError(ResonanceError):
    """A file cannot be read, or a line of it cannot be used; the text names file and line."""

    exit_code = 66


class DeniedError(BrokerError):
    """The cluster refuses the log-in, the certificate or a right; a retry does not help."""


class WorkerPageError(ResonanceError):
    """A worker does not answer on its HTTP port, or refuses the request."""

    exit_code = 69


class MismatchError(ResonanceError):
    """Startup mismatch: input log, committed offset and snapshots do not belong together.

    `remedies` are the command-line options that recover from it, and `problem` is the text without them.
    """

    exit_code = 65

    def __init__(self, text: str, remedies: Sequence[str] = (), problem: str = "") -> None:
        super().__init__(text)
        self.remedies = tuple(remedies)
        self.problem = problem or text


class DeliveryError(ResonanceError):
    """Outputs could not be delivered; nothing was committed, and a restart continues from the last commit."""

    exit_code = 70


class FencedError(ResonanceError):
    """Another worker with the same worker id has taken over the transactions of this one."""

    exit_code = 71


def nearest(name: str, known: Iterable[str]) -> str:
    """Return a question that offers the most similar known name, or an empty string."""
    near = difflib.get_close_matches(name.lower(), list(known), n=1)
    return f" (did you mean {near[0]}?)" if near else ""


def several_nearest(name: str, known: Iterable[str], most: int = 3) -> str:
    """Return a question that offers up to `most` similar names that users chose, or an empty string."""
    near = difflib.get_close_matches(name, list(known), n=most, cutoff=0.4)
    return f" (did you mean {' or '.join(near)}?)" if near else ""
