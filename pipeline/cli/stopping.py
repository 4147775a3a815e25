"""Messages and exit codes of a command that is stopped before its end: in which state it leaves the deployment."""

import signal
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import typer
from resonance.pipeline.cli.output import say

INTERRUPTED = 130
"""Exit code after Ctrl-C."""

TERMINATED = 143
"""Exit code after SIGTERM, of commands that then print their state as well."""

UNREAD = 141
"""Exit code where results are no longer read, that of SIGPIPE."""

UNCHANGED = "stopped; nothing was changed"


@contextmanager
def says_when_stopped(state: str) -> Iterator[None]:
    """Print `state` at Ctrl-C, and end with the exit code for it."""
    try:
        yield
    except KeyboardInterrupt:
        say(state)
        raise typer.Exit(INTERRUPTED) from None


class SigtermAsCtrlC:
    """Context in which SIGTERM acts like Ctrl-C: `state` is printed, and the exit code shows which of them came."""

    def __init__(self, state: str) -> None:
        # A stopped command ends with it, also where the command has caught the KeyboardInterrupt.
        self.exit_code = INTERRUPTED
        self._state = state

    def __enter__(self) -> "SigtermAsCtrlC":
        self._before = signal.signal(signal.SIGTERM, self._stop)
        return self

    def __exit__(self, kind: type[BaseException] | None, *_: object) -> None:
        signal.signal(signal.SIGTERM, self._before)
        if kind is KeyboardInterrupt:
            say(self._state)
            raise typer.Exit(self.exit_code) from None

    def _stop(self, *_: Any) -> None:
        self.exit_code = TERMINATED
        raise KeyboardInterrupt
