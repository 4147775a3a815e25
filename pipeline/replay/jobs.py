"""Runs jobs on partitions in separate processes.

A job is a function of a module, or a ``functools.partial`` of one. The processes are spawned, because the state of the
client libraries and the kernels would not survive a fork.
"""

import contextlib
import multiprocessing
import os
import queue
import signal
import threading
import time
import traceback
from collections import Counter
from collections.abc import Callable, Sequence
from concurrent.futures import FIRST_EXCEPTION, ProcessPoolExecutor, wait
from concurrent.futures.process import BrokenProcessPool
from multiprocessing.connection import Connection
from typing import Any, Final, TypeVar

from resonance.pipeline.config.settings import Settings
from resonance.pipeline.errors import DeliveryError, ResonanceError, named
from resonance.pipeline.kernels import compile_engine
from resonance.pipeline.machine import collect_rarely

Report = Callable[[int], None]
"""Receives the number of records done since its last call."""

REPORT_SECONDS: Final = 0.1
"""Shortest time between two progress messages."""

Result = TypeVar("Result")


def run_jobs(
    settings: Settings, jobs: Sequence[Callable[[Report], Result]], processes: int, report: Report = lambda _: None
) -> tuple[list[Result], float]:
    """Run jobs in parallel; with one process or one job, they run in this process.

    Returns their results in order, and the longest working time of a process in seconds, without its start. Raises the
    error of the first job that fails. With it, with Ctrl-C and with the end of this process the other jobs end at once.
    """
    size = min(processes, len(jobs))
    # Once, before several processes need the kernels; those which are kept need not be loaded here then.
    compile_engine(settings, unless_kept=size > 1)
    if size <= 1:
        began = time.perf_counter()
        return [job(report) for job in jobs], time.perf_counter() - began
    context = multiprocessing.get_context("spawn")
    done = context.Queue()
    # The system closes this end of the pipe where this process is killed.
    caller, wanted = context.Pipe(duplex=False)
    pool = ProcessPoolExecutor(size, context, _begin, (done, caller))
    try:
        futures = [pool.submit(_run, settings, job) for job in jobs]
        # Python's pool looks for the end of those processes alone that it had when something was last submitted.
        pool.submit(int)
        waiting: set[Any] = set(futures)
        while waiting and not any(future.exception() for future in set(futures) - waiting):
            _, waiting = wait(waiting, REPORT_SECONDS, FIRST_EXCEPTION)
            _drain(done, report)
        found = [future.result() for future in sorted(futures, key=lambda future: future in waiting)]
    except BaseException as error:
        wanted.close()
        if isinstance(error, BrokenProcessPool):
            raise DeliveryError(
                "one of the processes ended without a word; was it killed, for want of memory perhaps? Try fewer at "
                "once (--processes)"
            ) from None
        raise
    finally:
        pool.shutdown(cancel_futures=True)
    # A process sends what it reported before it ends.
    _drain(done, report)
    busy: Counter[int] = Counter()
    for process, seconds, _ in found:
        busy[process] += seconds  # type: ignore[assignment]
    return [result for _, _, result in found], max(busy.values())


def _drain(done: Any, report: Report) -> None:
    with contextlib.suppress(queue.Empty):
        while True:
            report(done.get_nowait())


class _Progress:
    """Reports the progress of the jobs of a process, at most every `REPORT_SECONDS`."""

    def __init__(self, done: Any) -> None:
        self._done = done
        self._waiting = 0
        self._last = time.monotonic()

    def report(self, records: int) -> None:
        self._waiting += records
        now = time.monotonic()
        if now - self._last >= REPORT_SECONDS:
            self._last = now
            self.flush()

    def flush(self) -> None:
        self._done.put(self._waiting)
        self._waiting = 0


_progress: _Progress


def _begin(done: Any, caller: Connection) -> None:
    global _progress  # noqa: PLW0603 - the processes of a pool keep what they begin with in their module
    # Ctrl-C reaches the whole process group; the parent process ends this one.
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    threading.Thread(target=_end_with, args=(caller,), daemon=True).start()
    collect_rarely()
    _progress = _Progress(done)


def _end_with(caller: Connection) -> None:
    caller.poll(None)
    os._exit(1)


def _run(settings: Settings, job: Callable[[Report], Result]) -> tuple[int, float, Result]:
    """Run a job in a process of the pool; return the process, its seconds, and the result."""
    try:
        compile_engine(settings)
        began = time.perf_counter()
        result = job(_progress.report)
        _progress.flush()
    except Exception as raised:
        shown = raised if isinstance(raised, ResonanceError) else named(raised)
        # With its traceback where no user can act on it.
        raise shown or RuntimeError(traceback.format_exc()) from None
    return os.getpid(), time.perf_counter() - began, result
