"""Why the program ends, with the exit code that says so.

ResonanceError
├── ConfigurationError   2   a setting or a command line that cannot be used
├── BrokerError         69   the broker does not answer, or a topic is missing or of the wrong shape
│   └── DeniedError     69   the cluster refuses the log-in, the certificate or a right
├── WorkerPageError     69   a worker does not answer on its HTTP port, or refuses what it was asked
├── InputFileError      66   a file cannot be read, or a line of it cannot be used
├── MismatchError       65   log, committed offset and snapshots do not belong together: a named stop
├── DeliveryError       70   a transaction or a delivery failed; nothing was committed, start the worker again
└── FencedError         71   another worker with the same worker id took over
"""

import difflib
from collections.abc import Iterable, Sequence
from typing import ClassVar, Final

DIFFERS: Final = 3
"""Exit code of a command that compares, where what it compared is not the same: a result, and no error."""


class ResonanceError(Exception):
    """Root of every error that a user is meant to read: what, where, what to do."""

    exit_code: ClassVar[int] = 1


class ConfigurationError(ResonanceError):
    """A setting or a command line cannot be used; names the setting, its value, what is allowed and what to do."""

    exit_code = 2


class BrokerError(ResonanceError):
    """The broker does not answer, or a topic is missing or of the wrong shape."""

    exit_code = 69


class InputFileError(ResonanceError):
    """A file cannot be read, or a line of it cannot be used; names file and line."""

    exit_code = 66


class DeniedError(BrokerError):
    """The cluster refuses the log-in, the certificate or a right; asking again does not help."""


class WorkerPageError(ResonanceError):
    """A worker does not answer on its HTTP port, or refuses what it was asked."""

    exit_code = 69


class MismatchError(ResonanceError):
    """Input log, committed offset and snapshots do not belong together: a named stop with its remedy.

    Parameters
    ----------
    text : str
        What, where, and what to do.
    remedies : sequence of str
        Options of the command line that mend it.
    """

    exit_code = 65

    def __init__(self, text: str, remedies: Sequence[str] = ()) -> None:
        super().__init__(text)
        self.remedies = tuple(remedies)


class DeliveryError(ResonanceError):
    """Outputs could not be delivered; nothing was committed and a restart goes on where the log stands."""

    exit_code = 70


class FencedError(ResonanceError):
    """Another worker with the same worker id has taken over this one's transactions."""

    exit_code = 71


def nearest(name: str, known: Iterable[str]) -> str:
    """Return a question that offers the most similar known name, or nothing."""
    near = difflib.get_close_matches(name.lower(), list(known), n=1)
    return f" (did you mean {near[0]}?)" if near else ""


def several_nearest(name: str, known: Iterable[str], most: int = 3) -> str:
    """Return a question that offers the most similar of names that people made, or nothing."""
    near = difflib.get_close_matches(name, list(known), n=most, cutoff=0.4)
    return f" (did you mean {' or '.join(near)}?)" if near else ""
