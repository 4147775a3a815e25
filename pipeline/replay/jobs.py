"""Work on one partition each, in processes of its own: what is sent to them and what comes back is JSON."""

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

Tell = Callable[[int], None]
"""Told how many more records are done."""

TELL_SECONDS: Final = 0.1
"""Shortest time between two messages about progress."""

FED: Final = frozenset({"lanes", "bootstrap_file"})
"""Kinds of jobs that are sent what they work on."""

WORK: Final[Mapping[str, str]] = {
    "replay": "resonance.pipeline.replay.run",
    "lanes": "resonance.pipeline.replay.file_partitions",
    "verify": "resonance.pipeline.verify.partition_verify",
    "bootstrap": "resonance.pipeline.replay.bootstrap",
    "bootstrap_file": "resonance.pipeline.replay.bootstrap_file",
}
"""Module whose function ``work(job, tell)`` does a job of a kind, or ``work(job, tell, frames)`` for those of `FED`."""


def as_json(settings: Settings) -> Any:
    """Return settings as JSON has them, secrets revealed: for a process of our own and for nobody else."""

    def revealed(value: Any) -> Any:
        if isinstance(value, SecretStr):
            return value.get_secret_value()
        raise TypeError(f"{type(value).__name__} has no form in JSON")

    return orjson.loads(orjson.dumps(settings.model_dump(), default=revealed))


def describe(settings: Settings, deployment: Deployment) -> dict[str, Any]:
    """Return what every job about a deployment has; `described` reads it."""
    return {"settings": as_json(settings), "deployment": asdict(deployment)}


def described(job: Mapping[str, Any]) -> tuple[Settings, DeploymentContext]:
    """Return the settings of a job, and the deployment as they and the broker describe it."""
    settings = Settings.of(job["settings"])
    source = DeploymentContext.of(settings, clients.librdkafka(settings), Deployment(**job["deployment"]))
    return settings, source


def run_jobs(
    kind: str, jobs: Sequence[Mapping[str, Any]], processes: int, told: Tell = lambda _: None
) -> tuple[list[dict[str, Any]], float]:
    """Do jobs in parallel.

    Parameters
    ----------
    kind : str
        What is to be done (`WORK`).
    jobs : sequence of mapping
        What each needs; JSON.
    processes : int
        How many at once. One job at a time is done in this process.
    told : callable
        Told how many more records are done, all jobs together.

    Returns
    -------
    results : list of dict
        In the order of the jobs.
    seconds : float
        The longest that a process was at work, without its start.

    Raises
    ------
    ResonanceError
        What the first failed job raised; the others are ended.
    """
    if min(processes, len(jobs)) <= 1:
        work = _work_of(kind)
        began = time.perf_counter()
        results = [work(job, told) for job in jobs]
        return results, time.perf_counter() - began
    with _Pool(min(processes, len(jobs))) as pool:
        return pool.run(kind, jobs, told)


def run_fed(
    kind: str, jobs: Sequence[Mapping[str, Any]], frames: Iterable[tuple[int, bytes]], told: Tell = lambda _: None
) -> tuple[list[dict[str, Any]], float]:
    """Do jobs at the same time, each in a process that is sent what it works on.

    Parameters
    ----------
    kind : str
        What is to be done (`WORK`).
    jobs : sequence of mapping
        What each needs; JSON.
    frames : iterable of (int, bytes)
        Number of a job, and the next bytes for it, which are not empty.
    told : callable
        As in `run_jobs`.

    Returns
    -------
    results : list of dict
        In the order of the jobs.
    seconds : float
        The longest that a process was at work, without its start.

    Raises
    ------
    ResonanceError
        What the first failed job raised, or what came in the place of frames.
    """
    with _Pool(len(jobs)) as pool, Feeder(frames, pool.feeds) as feeder:
        try:
            return pool.run(kind, jobs, told, feeder)
        except BaseException:
            pool.end()
            raise


