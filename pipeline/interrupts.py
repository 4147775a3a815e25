"""Ctrl-C that reaches the code that has to answer it."""

import signal
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, NoReturn


@contextmanager
def interruptible(*, requests: bool = False) -> Iterator[None]:
    """Raise `KeyboardInterrupt` at Ctrl-C wherever it comes, and leave alone who ignores or handles it.

    Python's own handler of SIGINT raises the class without an instance. confluent-kafka keeps what a delivery callback
    raises by its instance, so while `poll` or `flush` runs callbacks, Ctrl-C would come out as a `SystemError`.

    Parameters
    ----------
    requests : bool
        Treat a request to end (SIGTERM) and a terminal that is closed (SIGHUP) like Ctrl-C.
    """
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    names = ["SIGINT"] if signal.getsignal(signal.SIGINT) is signal.default_int_handler else []
    if requests:
        names += ["SIGTERM"] if sys.platform == "win32" else ["SIGTERM", "SIGHUP"]
    before = {name: signal.signal(getattr(signal, name), _interrupt) for name in names}
    try:
        yield
    finally:
        for name, handler in before.items():
            signal.signal(getattr(signal, name), handler)


def _interrupt(number: int, frame: Any) -> NoReturn:
    raise KeyboardInterrupt
