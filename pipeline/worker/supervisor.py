"""Several workers on one machine, each a process: started, started again where one ends, and stopped together."""

import asyncio
import logging
import multiprocessing
import os
import signal
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from multiprocessing import resource_tracker
from multiprocessing.connection import wait
from multiprocessing.context import SpawnProcess
from typing import Any, Final

from resonance.pipeline import logs
from resonance.pipeline.config.settings import Settings
from resonance.pipeline.errors import ConfigurationError, DeliveryError
from resonance.pipeline.machine import cores
from resonance.pipeline.memory_budget import automatic
from resonance.pipeline.worker.http.all_workers import AllWorkers
from resonance.pipeline.worker.http.pages import Pages, address, check_exposure
from resonance.pipeline.worker.shutdown import STOP_SECONDS, explain_end

LOOK_SECONDS: Final = 0.2
STOP_MARGIN: Final = 5.0
"""Seconds beyond the time that a worker may take to stop, after which it is killed."""
FIRST_PAUSE: Final = 1.0
"""Seconds before a worker is started again; each end soon after the last one doubles them, up to `LONGEST_PAUSE`."""
LONGEST_PAUSE: Final = 30.0
WELL_SECONDS: Final = 60.0
"""Age from which on a worker's end is no longer soon after the last one."""
CANNOT_WORK: Final = (2, 65)
"""Exit codes that another start cannot change: of settings, and of a startup mismatch."""
HIGHEST_PORT: Final = 65_535
BEGINS: Final = ("starting", "compiling kernels", "recovering")
"""States of a worker that has not joined the group."""

_log = logging.getLogger(__name__)


def run(settings: Settings, recovery: str = "") -> int:
    """Run ``worker.processes`` workers until they are stopped, or cannot work, and return the process's exit code.

    The first one starts alone, with the `recovery`, if any: what it refuses is then said once.
    """
    logs.configure(settings.worker.log_level, settings.worker.log_format)
    try:
        code = asyncio.new_event_loop().run_until_complete(Supervisor(settings, recovery).run())
    except Exception as error:
        return explain_end(error)
    if code == 0:
        _log.info("all workers have ended")
    return code


class Supervisor:
    """Starts workers, and has one page for all of them."""

    def __init__(self, settings: Settings, recovery: str = "") -> None:
        worker = settings.worker
        self._settings = settings
        count = cores() if worker.processes == "auto" else worker.processes
        if worker.web_port + count > HIGHEST_PORT:
            raise ConfigurationError(
                f"worker.web_port = {worker.web_port}: must be at most {HIGHEST_PORT - count}, for each of {count} "
                "workers has a port above it"
            )
        if settings.limits.memory == "auto":
            limits = settings.limits.model_copy(update={"memory": automatic(count)})
            settings = settings.model_copy(update={"limits": limits})
        self._workers = [_Worker(settings, number) for number in range(1, count + 1)]
        self._workers[0].recovery = recovery
        token = worker.web_token.get_secret_value() if worker.web_token else ""
        self._pages = AllWorkers({each.label: each.address for each in self._workers}, token)
        self._stop_requested = asyncio.Event()

    async def run(self) -> int:
        """Run to the end, and return the exit code of the worker that made it the end, or of the worst stop."""
        loop, worker = asyncio.get_running_loop(), self._settings.worker
        for number in (signal.SIGTERM, signal.SIGINT):
            loop.add_signal_handler(number, self._stop_requested.set)
        check_exposure(worker)
        pages = Pages(self._pages, worker.web_token)
        await pages.start(worker.web_host, worker.web_port)
        own, first, last = address(worker.web_host, worker.web_port), self._workers[0], self._workers[-1]
        _log.info("%s is the page of %d workers, %s to %s", own, len(self._workers), first.address, last.address)
        try:
            return await self._watch()
        except Exception:
            # The others have done nothing wrong: they commit what they have.
            await self._stop()
            raise
        finally:
            for each in self._workers:
                each.kill()
            await pages.stop()

    async def _watch(self) -> int:
        """Keep workers running until a stop, or until one cannot work."""
        all_wanted = False
        while not self._stop_requested.is_set():
            for each in self._workers if all_wanted else self._workers[:1]:
                code = each.exit_code
                if code is not None and (code in CANNOT_WORK or not all_wanted):
                    if code < 0:
                        _log.error("all workers end: signal %d ended worker %s before it worked", -code, each.label)
                    else:
                        _log.error("all workers end: the last line of worker %s, code %d, says why", each.label, code)
                    return await self._stop() or code_of(code)
                self._pages.absent[each.label] = each.keep_running(code)
            self._pages.running = {each.label: each.started for each in self._workers if each.is_alive}
            if not all_wanted:
                self._pages.absent |= dict.fromkeys(
                    [each.label for each in self._workers[1:]], "it waits for the first"
                )
                all_wanted = await self._first_has_joined()
            with suppress(TimeoutError):
                await asyncio.wait_for(self._stop_requested.wait(), LOOK_SECONDS)
        _log.info("stopping all workers")
        return await self._stop()

    async def _first_has_joined(self) -> bool:
        _, shown = await self._pages.ready()
        first = shown["workers"].get(self._workers[0].label)
        return first is not None and first["state"] not in BEGINS

    async def _stop(self) -> int:
        """Stop all workers at once, so that the group gives away their partitions at once; return the worst code."""
        end = time.monotonic() + STOP_SECONDS + STOP_MARGIN
        for each in self._workers:
            each.terminate()
        while any(each.is_alive for each in self._workers) and time.monotonic() < end:
            await asyncio.sleep(LOOK_SECONDS / 4)
        late = any(each.is_alive for each in self._workers)
        return DeliveryError.exit_code if late else max(code_of(each.exit_code or 0) for each in self._workers)


