"""The runs of the gallery, in one process or in several."""

from collections.abc import Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor, as_completed
from multiprocessing import get_context
from typing import Any, NamedTuple

from resonance.pipeline.machine import collect_rarely

from bench.gallery.line import Line
from bench.gallery.runs import run
from bench.gallery.streams import named


class Job(NamedTuple):
    """One stream with one engine; the stream goes by its name, because its maker cannot be sent to a process."""

    group: str
    stream: str
    engine: str
    length: float
    seed: int | None
    settings: dict[str, Any]


def measured(job: Job) -> Line:
    """Do a job."""
    collect_rarely()
    return run(named(job.group, job.stream), job.engine, job.length, job.seed, job.settings)


def results(jobs: Sequence[Job], processes: int) -> Iterator[tuple[int, Line]]:
    """Yield the lines as they come, each with the number of its job."""
    if processes == 1:
        yield from ((at, measured(job)) for at, job in enumerate(jobs))
        return
    # Not forked: a child that begins with the parent's threads and locks can hang.
    with ProcessPoolExecutor(processes, mp_context=get_context("spawn")) as pool:
        futures = {pool.submit(measured, job): at for at, job in enumerate(jobs)}
        yield from ((futures[future], future.result()) for future in as_completed(futures))
