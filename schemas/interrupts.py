"""Ctrl-C that reaches the code that must handle it."""

import signal
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, NoReturn


@contextmanager
def interruptible(*, requests: bool = False) -> Iterator[None]:
    """Raise `KeyboardInterrupt` at Ctrl-C wherever it arrives, unless SIGINT is already ignored or handled.

    With `requests`, a request to end (SIGTERM) and a closed terminal (SIGHUP) count as Ctrl-C, too.
    """
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    names = ["SIGINT"] if signal.getsignal(signal.SIGINT) is signal.default_int_handler else []
    if requests:
        names += ["SIGTERM"] if sys.platform == "win32" else ["SIGTERM", "SIGHUP"]
    # Up to Python 3.11 the SIGINT handler of Python raises the class without an instance. confluent-kafka keeps what a
    # callback raises by its instance, so Ctrl-C during a callback of delivery or of the log would surface as a
    # `SystemError`.
    before = {name: signal.signal(getattr(signal, name), _interrupt) for name in names}
    try:
        yield
    finally:
        for name, handler in before.items():
            signal.signal(getattr(signal, name), handler)


def _interrupt(number: int, frame: Any) -> NoReturn:
    raise KeyboardInterrupt
