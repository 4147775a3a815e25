"""Jobs on partitions, run in separate processes; jobs and results are sent as JSON."""

import importlib
import multiprocessing
import signal
import time
import traceback
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import asdict
from multiprocessing.connection import Connection, wait
from typing import Any, Final, cast

import orjson
from pydantic import SecretStr
from resonance.pipeline import errors
from resonance.pipeline.checkpoint.deployment_context import DeploymentContext
from resonance.pipeline.config.settings import Settings
from resonance.pipeline.errors import MismatchError, ResonanceError
from resonance.pipeline.kafka import clients
from resonance.pipeline.kafka.topology import Deployment
from resonance.pipeline.machine import collect_rarely
from resonance.pipeline.replay.feeder import Feeder, frames_of

Report = Callable[[int], None]
"""Receives the number of records done since its last call."""

REPORT_SECONDS: Final = 0.1
"""Shortest time between two progress messages."""

WITH_FRAMES: Final = frozenset({"lanes", "bootstrap_file"})
"""Kinds of jobs that receive their records as frames."""

WORK: Final[Mapping[str, str]] = {
    "replay": "resonance.pipeline.replay.run",
    "lanes": "resonance.pipeline.replay.file_partitions",
    "verify": "resonance.pipeline.verify.partition_verify",
    "bootstrap": "resonance.pipeline.replay.bootstrap",
    "bootstrap_file": "resonance.pipeline.replay.bootstrap_file",
}
"""Kind of job -> module whose ``work(job, report)`` does it; those of `WITH_FRAMES` take the frames, too."""


def as_json(settings: Settings) -> Any:
    """Return settings as JSON with secrets revealed, only for this process and those that it starts."""

    def revealed(value: Any) -> Any:
        if isinstance(value, SecretStr):
            return value.get_secret_value()
        raise TypeError(f"{type(value).__name__} has no form in JSON")

    return orjson.loads(orjson.dumps(settings.model_dump(), default=revealed))


def describe(settings: Settings, deployment: Deployment) -> dict[str, Any]:
    """Return the entries that every job about a deployment has; `described` reads them."""
    return {"settings": as_json(settings), "deployment": asdict(deployment)}


def described(job: Mapping[str, Any]) -> tuple[Settings, DeploymentContext]:
    """Return the settings of a job, and the deployment as the settings and the broker describe it."""
    settings = Settings.of(job["settings"])
    source = DeploymentContext.of(settings, clients.librdkafka(settings), Deployment(**job["deployment"]))
    return settings, source


def run_jobs(
    kind: str, jobs: Sequence[Mapping[str, Any]], processes: int, report: Report = lambda _: None
) -> tuple[list[dict[str, Any]], float]:
    """Run jobs in parallel.

    Parameters
    ----------
    kind : str
        A key of `WORK`.
    jobs : sequence of mapping
        JSON; the ``work`` function of the kind says what each needs.
    processes : int
        How many jobs run at once; with one process or one job, they run in this process.
    report : callable
        Receives the number of records done since its last call, by all jobs together.

    Returns
    -------
    results : list of dict
        In the order of the jobs.
    seconds : float
        Longest working time of a process, without its start.

    Raises
    ------
    ResonanceError
        The error of the first job that fails; the other jobs are ended.
    """
    if min(processes, len(jobs)) <= 1:
        work = _work_of(kind)
        began = time.perf_counter()
        results = [work(job, report) for job in jobs]
        return results, time.perf_counter() - began
    with _Pool(min(processes, len(jobs))) as pool:
        return pool.run(kind, jobs, report)


def run_with_frames(
    kind: str, jobs: Sequence[Mapping[str, Any]], frames: Iterable[tuple[int, bytes]], report: Report = lambda _: None
) -> tuple[list[dict[str, Any]], float]:
    """Run jobs at the same time, each in its own process, and send each its `frames`; returns as `run_jobs` does.

    `frames` yields pairs of job number and non-empty bytes; its errors are raised here, too.
    """
    with _Pool(len(jobs)) as pool, Feeder(frames, pool.senders) as feeder:
        try:
            return pool.run(kind, jobs, report, feeder)
        except BaseException:
            pool.end()
            raise


