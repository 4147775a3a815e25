"""What a command says when somebody stops it before its end: in which state it leaves things."""

import signal
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import typer
from resonance.pipeline.cli.output import say

INTERRUPTED = 130
"""Exit code after Ctrl-C."""

TERMINATED = 143
"""Exit code after SIGTERM, of commands that say something then, too."""

UNCHANGED = "stopped; nothing was changed"


@contextmanager
def says_when_stopped(state: str) -> Iterator[None]:
    """Say at Ctrl-C in which state things are, and end with the exit code for it.

    Parameters
    ----------
    state : str
        What is said.
    """
    try:
        yield
    except KeyboardInterrupt:
        say(state)
        raise typer.Exit(INTERRUPTED) from None


class SigtermAsCtrlC:
    """Lets SIGTERM do what Ctrl-C does, from ``with`` to its end, as `says_when_stopped`.

    Parameters
    ----------
    state : str
        What is said.

    Attributes
    ----------
    exit_code : int
        What a command that was stopped ends with.
    """

    def __init__(self, state: str) -> None:
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
