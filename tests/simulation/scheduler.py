"""Simulated time and threads: one thread runs at a time, and the seed decides which comes next.

A thread gives up its turn only where it waits: for a time, an answer, a queue, another thread. Nothing else happens
between two waits, so that a seed replays exactly. The threads are real ones that hand a baton on, because the event
loop and the context of a coroutine belong to a real thread.
"""

import heapq
import random
import threading
from collections.abc import Callable
from itertools import count
from queue import SimpleQueue
from typing import Any

JITTER = 0.0005
"""Longest time between a wake-up and the turn of the thread: it mixes the order of threads that wait for one thing."""


class KilledError(BaseException):
    """The process of this thread has ended."""


class Process:
    """What is killed, frozen and started again as a whole; `exited` is called once with what ended it."""

    def __init__(self, name: str, exited: Callable[[object], None] = lambda _: None) -> None:
        self.name = name
        self.dead = False
        self.frozen_until = 0.0
        self.threads: list[Thread] = []
        self._exited = exited

    def end(self, why: object) -> None:
        """End it; each of its threads ends where it waits."""
        if not self.dead:
            self.dead = True
            for thread in self.threads:
                thread.scheduler.wake(thread)
            self._exited(why)


class Thread:
    """A simulated thread of a process."""

    def __init__(self, scheduler: "Scheduler", process: Process, run: Callable[[], object]) -> None:
        self.scheduler, self.process, self.run = scheduler, process, run
        self.turn = threading.Lock()
        self.turn.acquire()
        # Counts waits: a wake-up that was meant for an earlier one is void.
        self.waits = 0
        self.waiting = True
        self.woken = False
        self.over = False
        self.real: _Real | None = None


class Scheduler:
    """The clock, and whose turn it is; the thread that makes it is the first one."""

    def __init__(self, seed: object) -> None:
        self.random = random.Random(str(seed))
        self.now = 0.0
        self.failure: BaseException | None = None
        self._numbers = count()
        self._made_in = threading.current_thread()
        self._events: list[tuple[float, float, int, Any, int, bool]] = []
        self.main = self.current = Thread(self, Process("test"), lambda: None)

    def at(self, delay: float, call: Callable[[], object]) -> None:
        """Make a call after some seconds, in no thread: it must not wait."""
        self._push(delay, call, 0, woken=False)

    def spawn(self, process: Process, run: Callable[[], object]) -> Thread:
        """Start a thread of a process."""
        thread = Thread(self, process, run)
        process.threads.append(thread)
        thread.waits = 1
        self._push(self.random.random() * JITTER, thread, 1, woken=True)
        return thread

    def is_simulated(self) -> bool:
        """Return whether the calling thread is one of this simulation, and not one that an earlier test has left."""
        return threading.current_thread() is self._made_in or isinstance(threading.current_thread(), _Real)

    def wake(self, thread: Thread) -> None:
        """End a thread's wait, where it waits."""
        if thread.waiting:
            self._push(self.random.random() * JITTER, thread, thread.waits, woken=True)

    def wait(self, seconds: float | None = None) -> bool:
        """Let others run until the current thread is woken, or for some seconds; return whether it was woken."""
        me = self.current
        if me.process.dead:
            raise KilledError
        me.waits += 1
        me.waiting = True
        if seconds is not None:
            self._push(max(seconds, 0.0), me, me.waits, woken=False)
        chosen = self._next()
        if chosen is not me:
            _pass_on(chosen)
            me.turn.acquire()
        if me.process.dead:
            raise KilledError
        return me.woken

    def wait_for(self, condition: Callable[[], bool], waiting: list[Thread], seconds: float | None = None) -> bool:
        """Wait until a condition holds, whose changes wake the `waiting` threads; return whether it holds."""
        end = None if seconds is None else self.now + seconds
        while not condition():
            if end is not None and self.now >= end:
                return False
            waiting.append(self.current)
            try:
                self.wait(None if end is None else end - self.now)
            finally:
                waiting.remove(self.current)
        return True

    def wake_all(self, waiting: list[Thread]) -> None:
        """Wake what waits for a condition."""
        for thread in waiting:
            self.wake(thread)

    def fail(self, error: BaseException) -> None:
        """End the run with an error of the world, as soon as the first thread has its turn."""
        self.failure = self.failure or error
        self.main.process.frozen_until = 0.0
        self._push(0.0, self.main, self.main.waits, woken=True)

    def _push(self, delay: float, target: Any, token: int, *, woken: bool) -> None:
        event = (self.now + delay, self.random.random(), next(self._numbers), target, token, woken)
        heapq.heappush(self._events, event)

    def _next(self) -> Thread:
        """Make the calls that are due and return the thread whose turn comes then."""
        while True:
            time, _, _, target, token, woken = heapq.heappop(self._events)
            self.now = max(self.now, time)
            if not isinstance(target, Thread):
                self.current = self.main
                try:
                    target()
                except KilledError:
                    # The client that the call is of died in it.
                    pass
                except Exception as error:  # a fault of the world, not of the thread that happens to be here
                    self.fail(error)
                continue
            if not target.waiting or token != target.waits:
                continue
            if target.process.frozen_until > self.now and not target.process.dead:
                self._push(target.process.frozen_until - self.now, target, token, woken=woken)
                continue
            target.waiting, target.woken = False, woken
            self.current = target
            return target

    def ended(self, thread: Thread) -> Thread:
        """Note the end of a thread and return whose turn comes next."""
        thread.over = True
        thread.process.threads.remove(thread)
        return self._next()


_free: "list[_Real]" = []
"""Real threads that have nothing to run."""


class _Real(threading.Thread):
    """A real thread, which runs one simulated thread after the other: to start one takes longer than most of them."""

    def __init__(self) -> None:
        super().__init__(daemon=True)
        self.given: SimpleQueue[Thread] = SimpleQueue()

    def run(self) -> None:
        while True:
            thread = self.given.get()
            try:
                if not thread.process.dead:
                    thread.run()
            except KilledError:
                pass
            except BaseException as error:
                thread.scheduler.fail(error)
            chosen = thread.scheduler.ended(thread)
            del thread
            # Before another one runs, which may have something to start.
            _free.append(self)
            _pass_on(chosen)


def _pass_on(thread: Thread) -> None:
    """Let a thread have its turn; the caller must wait or end."""
    if thread.real is None and thread is not thread.scheduler.main:
        if not _free:
            _free.append(_Real())
            _free[-1].start()
        thread.real = _free.pop()
        thread.real.given.put(thread)
    else:
        thread.turn.release()