class _Pool:
    """Processes that run one job after the other.

    They are spawned, because the state of the client libraries and the kernels would not survive a fork.
    """

    def __init__(self, size: int) -> None:
        context = multiprocessing.get_context("spawn")
        self._processes = []
        self.pipes: list[Connection] = []
        self.senders: list[Connection] = []
        for _ in range(size):
            ours, theirs = context.Pipe()
            receiving, sending = context.Pipe(duplex=False)
            process = context.Process(target=_serve, args=(theirs, receiving), daemon=True)
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
        self, kind: str, jobs: Sequence[Mapping[str, Any]], report: Report, feeder: Feeder | None = None
    ) -> tuple[list[dict[str, Any]], float]:
        waiting = list(enumerate(jobs))[::-1]
        doing: dict[Connection, int] = {}
        results: list[dict[str, Any]] = [{} for _ in jobs]
        busy = dict.fromkeys(self.pipes, 0.0)

        def give(pipe: Connection) -> None:
            if waiting:
                number, job = waiting.pop()
                doing[pipe] = number
                pipe.send_bytes(orjson.dumps([kind, job]))

        for pipe in self.pipes:
            give(pipe)
        if feeder is not None:
            feeder.start()
        while doing:
            if feeder is not None and feeder.error is not None:
                raise feeder.error
            for ready in cast(list[Connection], wait(list(doing), REPORT_SECONDS)):
                try:
                    message = orjson.loads(ready.recv_bytes())
                except (EOFError, ConnectionResetError):
                    raise errors.DeliveryError(
                        "one of the processes ended without a word; was it killed, for want of memory "
                        "perhaps? Try fewer at once (--processes)"
                    ) from None
                if "records" in message:
                    report(message["records"])
                    continue
                if "error" in message:
                    raise _error(message)
                results[doing.pop(ready)] = message["result"]
                busy[ready] += message["seconds"]
                give(ready)
        return results, max(busy.values())


def _serve(pipe: Connection, receiving: Connection) -> None:
    """Run jobs until the pipe closes: the main function of a process of the pool. Frames come from `receiving`."""
    # Ctrl-C reaches the whole process group; the parent process ends this one.
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    collect_rarely()
    while True:
        try:
            kind, job = orjson.loads(pipe.recv_bytes())
        except (EOFError, OSError):
            return
        teller = _ProgressReporter(pipe)
        try:
            work = _work_of(kind)
            load_kernels(Settings.of(job["settings"]))
            # Only these kinds take frames.
            frames = (frames_of(receiving),) if kind in WITH_FRAMES else ()
            began = time.perf_counter()
            result = work(job, teller.report, *frames)
            seconds = time.perf_counter() - began
            teller.flush()
            pipe.send_bytes(orjson.dumps({"result": result, "seconds": seconds}))
        except (EOFError, BrokenPipeError, ConnectionResetError):
            return
        except ResonanceError as error:
            report = {"error": type(error).__name__, "text": str(error), "remedies": getattr(error, "remedies", ())}
            _give_up(pipe, report)
            return
        except Exception:  # reported to the parent process, with its traceback
            _give_up(pipe, {"error": "", "text": traceback.format_exc()})
            return


def _give_up(pipe: Connection, report: Mapping[str, Any]) -> None:
    """Report an error to the parent process and wait until it closes the pipe."""
    with suppress(EOFError, OSError):
        pipe.send_bytes(orjson.dumps(report))
        while True:
            pipe.recv_bytes()


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
            self._pipe.send_bytes(orjson.dumps({"records": self._waiting}))
            self._waiting = 0


def load_kernels(settings: Settings) -> None:
    """Load or compile the kernels of the engine once, before several processes need them."""
    settings.compile_engine()


def _work_of(kind: str) -> Callable[..., dict[str, Any]]:
    module = importlib.import_module(WORK[kind])
    work: Callable[..., dict[str, Any]] = module.work
    return work


def _error(message: Mapping[str, Any]) -> Exception:
    """Return the error that a process reported."""
    kind = getattr(errors, message["error"], None)
    if kind is MismatchError:
        return MismatchError(message["text"], message["remedies"])
    if isinstance(kind, type) and issubclass(kind, ResonanceError):
        return kind(message["text"])
    return RuntimeError(message["text"])