def code_of(ended: int) -> int:
    """Return the exit code for what Python has of a process: signals as shells have them."""
    # SIGTERM is the request to stop, and ends a worker that has not begun.
    return ended if ended >= 0 else 0 if ended == -signal.SIGTERM else 128 - ended


class _Worker:
    """One worker: its process, and when it starts again."""

    def __init__(self, settings: Settings, number: int) -> None:
        worker = settings.worker
        port = worker.web_port + number
        own: dict[str, Any] = {"web_port": port, "processes": 1}
        if worker.id:
            own["id"] = f"{worker.id}-{number}"
        self.label = str(number)
        self.address = address(worker.web_host, port)
        self.recovery = ""
        self._settings = settings.model_copy(update={"worker": worker.model_copy(update=own)})
        self._process: SpawnProcess | None = None
        self.started = self._next_start = 0.0
        self._pause = FIRST_PAUSE

    @property
    def is_alive(self) -> bool:
        return self._process is not None and self._process.is_alive()

    @property
    def exit_code(self) -> int | None:
        """The code it ended with; None while it runs, or where it has not ended since it was looked at."""
        return None if self._process is None else self._process.exitcode

    def keep_running(self, ended: int | None) -> str:
        """Start it, again after a pause where it has `ended`; return what the pages say while it does not answer."""
        now = time.monotonic()
        if ended is not None:
            self._process = None
            if now - self.started > WELL_SECONDS:
                self._pause = FIRST_PAUSE
            _log.warning("worker %s ended with exit code %d; %s", self.label, ended, self._later(now))
        if self._process is None and now >= self._next_start:
            try:
                self._start(now)
            except OSError as error:
                # The others work on, and the machine may have room for it later.
                _log.warning("worker %s cannot start (%s); %s", self.label, error, self._later(now))
        if self._process is None:
            return f"it has no process, and starts in {self._next_start - now:.0f} s"
        return f"it does not answer, {now - self.started:.0f} s after its start"

    def _later(self, now: float) -> str:
        pause, self._pause = self._pause, min(2 * self._pause, LONGEST_PAUSE)
        self._next_start = now + pause
        return f"it starts again in {pause:g} s"

    def _start(self, now: float) -> None:
        process = multiprocessing.get_context("spawn").Process(
            target=_work, args=(self._settings, self.recovery, self.label)
        )
        with _ctrl_c_blocked():
            process.start()
        # Only once.
        self.recovery = ""
        self._process, self.started = process, now

    def terminate(self) -> None:
        if self._process is not None:
            self._process.terminate()

    def kill(self) -> None:
        """End it, where it has not ended."""
        if self._process is not None and self._process.is_alive():
            _log.error("worker %s did not stop in time, and is killed", self.label)
            self._process.kill()
            self._process.join()


@contextmanager
def _ctrl_c_blocked() -> Iterator[None]:
    """Let a process that starts inside hold Ctrl-C back until it is a worker: its imports would end in a traceback.

    In this process another thread takes it.
    """
    # Its own start would let Ctrl-C through.
    resource_tracker.ensure_running()
    before = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT})
    try:
        yield
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)


def _work(settings: Settings, recovery: str, label: str) -> None:
    """Run a worker in this process, as long as the one that started it is there."""
    # The one that started it has Ctrl-C as well, and passes it on as a request to stop.
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    signal.pthread_sigmask(signal.SIG_UNBLOCK, {signal.SIGINT})
    from resonance.pipeline.worker.worker import run as run_worker  # noqa: PLC0415 - the supervisor needs none of it

    threading.Thread(target=_end_with_parent, daemon=True).start()
    code = run_worker(settings, recovery, label)
    logging.shutdown()
    # Threads of the Kafka clients have nothing left to do.
    os._exit(code)


def _end_with_parent() -> None:
    parent = multiprocessing.parent_process()
    if parent is not None:
        wait([parent.sentinel])
        os.kill(os.getpid(), signal.SIGTERM)
        # What started this process would have ended it now; without that, a worker that hangs would keep its port.
        time.sleep(STOP_SECONDS + STOP_MARGIN)
        os.kill(os.getpid(), signal.SIGKILL)
