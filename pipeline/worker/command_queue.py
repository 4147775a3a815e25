"""The queue of the processor's thread: chunks, and commands of other threads that run between two of them."""

import queue
import threading
from collections.abc import Callable
from concurrent.futures import Future
from contextlib import suppress
from dataclasses import dataclass
from typing import Generic, TypeVar

from resonance.pipeline.worker.transport.chunk import Chunk

ResultT = TypeVar("ResultT")


@dataclass(frozen=True, slots=True)
class Command(Generic[ResultT]):
    """A request of another thread, carried out between two chunks."""

    do: Callable[[], ResultT]
    answer: "Future[ResultT]"
    only_if_wanted: bool = False

    def __call__(self) -> None:
        """Carry it out, and answer."""
        # The caller may have been cancelled; a command that changes something is carried out all the same.
        wanted = self.answer.set_running_or_notify_cancel()
        if self.only_if_wanted and not wanted:
            return
        try:
            result = self.do()
        except BaseException as error:
            if wanted:
                self.answer.set_exception(error)
            raise
        if wanted:
            self.answer.set_result(result)

    def refuse(self, error: BaseException) -> None:
        """Answer with an error instead of carrying it out."""
        if self.answer.set_running_or_notify_cancel():
            self.answer.set_exception(error)


Item = Chunk | Callable[[], object] | None
"""A chunk, a call to make, or None for the end."""


class Inbox:
    """A queue for one thread whose commands are all answered, whatever becomes of the thread."""

    def __init__(self) -> None:
        self._queue: queue.SimpleQueue[Item] = queue.SimpleQueue()
        # What ended the thread. Under the lock, a command is queued before the end and answered there, or never queued.
        self._error: BaseException | None = None
        self._ending = threading.Lock()

    @property
    def empty(self) -> bool:
        """Whether nothing waits now."""
        return self._queue.empty()

    def put(self, item: Item) -> None:
        """Queue an item for whose result no caller waits."""
        self._queue.put(item)

    def get(self, timeout: float | None = None) -> Item:
        """Return the next item; raise `queue.Empty` where none comes within `timeout` seconds."""
        return self._queue.get(timeout=timeout)

    def call(self, do: Callable[[], ResultT], *, only_if_wanted: bool = False) -> "Future[ResultT]":
        """Queue a command; its result comes when it was carried out or refused.

        One that is `only_if_wanted` is left out where its result was cancelled before its turn.
        """
        command = Command(do, Future(), only_if_wanted)
        with self._ending:
            if self._error is None:
                self._queue.put(command)
                return command.answer
        command.refuse(self._error)
        return command.answer

    def refuse_all(self, error: BaseException) -> None:
        """Refuse every command that waits, and from now on every new one."""
        with self._ending:
            self._error = error
        with suppress(queue.Empty):
            while True:
                item = self._queue.get_nowait()
                if isinstance(item, Command):
                    item.refuse(error)
