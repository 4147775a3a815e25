"""What idle streams cost: one partition task with more streams than it may keep in memory.

Each key has a record, then keys come at random, so that nearly every record loads its stream. A small partition with
all models in memory is measured beside it. The snapshots that are due are written after each chunk. Rates are of
processor time.
"""

import time
from collections.abc import Iterable

import numpy as np
import orjson
from resonance.pipeline.checkpoint.changelog_records import Identity
from resonance.pipeline.checkpoint.changelog_writer import ChangelogWriter
from resonance.pipeline.config.settings import Settings
from resonance.pipeline.machine import collect_rarely
from resonance.pipeline.records import Record
from resonance.pipeline.task.partition_task import PartitionTask

from bench.memory import resident
from bench.report import Row, arguments, show

CHUNK = 1_000
PER_SECOND = 12
"""Records in a second of the log: 1,000,000 a day."""
FEATURES = 4
ALONE = 10_000
"""Keys of the run with all of them in memory."""


class Fleet:
    """A partition whose keys are devices, with the models of at most `limit` of them in memory."""

    def __init__(self, keys: int, limit: int) -> None:
        named = {"stream": "key", "input.topics": ["features"], "input.features": [f"f{i}" for i in range(FEATURES)]}
        limits = {"limits.streams": keys, "limits.streams_in_memory": limit}
        self.settings = Settings.of({**named, **limits})
        self.task = PartitionTask(self.settings, "features", 0)
        self._writer = ChangelogWriter(Identity("idle", ("features",), "features", "id", 1, "modal", "1"), 0)
        self._keys, self._random = keys, np.random.default_rng(1)
        self.offset = self.snapshot_bytes = 0

    def begin(self, keys: int = ALONE) -> float:
        """Process the first record of so many keys more; return the seconds of the processor."""
        begun = len(self.task.models)
        return self._process(range(begun, begun + keys))

    def repeat(self) -> float:
        """Process one more record of each key; return the seconds of the processor."""
        return self._process(range(self._keys))

    def process(self, records: int) -> float:
        """Process records of random keys; return the seconds of the processor."""
        return self._process(self._random.integers(self._keys, size=records).tolist())

    @property
    def stored(self) -> int:
        """Bytes of the temporary file of the models."""
        return self.task.models.stored_bytes

    def _process(self, keys: Iterable[int]) -> float:
        spent, waiting = 0.0, list(keys)
        for start in range(0, len(waiting), CHUNK):
            chunk = self._records(waiting[start : start + CHUNK])
            began = time.process_time()
            self.task.process(chunk)
            self.offset += len(chunk)
            for message in self._writer.messages(self.task, self.offset, self.offset):
                self.snapshot_bytes += len(message.value or b"")
            spent += time.process_time() - began
        return spent

    def _records(self, keys: list[int]) -> list[Record]:
        rows = self._random.normal(size=(len(keys), FEATURES)).tolist()
        values = (orjson.dumps({f"f{i}": x for i, x in enumerate(row)}) for row in rows)
        first = self.offset
        return [
            Record("features", 0, first + i, 1_700_000_000_000 + (first + i) * 1_000 // PER_SECOND, b"%d" % key, value)
            for i, (key, value) in enumerate(zip(keys, values, strict=True))
        ]


def rows_of(keys: int, limit: int, records: int) -> list[Row]:
    """Return the figures of one fleet, beside a small one with all models in memory."""
    alone = Fleet(ALONE, 0)
    rates = ALONE / alone.begin(), ALONE / alone.process(ALONE)
    del alone
    fleet, name = Fleet(keys, limit), f"{keys:,} keys, {limit:,} in memory"
    begun = fleet.begin(2 * limit)
    before = resident()
    begun += fleet.begin(keys - 2 * limit)
    added = resident() - before
    spent = fleet.process(records)
    return [
        Row(f"{name}: first records", "records/s", keys / begun, "all in memory", rates[0]),
        Row(f"{name}: random keys", "records/s", records / spent, "all in memory", rates[1]),
        Row(f"{name}: random keys", "loads/record", fleet.task.models.loads / records),
        Row(f"{name}: an idle stream", "bytes of memory", added * 1e6 / (keys - 2 * limit)),
        Row(f"{name}: an idle stream", "bytes on disk", fleet.stored / (keys - limit)),
        Row(f"{name}: process", "MB resident", resident()),
        Row(f"{name}: snapshots", "MB", fleet.snapshot_bytes / 1e6),
    ]


def main() -> None:
    """Run the benchmark."""
    parser = arguments("Rate and memory of one partition task with more streams than it keeps in memory.")
    parser.add_argument("--keys", type=int, default=100_000, help="streams")
    parser.add_argument("--limit", type=int, default=10_000, help="limits.streams_in_memory")
    parser.add_argument("--records", type=int, default=20_000, help="records after the first one of each key")
    given = parser.parse_args()
    if given.keys <= 2 * given.limit:
        parser.error("--keys must be more than twice --limit: what an idle stream costs is measured from there on")
    collect_rarely()
    show("Idle streams", rows_of(given.keys, given.limit, given.records), given.json)


if __name__ == "__main__":
    main()
