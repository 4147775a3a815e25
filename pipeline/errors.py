"""Errors that end the program, with their exit codes.

ResonanceError
├── ConfigurationError   2   a setting or a command line cannot be used
├── BrokerError         69   the broker does not answer, or a topic is missing or of the wrong shape
│   └── DeniedError     69   the cluster refuses the log-in, the certificate or a right
├── RegistryError       69   the Schema Registry does not answer, or refuses
├── WorkerPageError     69   a worker does not answer on its HTTP port, or refuses the request
├── InputFileError      66   a file cannot be read, or a line of it cannot be used
├── MismatchError       65   startup mismatch: log, committed offset and snapshots do not belong together
├── OutputError         74   the output of a command cannot be written
├── DeliveryError       70   a transaction or a delivery failed; nothing was committed, start the worker again
├── ResourceError       71   the machine gives no thread, no memory or no temporary file
└── FencedError         71   another worker has begun with the same transactional id
"""

import difflib
import errno
import os
from collections.abc import Iterable, Sequence
from typing import ClassVar, Final

BEYOND: Final = 1e-3
"""Part of another value by which one that is on the other side of 0 is 0."""

NEXT_TO: Final = 1e-6
"""The same on the same side of 0, where a larger part may be another unit."""

DIFFERS: Final = 3
"""Exit code of a comparing command that found a difference, which is a result and not an error."""


MISSED: Final = 4
"""Exit code of `evaluate` where the best candidate does not keep a bound."""


class ResonanceError(Exception):
    """Base of every error that is written for the user: what is wrong, where, and what to do, each argument a line."""

    exit_code: ClassVar[int] = 1

    def __str__(self) -> str:
        return "\n".join(map(str, self.args))


class ConfigurationError(ResonanceError):
    """A setting or a command line cannot be used; the text names setting, value, what is allowed and what to do."""

    exit_code = 2


class BrokerError(ResonanceError):
    """The broker does not answer, or a topic is missing or of the wrong shape."""

    exit_code = 69


class RegistryError(ResonanceError):
    """The Schema Registry does not answer, refuses, or answers something else than what it is for."""

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


class OutputError(ResonanceError):
    """Standard output or a file of results cannot be written."""

    exit_code = 74


class ResourceError(ResonanceError):
    """The machine gives no thread, no memory or no temporary file, which a restart or another limit may change."""

    exit_code = 71


class FencedError(ResonanceError):
    """Another worker has begun with the transactional id of this one: it has the same worker id, or took over."""

    exit_code = 71


FULL: Final = frozenset({errno.ENOSPC, errno.EDQUOT, errno.EFBIG, errno.EIO})
"""Errors of a disk that takes no more."""


def named(error: BaseException) -> ResonanceError | None:
    """Return an error of the machine as one for the user: a full disk, no memory, no thread; None for any other."""
    if isinstance(error, OSError) and error.errno in FULL:
        where = error.filename or "the output"
        return OutputError(f"{where}: it cannot be written ({error.strerror}); make room there, then run it again")
    if isinstance(error, MemoryError) or "can't start new thread" in str(error):
        lacking = "memory" if isinstance(error, MemoryError) else "thread"
        return ResourceError(
            f"the machine gives no {lacking} any more; raise the limit of the process or of the container (ulimit -v, "
            "ulimit -u, memory, pids), or start fewer processes on it"
        )
    return None


def system_reason(error: OSError) -> str:
    """Return what the operating system calls an error; one of names, with a number below 0, has its own text."""
    return os.strerror(error.errno) if error.errno and error.errno > 0 else str(error)


def missing_extra(what: str, module: str, extra: str) -> ConfigurationError:
    """Return the error for a library that is not installed, with the extra that has it."""
    return ConfigurationError(
        f"{what} needs {module}, which is not installed: pip install 'resonance-streams[{extra}]'"
    )


def nearest(name: str, known: Iterable[str], most: int = 1) -> str:
    """Return a question that offers the most similar of the known names, or an empty string.

    Of names that users chose up to `most` are offered, also less similar ones.
    """
    names, cutoff = list(known), 0.6 if most == 1 else 0.4
    return offered(difflib.get_close_matches(name if most > 1 else name.lower(), names, most, cutoff))


def unnamed_streams(streams: Sequence[str], known: Iterable[str]) -> str:
    """Return the sentence about streams that no output names, with the nearest of the others."""
    names = sorted(known)
    near = "".join(nearest(each, names, 3) for each in streams)
    others = f"; there are {first_of(names, 10)}" if names else ", nor any other stream"
    return f"no output names {' or '.join(streams)}{near}{others}"


def offered(names: Iterable[str]) -> str:
    """Return a question that offers names, or an empty string for none."""
    words = " or ".join(names)
    return f" (did you mean {words}?)" if words else ""


def counted(count: int, what: str) -> str:
    """Return a number of things: ``1 record``, ``1,204 records``."""
    return f"{count:,} {what}{'' if count == 1 else 's'}"


def number(value: float) -> str:
    """Return a number as people read it: three significant digits, whole from a thousand on."""
    return f"{value:,.0f}" if abs(value) >= 999.5 else f"{value:.3g}"


def rounded(value: float, other: float) -> float:
    """Return a value, or 0 where it is next to nothing beside another one: a mean of logarithms is rounded."""
    return 0.0 if abs(value) <= (BEYOND if value * other < 0 else NEXT_TO) * abs(other) else value


def second(time: str) -> str:
    """Return the time of an output as people read it, to the second."""
    return time[:19].replace("T", " ")


def minute(time: str) -> str:
    """Return the time of an output as people read it, to the minute."""
    return time[:16].replace("T", " ")


def some_of(names: Sequence[str], most: int) -> str:
    """Return up to `most` names as a list, which ends with how many more there are."""
    return ", ".join(names[:most]) + (f" and {len(names) - most:,} more" if len(names) > most else "")


def first_of(names: Sequence[str], most: int) -> str:
    """Return up to `most` names as a list, which ends with dots where there are more."""
    return ", ".join(names[:most]) + (", ..." if len(names) > most else "")
