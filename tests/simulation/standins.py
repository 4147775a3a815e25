"""What the product's modules have in place of `time`, `threading`, `queue`, futures and the event loop."""

import asyncio
import concurrent.futures
import inspect
import queue
import time
from collections import deque
from collections.abc import Callable
from contextlib import suppress
from types import SimpleNamespace
from typing import Any

from tests.simulation.scheduler import Scheduler, Thread

EPOCH = 1_700_000_000.0
"""Seconds since 1970 at which a simulation begins."""


class StandIns:
    """The modules and classes of one simulation, under the names that the product imports."""

    def __init__(self, sim: Scheduler) -> None:
        self.sim = sim
        self.time = SimpleNamespace(
            monotonic=lambda: sim.now, perf_counter=lambda: sim.now, time=lambda: EPOCH + sim.now, sleep=self._sleep
        )
        bound = {"sim": sim}
        self.Future = type("Future", (_Future,), bound)
        self.ThreadPoolExecutor = type("ThreadPoolExecutor", (_Executor,), bound | {"future": self.Future})
        self.threading = SimpleNamespace(
            Thread=type("Thread", (_Thread,), bound),
            Event=type("Event", (_Event,), bound),
            Lock=type("Lock", (_Lock,), bound),
        )
        self.queue = SimpleNamespace(SimpleQueue=type("SimpleQueue", (_Queue,), bound), Empty=queue.Empty)
        self.os = SimpleNamespace(_exit=self._exit)

    def _sleep(self, seconds: float) -> None:
        if self.sim.is_simulated():
            self.sim.wait(seconds)
        else:
            # A watchdog of a delivery that a test before made never ends.
            time.sleep(seconds)

    def _exit(self, code: int) -> None:
        self.sim.current.process.end(code)
        self.sim.wait()

    def run_loop(self, main: Callable[[], Any]) -> Any:
        """Run a coroutine in an event loop of the current thread, and return its result."""
        loop = Loop(self)
        try:
            return loop.run_until_complete(main())
        finally:
            # A process that was killed begins none of them any more; Python would warn in a later test.
            for coroutine in [task.get_coro() for task in asyncio.all_tasks(loop)]:
                if inspect.getcoroutinestate(coroutine) == inspect.CORO_CREATED:
                    coroutine.close()


class _Thread:
    sim: Scheduler

    def __init__(self, target: Callable[..., object], args: tuple[Any, ...] = (), **_: Any) -> None:
        self._target = lambda: target(*args)
        self._thread: Thread | None = None
        self._joining: list[Thread] = []

    def start(self) -> None:
        def run() -> None:
            self._target()
            self.sim.wake_all(self._joining)

        self._thread = self.sim.spawn(self.sim.current.process, run)

    def is_alive(self) -> bool:
        return self._thread is not None and not self._thread.over

    def join(self, timeout: float | None = None) -> None:
        self.sim.wait_for(lambda: not self.is_alive(), self._joining, timeout)


class _Event:
    sim: Scheduler

    def __init__(self) -> None:
        self._set = False
        self._waiting: list[Thread] = []

    def is_set(self) -> bool:
        return self._set

    def set(self) -> None:
        self._set = True
        self.sim.wake_all(self._waiting)

    def clear(self) -> None:
        self._set = False

    def wait(self, timeout: float | None = None) -> bool:
        return self.sim.wait_for(lambda: self._set, self._waiting, timeout)


class _Lock:
    sim: Scheduler

    def __init__(self) -> None:
        self._held = False
        self._waiting: list[Thread] = []

    def __enter__(self) -> None:
        self.sim.wait_for(lambda: not self._held, self._waiting)
        self._held = True

    def __exit__(self, *_: object) -> None:
        self._held = False
        self.sim.wake_all(self._waiting)


class _Queue:
    sim: Scheduler

    def __init__(self) -> None:
        self._items: deque[Any] = deque()
        self._waiting: list[Thread] = []

    def put(self, item: Any) -> None:
        self._items.append(item)
        self.sim.wake_all(self._waiting)

    def get(self, timeout: float | None = None) -> Any:
        self.sim.wait_for(self._items.__len__, self._waiting, timeout)  # type: ignore[arg-type]
        return self.get_nowait()

    def get_nowait(self) -> Any:
        if not self._items:
            raise queue.Empty
        return self._items.popleft()

    def empty(self) -> bool:
        return not self._items


class _Future(concurrent.futures.Future):  # type: ignore[type-arg]
    sim: Scheduler

    def result(self, timeout: float | None = None) -> Any:
        waiting: list[Thread] = []
        self.add_done_callback(lambda _: self.sim.wake_all(waiting))
        if not self.sim.wait_for(self.done, waiting, timeout):
            raise TimeoutError
        return super().result(0)


class _Executor:
    """Runs one job after the other, each in a thread of its own."""

    sim: Scheduler
    future: type[_Future]

    def __init__(self, *_: Any) -> None:
        self._last: _Future | None = None

    def submit(self, call: Callable[[], Any]) -> _Future:
        before, future = self._last, self.future()

        def run() -> None:
            if before is not None:
                with suppress(Exception):
                    before.result()
            carry_out(future, call)

        self._last = future
        self.sim.spawn(self.sim.current.process, run)
        return future

    def shutdown(self, **_: Any) -> None:
        """Nothing waits here."""


def carry_out(future: "concurrent.futures.Future[Any]", call: Callable[[], Any]) -> None:
    """Make a call and keep its result or error in a future."""
    try:
        result = call()
    except Exception as error:
        future.set_exception(error)
    else:
        future.set_result(result)


class Loop(asyncio.BaseEventLoop):
    """An event loop of a simulated thread; signals are sent by calling what is kept in `handlers`."""

    def __init__(self, standins: StandIns) -> None:
        super().__init__()
        self._selector = self
        self._standins = standins
        self._waiting: list[Thread] = []
        self._woken = False
        self.handlers: dict[int, Callable[[], object]] = {}
        self.set_exception_handler(lambda *_: None)

    def __del__(self) -> None:
        """Nothing is open; the stock method closes the loop while coroutines of a killed process still use it."""

    def select(self, timeout: float | None) -> list[object]:
        sim = self._standins.sim
        if timeout == 0 and not sim.current.process.dead:
            return []
        sim.wait_for(lambda: self._woken, self._waiting, timeout)
        self._woken = False
        return []

    def _process_events(self, events: list[object]) -> None:
        """There are none but timers and wake-ups."""

    def _write_to_self(self) -> None:
        self._woken = True
        self._standins.sim.wake_all(self._waiting)

    def time(self) -> float:
        return self._standins.sim.now

    def run_in_executor(self, executor: object, call: Callable[..., Any], *args: Any) -> Any:
        future = self._standins.Future()
        sim = self._standins.sim
        sim.spawn(sim.current.process, lambda: carry_out(future, lambda: call(*args)))
        return asyncio.wrap_future(future, loop=self)

    def add_signal_handler(self, number: int, call: Callable[..., object], *args: Any) -> None:
        self.handlers[number] = lambda: call(*args)
