"""What processes work on, sent to them while it is read."""

import queue
import sys
import threading
from collections.abc import Iterable, Sequence
from contextlib import suppress
from multiprocessing.connection import Connection
from typing import Final

QUEUED: Final = 16
"""Frames that wait for a process, at most."""

SWITCH_SECONDS: Final = 0.0005
"""How soon a sender gets its turn beside the thread that reads. Each part of a frame needs one, and at Python's 5 ms
the processes would wait longer for a frame than they work on it."""

LOOK_SECONDS: Final = 0.1
"""Longest wait between two looks at whether it is to end."""


class Feeder:
    """Sends frames to processes, from threads: neither a slow process nor the reading holds the others up.

    Parameters
    ----------
    frames : iterable of (int, bytes)
        Number of a process, and the next bytes for it, which are not empty.
    pipes : sequence of Connection
        Of the processes; each gets an empty frame at the end.

    Attributes
    ----------
    error : BaseException or None
        What came in the place of frames.
    """

    def __init__(self, frames: Iterable[tuple[int, bytes]], pipes: Sequence[Connection]) -> None:
        self.error: BaseException | None = None
        self._stopped = threading.Event()
        self._interval = sys.getswitchinterval()
        self._queues: list[queue.Queue[bytes]] = [queue.Queue(QUEUED) for _ in pipes]
        self._frames = frames
        senders = [
            threading.Thread(target=self._send, args=pair, daemon=True)
            for pair in zip(self._queues, pipes, strict=True)
        ]
        self._threads = [threading.Thread(target=self._read, daemon=True), *senders]

    def __enter__(self) -> "Feeder":
        return self

    def start(self) -> None:
        """Begin, once every process has its job."""
        sys.setswitchinterval(SWITCH_SECONDS)
        for thread in self._threads:
            thread.start()

    def __exit__(self, *_: object) -> None:
        # Who is sending is through with it by now: everything was taken, or the processes were ended.
        self._stopped.set()
        for thread in self._threads[1:]:
            if thread.is_alive():
                thread.join()
        sys.setswitchinterval(self._interval)

    def _read(self) -> None:
        try:
            for number, frame in self._frames:
                self._put(self._queues[number], frame)
                if self._stopped.is_set():
                    return
            for waiting in self._queues:
                self._put(waiting, b"")
        except BaseException as error:  # raised again where the results are waited for
            self.error = error

    def _put(self, waiting: "queue.Queue[bytes]", frame: bytes) -> None:
        while not self._stopped.is_set():
            try:
                waiting.put(frame, timeout=LOOK_SECONDS)
            except queue.Full:
                continue
            return

    def _send(self, waiting: "queue.Queue[bytes]", pipe: Connection) -> None:
        # A process that is gone is noticed where its result is waited for.
        with suppress(OSError):
            while not self._stopped.is_set():
                try:
                    frame = waiting.get(timeout=LOOK_SECONDS)
                except queue.Empty:
                    continue
                pipe.send_bytes(frame)
                if not frame:
                    return