class _Pool:
    """Processes that do one job after the other.

    They are spawned: what the client libraries and the kernels hold in this process would not survive a fork.
    """

    def __init__(self, size: int) -> None:
        context = multiprocessing.get_context("spawn")
        self._processes = []
        self.pipes: list[Connection] = []
        self.feeds: list[Connection] = []
        for _ in range(size):
            ours, theirs = context.Pipe()
            fed, feed = context.Pipe(duplex=False)
            process = context.Process(target=_serve, args=(theirs, fed), daemon=True)
            process.start()
            theirs.close()
            fed.close()
            self._processes.append(process)
            self.pipes.append(ours)
            self.feeds.append(feed)

    def __enter__(self) -> "_Pool":
        return self

    def __exit__(self, kind: type[BaseException] | None, *_: object) -> None:
        if kind is not None:
            self.end()
        for pipe in (*self.pipes, *self.feeds):
            pipe.close()
        for process in self._processes:
            process.join(2.0)
            if process.is_alive():
                process.terminate()
                process.join()

    def end(self) -> None:
        """End the processes whatever they do, all at once; nobody can be in the middle of a sending to them then."""
        for process in self._processes:
            process.terminate()
        for process in self._processes:
            process.join()

    def run(
        self, kind: str, jobs: Sequence[Mapping[str, Any]], told: Tell, feeder: Feeder | None = None
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
            for ready in cast(list[Connection], wait(list(doing), TELL_SECONDS)):
                try:
                    message = orjson.loads(ready.recv_bytes())
                except (EOFError, ConnectionResetError):
                    raise errors.DeliveryError(
                        "one of the processes ended without a word; was it killed, for want of memory "
                        "perhaps? Try fewer at once (--processes)"
                    ) from None
                if "records" in message:
                    told(message["records"])
                    continue
                if "error" in message:
                    raise _error(message)
                results[doing.pop(ready)] = message["result"]
                busy[ready] += message["seconds"]
                give(ready)
        return results, max(busy.values())


def _serve(pipe: Connection, fed: Connection) -> None:
    """Do jobs until there are no more; runs in a process of its own, which is sent what it works on by `fed`."""
    # Ctrl-C reaches the whole group of processes; the one that started this one ends it.
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
            # Where nothing is sent nobody asks for it.
            frames = (frames_of(fed),) if kind in FED else ()
            began = time.perf_counter()
            result = work(job, teller.tell, *frames)
            seconds = time.perf_counter() - began
            teller.flush()
            pipe.send_bytes(orjson.dumps({"result": result, "seconds": seconds}))
        except (EOFError, BrokenPipeError, ConnectionResetError):
            return
        except ResonanceError as error:
            told = {"error": type(error).__name__, "text": str(error), "remedies": getattr(error, "remedies", ())}
            _give_up(pipe, told)
            return
        except Exception:  # told to the process that asked, with the place
            _give_up(pipe, {"error": "", "text": traceback.format_exc()})
            return


def _give_up(pipe: Connection, told: Mapping[str, Any]) -> None:
    """Tell what went wrong, and wait for the end."""
    with suppress(EOFError, OSError):
        pipe.send_bytes(orjson.dumps(told))
        while True:
            pipe.recv_bytes()


class _ProgressReporter:
    """Tells about progress, not too often."""

    def __init__(self, pipe: Connection) -> None:
        self._pipe = pipe
        self._waiting = 0
        self._last = time.monotonic()

    def tell(self, records: int) -> None:
        self._waiting += records
        now = time.monotonic()
        if now - self._last >= TELL_SECONDS:
            self._last = now
            self.flush()

    def flush(self) -> None:
        if self._waiting:
            self._pipe.send_bytes(orjson.dumps({"records": self._waiting}))
            self._waiting = 0


def load_kernels(settings: Settings) -> None:
    """Load what is compiled, or compile it: once, before several processes want the same."""
    settings.compile_engine()


def _work_of(kind: str) -> Callable[..., dict[str, Any]]:
    module = importlib.import_module(WORK[kind])
    work: Callable[..., dict[str, Any]] = module.work
    return work


def _error(message: Mapping[str, Any]) -> Exception:
    """Return the error that a process told about."""
    kind = getattr(errors, message["error"], None)
    if kind is MismatchError:
        return MismatchError(message["text"], message["remedies"])
    if isinstance(kind, type) and issubclass(kind, ResonanceError):
        return kind(message["text"])
    return RuntimeError(message["text"])
