"""What a partition task answers while a stream goes on: JSON records in, assignments and events out."""

import time
from collections.abc import Iterator, Sequence
from itertools import pairwise
from typing import Any, NamedTuple

import numpy as np
import orjson
from resonance.engine.errors import EngineError
from resonance.engine.prepare import Preparation
from resonance.pipeline.config.settings import Settings
from resonance.pipeline.errors import ConfigurationError
from resonance.pipeline.records import Message, Record
from resonance.pipeline.task.partition_task import PartitionTask

from bench.streams import Array

TOPIC = "features"
CHUNK = 500
FIRST_TIME = 1_700_000_000_000
"""Kafka timestamp of the first record; each further one is a millisecond later."""


class RefusedError(Exception):
    """The engine, or the task before it, does not take the stream; the text says why."""


class Chunk(NamedTuple):
    """What came out for the records from `start` to `stop`, in offset order, and the CPU time of the task."""

    start: int
    stop: int
    assignments: list[dict[str, Any]]
    events: list[dict[str, Any]]
    seconds: float


def new_task(settings: dict[str, Any]) -> PartitionTask:
    """Return a task with default settings but for the given ones, by name; `RefusedError` for a wrong one."""
    try:
        return PartitionTask(Settings.of({"stream": "partition", "input.topics": [TOPIC], **settings}), TOPIC, 0)
    except ConfigurationError as error:
        raise RefusedError(str(error)) from error


def process(task: PartitionTask, X: Array, cuts: Sequence[int]) -> Iterator[Chunk]:
    """Send records through a task, one chunk between two cuts.

    `RefusedError`: a record became a dead letter, the engine does not take it, or its clusters fit into no message.
    """
    for start, stop in pairwise(cuts):
        records = [
            Record(TOPIC, 0, start + i, FIRST_TIME + start + i, None, orjson.dumps({"features": row}))
            for i, row in enumerate(X[start:stop].tolist())
        ]
        begin = time.thread_time()
        try:
            outputs = task.process(records)
        except (ConfigurationError, EngineError) as error:
            raise RefusedError(str(error)) from error
        seconds = time.thread_time() - begin
        if outputs.dead_letters:
            raise RefusedError(_problem(outputs.dead_letters[0]))
        yield Chunk(start, stop, _decoded(outputs.assignments), _decoded(outputs.cluster_events), seconds)


def prepared(X: Array) -> Array:
    """Return the records scaled by a warm-up, without what `robust`, `rescale` and `project` would add."""
    preparation = Preparation([f"f{i}" for i in range(X.shape[1])])
    warmup = min(preparation.warmup_records, len(X))
    preparation.hold(X[:warmup])
    return np.concatenate([preparation.freeze(), preparation.apply(X[warmup:])])


def _decoded(messages: Sequence[Message]) -> list[dict[str, Any]]:
    return [orjson.loads(message.value) for message in messages if message.value is not None]


def _problem(dead_letter: Message) -> str:
    """Return what the headers of a dead letter say is wrong."""
    texts = [value for name, value in dead_letter.headers if name.endswith(".error.message") and value]
    return texts[0].decode(errors="replace") if texts else "a record became a dead letter"
