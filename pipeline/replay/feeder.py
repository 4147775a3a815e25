"""Sends processes the data that they work on, while it is being read."""

import fcntl
import os
import select
import threading
from collections import deque
from collections.abc import Iterable, Iterator, Sequence
from multiprocessing.connection import Connection
from typing import Final

QUEUED: Final = 8
"""Most frames that wait for one process."""

LOOK_SECONDS: Final = 0.1
"""Longest wait between two checks for a stop request."""

PIPE_BYTES: Final = 1 << 20
"""Pipe capacity where the system lets it be set: several frames, so that the two ends do not wait for each other."""

_LENGTH: Final = 8


def frames_of(pipe: Connection) -> Iterator[bytes]:
    """Yield the frames that a `Feeder` sends to this process; raise EOFError when the sender is gone."""
    with open(pipe.fileno(), "rb", closefd=False) as stream:
        while size := int.from_bytes(_read(stream.read(_LENGTH), _LENGTH)):
            yield _read(stream.read(size), size)


def _read(data: bytes, size: int) -> bytes:
    if len(data) < size:
        raise EOFError
    return data


class Feeder:
    """Sends frames to processes from one thread, which never waits for a slow process while another one is idle.

    `frames` yields pairs of process number and non-empty bytes; each process gets an empty frame at the end. One thread
    both reads and sends, because separate threads would wait for each other's turn in the interpreter, 5 ms a frame.
    """

    def __init__(self, frames: Iterable[tuple[int, bytes]], pipes: Sequence[Connection]) -> None:
        self.error: BaseException | None = None
        """The error that ended the reading of `frames`."""
        self._frames = frames
        self._queues = [_Queue(pipe.fileno()) for pipe in pipes]
        self._stopped = threading.Event()
        self._thread = threading.Thread(target=self._run, daemon=True)

    def __enter__(self) -> "Feeder":
        return self

    def start(self) -> None:
        """Start the thread; every process must have its job by then."""
        self._thread.start()

    def __exit__(self, *_: object) -> None:
        self._stopped.set()
        # If the source of the frames is blocked, do not wait for it.
        self._thread.join(10 * LOOK_SECONDS)

    def _run(self) -> None:
        try:
            for number, frame in self._frames:
                if self._stopped.is_set():  # the pipes may be closed already
                    return
                self._queues[number].add(frame)
                self._send(QUEUED)
            for queue in self._queues:
                queue.add(b"")
            self._send(0)
        except BaseException as error:  # raised again by the thread that waits for the results
            self.error = error

    def _send(self, most: int) -> None:
        """Write to the pipes until no process has more than `most` frames waiting."""
        for queue in self._queues:
            queue.write()
        while not self._stopped.is_set() and any(queue.frames > most for queue in self._queues):
            poll = select.poll()
            waiting = {queue.number: queue for queue in self._queues if queue.frames}
            for number in waiting:
                poll.register(number, select.POLLOUT)
            for number, _ in poll.poll(LOOK_SECONDS * 1000):
                waiting[number].write()


class _Queue:
    """Frames that wait for one process."""

    def __init__(self, number: int) -> None:
        os.set_blocking(number, False)
        if hasattr(fcntl, "F_SETPIPE_SZ"):
            fcntl.fcntl(number, fcntl.F_SETPIPE_SZ, PIPE_BYTES)
        self.number = number
        self._waiting: deque[memoryview] = deque()
        self._gone = False

    @property
    def frames(self) -> int:
        return len(self._waiting)

    def add(self, frame: bytes) -> None:
        if not self._gone:
            self._waiting.append(memoryview(len(frame).to_bytes(_LENGTH) + frame))

    def write(self) -> None:
        """Write as much as the pipe takes without blocking."""
        try:
            while self._waiting:
                frame = self._waiting[0]
                taken = os.write(self.number, frame)
                if taken < len(frame):
                    self._waiting[0] = frame[taken:]
                else:
                    self._waiting.popleft()
        except BlockingIOError:
            return
        except OSError:
            # The process is gone; the wait for its result reports that.
            self._gone = True
            self._waiting.clear()
