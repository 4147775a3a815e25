"""A fleet of stationary streams through partition tasks: every alert that opens does so in vain."""

from collections import Counter
from collections.abc import Iterator
from typing import Final

import numpy as np
import orjson
from resonance.pipeline.config.settings import Settings
from resonance.pipeline.records import Record
from resonance.pipeline.task.alerts import rules
from resonance.pipeline.task.alerts.kernels import silence
from resonance.pipeline.task.partition_task import PartitionTask

from bench.drift.streams import STEADY, unchanging
from bench.report import Row

TOPIC: Final = "features"
FEATURES, KINDS = 3, 4
STREAMS: Final = 100
"""Streams of a partition."""
TURN: Final = 100
"""Records of a stream in a row: one by one they would take several times as long."""
BEGAN: Final = 1_700_000_000_000
GAP: Final = 1
"""Milliseconds between two records of a partition: a stream waits 20 s for its turn, too short for `silent`."""
MOST_PER_MILLION: Final = 1.0
CHUNK: Final = 100_000
"""Records whose times are drawn at once."""


def _turns(partition: int, streams: int, each: int) -> Iterator[list[Record]]:
    """Yield the records of a partition, those of one stream in a row; its streams have all kinds of steady data."""
    first = partition * STREAMS
    rows = [unchanging(STEADY[n % len(STEADY)], FEATURES, KINDS, n, each) for n in range(first, first + streams)]
    names = [f"f{i}" for i in range(FEATURES)]
    rng, offset = np.random.default_rng(partition), 0
    for start in range(0, each, TURN):
        for own in rng.permutation(streams).tolist():
            turn = []
            for row in rows[own][start : start + TURN].tolist():
                value = orjson.dumps(dict(zip(names, row, strict=True)))
                turn.append(Record(TOPIC, partition, offset, BEGAN + GAP * offset, b"d%d" % own, value))
                offset += 1
            yield turn


def silences(records: int, streams: int) -> int:
    """Return how often `silent` opens where the records of every stream come at random, ten seconds apart on average.

    The rule's kernel alone: records that come one by one would take the task too long.
    """
    rng = np.random.default_rng(1)
    rows, means = silence.new_rows(streams)
    roots, out = np.full(1, -1, np.int64), np.zeros((256, 5), np.int64)
    time = opened = 0
    for first in range(0, records, CHUNK):
        count = min(CHUNK, records - first)
        times = time + np.cumsum(rng.exponential(10_000 / streams, count)).astype(np.int64)
        time, start, fresh = int(times[-1]), 0, np.ones(count, np.bool_)
        offsets, owners, logs = np.arange(first, first + count), rng.integers(streams, size=count), np.zeros(count, int)
        while start < count:
            found, start = silence.follow(
                times, times, offsets, owners, fresh, logs, start, count, rows, means, roots, rules.SILENT_GAPS,
                round(1_000 * rules.SILENT_SECONDS), out,
            )  # fmt: skip
            opened += int(out[:found, 2].sum())
    return opened


def fleet(records: int, streams: int = 1_000) -> list[Row]:
    """Return the alerts of some streams with so many records in all, with default settings."""
    given = Settings.of(
        {
            "input.topics": [TOPIC],
            "input.features": [f"f{i}" for i in range(FEATURES)],
            "stream": "key",
            "output.assignments": "none",
        }
    )
    each, opened, total = -(-records // streams), Counter[str](), 0
    for partition in range(-(-streams // STREAMS)):
        task = PartitionTask(given, TOPIC, partition)
        for turn in _turns(partition, min(STREAMS, streams - partition * STREAMS), each):
            total += len(turn)
            for message in task.process(turn).alerts:
                alert = orjson.loads(message.value or b"")
                opened[alert["rule"]] += alert["kind"] == "opened"
    opened["silent, at random"] += silences(total, streams)
    case = f"{streams:,} stationary streams, {total:,} records"
    bar = max(1.0, MOST_PER_MILLION * total / 1e6)
    rules = [Row(f"{case}: {rule}", "alerts", float(count)) for rule, count in sorted(opened.items())]
    return [Row(f"{case}: all rules", "alerts", float(opened.total()), "bar", bar), *rules]
