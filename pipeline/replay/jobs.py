"""Runs jobs on partitions in separate processes.

A job is a function of a module, or a ``functools.partial`` of one. Jobs and results go as objects through pipes that
connect nothing but this program and the processes that it starts.
"""

import multiprocessing
import signal
import time
import traceback
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import suppress
from multiprocessing.connection import Connection, wait
from typing import Any, Final, NamedTuple, TypeVar, cast

from resonance.pipeline.config.settings import Settings
from resonance.pipeline.errors import DeliveryError, ResonanceError, named
from resonance.pipeline.machine import collect_rarely
from resonance.pipeline.replay.feeder import Feeder, frames_of

Report = Callable[[int], None]
"""Receives the number of records done since its last call."""

REPORT_SECONDS: Final = 0.1
"""Shortest time between two progress messages."""

Result = TypeVar("Result")


class _Finished(NamedTuple):
    """A job is done."""

    result: Any
    seconds: float


def run_jobs(
    settings: Settings, jobs: Sequence[Callable[[Report], Result]], processes: int, report: Report = lambda _: None
) -> tuple[list[Result], float]:
    """Run jobs in parallel; with one process or one job, they run in this process.

    Returns their results in order, and the longest working time of a process in seconds, without its start. Raises the
    error of the first job that fails; the other jobs are ended.
    """
    # Once, before several processes need the kernels.
    settings.compile_engine()
    if min(processes, len(jobs)) <= 1:
        began = time.perf_counter()
        return [job(report) for job in jobs], time.perf_counter() - began
    with _Pool(min(processes, len(jobs)), settings) as pool:
        return pool.run(jobs, report)


def run_with_frames(
    settings: Settings,
    jobs: Sequence[Callable[[Iterator[bytes], Report], Result]],
    frames: Iterable[tuple[int, bytes]],
    report: Report = lambda _: None,
) -> tuple[list[Result], float]:
    """Run jobs at the same time, each in its own process, and send each its `frames`; returns as `run_jobs` does.

    `frames` yields pairs of job number and non-empty bytes; its errors are raised here, too.
    """
    # Once; this process needs none of them, so that those which are kept need not be loaded.
    settings.compile_engine(unless_kept=True)
    with _Pool(len(jobs), settings, frames=True) as pool, Feeder(frames, pool.senders) as feeder:
        try:
            return pool.run(jobs, report, feeder)
        except BaseException:
            pool.end()
            raise


class _Pool:
    """Processes that run one job after the other.

    They are spawned, because the state of the client libraries and the kernels would not survive a fork.
    """

    def __init__(self, size: int, settings: Settings, *, frames: bool = False) -> None:
        context = multiprocessing.get_context("spawn")
        self._processes = []
        self.pipes: list[Connection] = []
        self.senders: list[Connection] = []
        for _ in range(size):
            ours, theirs = context.Pipe()
            receiving, sending = context.Pipe(duplex=False)
            arguments = theirs, settings, receiving if frames else None
            process = context.Process(target=_serve, args=arguments, daemon=True)
            process.start()
            theirs.close()
            receiving.close()
            self._processes.append(process)
            self.pipes.append(ours)
            self.senders.append(sending)

    def __enter__(self) -> "_Pool":
        return self

    def __exit__(self, kind: type[BaseException] | None, *_: object) -> None:
        if kind is not None:
            self.end()
        for pipe in (*self.pipes, *self.senders):
            pipe.close()
        for process in self._processes:
            process.join(2.0)
            if process.is_alive():
                process.terminate()
                process.join()

    def end(self) -> None:
        """Terminate all processes at once, so that no send to one of them can still be in progress."""
        for process in self._processes:
            process.terminate()
        for process in self._processes:
            process.join()

    def run(
        self, jobs: Sequence[Callable[..., Any]], report: Report, feeder: Feeder | None = None
    ) -> tuple[list[Any], float]:
        waiting = list(enumerate(jobs))[::-1]
        doing: dict[Connection, int] = {}
        results: list[Any] = [None] * len(jobs)
        busy = dict.fromkeys(self.pipes, 0.0)

        def give(pipe: Connection) -> None:
            if waiting:
                doing[pipe], job = waiting.pop()
                pipe.send(job)

        for pipe in self.pipes:
            give(pipe)
        if feeder is not None:
            feeder.start()
        while doing:
            if feeder is not None and feeder.error is not None:
                raise feeder.error
            for ready in cast(list[Connection], wait(list(doing), REPORT_SECONDS)):
                try:
                    message = ready.recv()
                except (EOFError, ConnectionResetError):
                    raise DeliveryError(
                        "one of the processes ended without a word; was it killed, for want of memory "
                        "perhaps? Try fewer at once (--processes)"
                    ) from None
                if isinstance(message, Exception):
                    raise message
                if isinstance(message, _Finished):
                    results[doing.pop(ready)] = message.result
                    busy[ready] += message.seconds
                    give(ready)
                else:
                    report(message)
        return results, max(busy.values())


def _serve(pipe: Connection, settings: Settings, receiving: Connection | None) -> None:
    """Run jobs until the pipe closes: the main function of a process of the pool. Frames come from `receiving`."""
    # Ctrl-C reaches the whole process group; the parent process ends this one.
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    collect_rarely()
    error: Exception
    try:
        while True:
            job = pipe.recv()
            progress = _ProgressReporter(pipe)
            settings.compile_engine()
            began = time.perf_counter()
            result = job(progress.report) if receiving is None else job(frames_of(receiving), progress.report)
            seconds = time.perf_counter() - began
            progress.flush()
            pipe.send(_Finished(result, seconds))
    except (EOFError, BrokenPipeError, ConnectionResetError):
        return
    except Exception as raised:  # reported to the parent process, with its traceback where no user can act on it
        shown = raised if isinstance(raised, ResonanceError) else named(raised)
        error = shown or RuntimeError(traceback.format_exc())
    with suppress(EOFError, OSError):
        pipe.send(error)
        # The parent process closes the pipe.
        pipe.recv()


class _ProgressReporter:
    """Reports progress at most every `REPORT_SECONDS`."""

    def __init__(self, pipe: Connection) -> None:
        self._pipe = pipe
        self._waiting = 0
        self._last = time.monotonic()

    def report(self, records: int) -> None:
        self._waiting += records
        now = time.monotonic()
        if now - self._last >= REPORT_SECONDS:
            self._last = now
            self.flush()

    def flush(self) -> None:
        if self._waiting:
            self._pipe.send(self._waiting)
            self._waiting = 0
