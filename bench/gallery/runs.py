"""One stream through one engine: a partition task with default settings."""

import time
import traceback
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from typing import Any

import numpy as np
from resonance.engine import ENGINES
from resonance.engine.base import Engine, Step
from resonance.pipeline.task.partition_task import PartitionTask

from bench.gallery.endless import FEW, clouds
from bench.gallery.line import Line
from bench.gallery.measures import Answers, History, Names, first_of_their_own, shares
from bench.gallery.streams import Stream
from bench.live import CHUNK, RefusedError, halved, new_task, process
from bench.streams import Array, Classes


@dataclass(frozen=True, slots=True)
class Cuts:
    """Where a stream is cut: at least every `CHUNK` records, and where a measure begins or ends."""

    second: tuple[int, int]
    half: int
    last: tuple[int, int]
    all: list[int]

    @classmethod
    def of(cls, n: int) -> "Cuts":
        """Return the cuts of n records."""
        second, half, last = (n // 10, n // 5), n // 2, (n - n // 10, n)
        return cls(second, half, last, sorted({*range(0, n, CHUNK), *second, half, *last}))


class Tenth:
    """The CPU time that some records take, in the task and in its engine.

    Parameters
    ----------
    start, stop : int
        The records.
    """

    def __init__(self, start: int, stop: int) -> None:
        self._start, self._stop = start, stop
        self._task = self._engine = 0.0
        self._warm = False

    def passed(self, start: int, stop: int, seconds: float, engine: Engine | None) -> None:
        """Add the time of a chunk, and watch the engine from the first of the records to the last."""
        if self._start <= start < self._stop:
            self._task += seconds
        if engine is None or not engine.dimension:
            return
        if stop == self._start:
            self._warm = True
            self._watch(engine)
        elif stop == self._stop:
            vars(engine).pop("learn", None)

    def _watch(self, engine: Engine) -> None:
        learn = engine.learn

        def timed(*arguments: Any, **named: Any) -> Step:
            begin = time.thread_time()
            step = learn(*arguments, **named)
            self._engine += time.thread_time() - begin
            return step

        vars(engine)["learn"] = timed

    @property
    def task(self) -> float | None:
        """Microseconds a record; None where the engine was still warming up."""
        return 1e6 * self._task / (self._stop - self._start) if self._warm else None

    @property
    def engine(self) -> float | None:
        """Of these, those in the engine."""
        return 1e6 * self._engine / (self._stop - self._start) if self._warm else None


def units_of(engine: Engine | None) -> int:
    """Return how many nodes an engine consists of: its own list of them, else those that are in clusters."""
    if engine is None or not engine.dimension:
        return 0
    nodes = getattr(engine, "nodes", None)
    if isinstance(nodes, Mapping) and "id" in nodes:
        return len(nodes["id"])
    return sum(len(facts.cluster_of) for facts in engine.models().values())


@cache
def rehearse(engine: str) -> None:
    """Let an engine compile, in this process, all that it needs for records and for the first events."""
    ENGINES[engine].compile()
    X, _ = clouds(np.random.default_rng(0), 1_500, *FEW)
    for _ in process(new_task({"engine.name": engine}), X, [0, len(X)]):
        pass


def run(stream: Stream, engine: str, length: float, seed: int | None, settings: Mapping[str, Any]) -> Line:
    """Measure one stream with one engine.

    Parameters
    ----------
    stream : Stream
        The stream.
    engine : str
        Name of an engine.
    length : float
        As in `Stream.generated`.
    seed : int or None
        None for the stream's own.
    settings : mapping of str to object
        Settings that are not their defaults, by their dotted names.
    """
    line = Line(stream.group, stream.name, engine, stream.seed if seed is None else seed)
    begin = time.perf_counter()
    try:
        X, y = stream.generated(length, seed)
        X = np.asarray(X, dtype=np.float64)
        line.records, line.features = X.shape
        answers = _through_task(line, X, {"engine.name": engine, **settings})
        _judge(line, stream, y, answers)
    except RefusedError as error:
        line.refused = str(error)
    except Exception as error:
        # The lines of the other streams took hours: they are not lost for this one.
        traceback.print_exc()
        line.refused = line.failed = f"{type(error).__name__}: {error}"
    line.seconds = time.perf_counter() - begin
    return line


def _through_task(line: Line, X: Array, settings: dict[str, Any]) -> Answers:
    """Send the stream through a partition task, and note all but what needs the classes."""
    rehearse(line.engine)
    task = new_task(settings)
    cuts, names, history = Cuts.of(len(X)), Names(), History()
    second, last = Tenth(*cuts.second), Tenth(*cuts.last)
    answers: list[int] = []
    novel = early = 0
    for chunk in process(task, X, cuts.all):
        answers += [names.number(assignment["cluster"]) for assignment in chunk.assignments]
        for event in chunk.events:
            history.add(event)
        if chunk.start >= cuts.half:
            novel += sum(assignment["novel"] for assignment in chunk.assignments)
        engine = _engine(task)
        second.passed(chunk.start, chunk.stop, chunk.seconds, engine)
        last.passed(chunk.start, chunk.stop, chunk.seconds, engine)
        if chunk.stop == cuts.half:
            early, line.units_half = history.events, units_of(engine)
    rest = len(X) - cuts.half
    line.events = 1000 * (history.events - early) / rest
    line.splits, line.taken_back = history.splits, history.taken_back
    line.present, line.novel = len(history.present), novel / rest
    line.units_end = units_of(_engine(task))
    line.state_bytes = sum(len(task.models.named(name).state()) for name in task.models.names)
    line.task_second, line.task_last = second.task, last.task
    line.engine_second, line.engine_last = second.engine, last.engine
    return np.array(answers)


def _engine(task: PartitionTask) -> Engine | None:
    """Return the engine of a task; None until it is decided which features the records have."""
    return task.models.named(task.models.names[0]).engine if task.models.names else None


def _judge(line: Line, stream: Stream, y: Classes, answers: Answers) -> None:
    """Note what needs the classes."""
    second = shares(y, answers)
    line.ari = halved(y, answers.tolist())
    line.classes, line.answering = second.classes, second.answering
    line.largest, line.nulls = second.largest, second.nulls
    line.emerged = {name: first_of_their_own(answers, member) for name, member in stream.novelties(y).items()}
