"""What processes work on, sent to them while it is read."""

import fcntl
import os
import select
import threading
from collections import deque
from collections.abc import Iterable, Iterator, Sequence
from multiprocessing.connection import Connection
from typing import Final

QUEUED: Final = 8
"""Frames that wait for a process, at most."""

LOOK_SECONDS: Final = 0.1
"""Longest wait between two looks at whether it is to end."""

PIPE_BYTES: Final = 1 << 20
"""What a pipe holds, where the system lets us choose: several frames, so that nobody waits for the other's turn."""

_LENGTH: Final = 8


def frames_of(pipe: Connection) -> Iterator[bytes]:
    """Yield the frames that a `Feeder` sends to this process.

    Raises
    ------
    EOFError
        The one who sends is gone.
    """
    with open(pipe.fileno(), "rb", closefd=False) as stream:
        while size := int.from_bytes(_read(stream.read(_LENGTH), _LENGTH)):
            yield _read(stream.read(size), size)


def _read(data: bytes, size: int) -> bytes:
    if len(data) < size:
        raise EOFError
    return data


class Feeder:
    """Sends frames to processes, from one thread that never waits for a slow process while another has nothing to do.

    A thread that reads and one for each process would wait for each other's turn in the interpreter, 5 ms for each
    frame; so the one that reads also sends, what the pipes take at once.

    Parameters
    ----------
    frames : iterable of (int, bytes)
        Number of a process, and the next bytes for it, which are not empty.
    pipes : sequence of Connection
        To the processes, one way; each gets an empty frame at the end.

    Attributes
    ----------
    error : BaseException or None
        What came in the place of frames.
    """

    def __init__(self, frames: Iterable[tuple[int, bytes]], pipes: Sequence[Connection]) -> None:
        self.error: BaseException | None = None
        self._frames = frames
        self._lanes = [_Lane(pipe.fileno()) for pipe in pipes]
        self._stopped = threading.Event()
        self._thread = threading.Thread(target=self._run, daemon=True)

    def __enter__(self) -> "Feeder":
        return self

    def start(self) -> None:
        """Begin, once every process has its job."""
        self._thread.start()

    def __exit__(self, *_: object) -> None:
        self._stopped.set()
        # Where the reading itself waits for something, nobody else has to.
        self._thread.join(10 * LOOK_SECONDS)

    def _run(self) -> None:
        try:
            for number, frame in self._frames:
                if self._stopped.is_set():  # the pipes may be closed by now
                    return
                self._lanes[number].add(frame)
                self._send(QUEUED)
            for lane in self._lanes:
                lane.add(b"")
            self._send(0)
        except BaseException as error:  # raised again where the results are waited for
            self.error = error

    def _send(self, most: int) -> None:
        """Write what the pipes take, until no process has more than some frames waiting."""
        for lane in self._lanes:
            lane.write()
        while not self._stopped.is_set() and any(lane.frames > most for lane in self._lanes):
            poll = select.poll()
            waiting = {lane.number: lane for lane in self._lanes if lane.frames}
            for number in waiting:
                poll.register(number, select.POLLOUT)
            for number, _ in poll.poll(LOOK_SECONDS * 1000):
                waiting[number].write()


class _Lane:
    """What waits for one process."""

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
        """Write what the pipe takes now."""
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
            # The process is gone; that is noticed where its result is waited for.
            self._gone = True
            self._waiting.clear()
