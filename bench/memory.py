"""How much memory a stream that never settles costs: one partition task, default settings, millions of records.

The clusters of the stream wander, and every twenty batches one of them starts anew elsewhere.
"""

import os
from pathlib import Path

import orjson
from resonance.pipeline.config.settings import Settings
from resonance.pipeline.records import Record
from resonance.pipeline.task.partition_task import PartitionTask

from bench.report import Row, arguments, show
from bench.streams import drifting

CHUNK = 1000
POINT = 500_000
"""Records between two points of the curve."""
BASE = 1_000_000
"""Where the growth is counted from: everything has been allocated once."""
PAGE = os.sysconf("SC_PAGE_SIZE")


def resident(process: int | str = "self") -> float:
    """Return the resident memory of a process, by itself of this one, in MB."""
    return int(Path(f"/proc/{process}/statm").read_text().split()[1]) * PAGE / 1e6


def curve(records: int, engine: str) -> tuple[list[Row], list[float]]:
    """Process the stream; return a row for each point of the curve, and the resident memory there."""
    settings = Settings.of({"stream": "partition", "input.topics": ["features"], "engine.name": engine})
    task = PartitionTask(settings, "features", 0)
    rows: list[Row] = []
    memory: list[float] = []
    assignments = events = 0
    for number, batch in enumerate(drifting(records // CHUNK, CHUNK), 1):
        first = (number - 1) * CHUNK
        chunk = [
            Record("features", 0, first + i, 1_700_000_000_000 + first + i, b"k", orjson.dumps({"features": row}))
            for i, row in enumerate(batch.tolist())
        ]
        outputs = task.process(chunk)
        assignments += len(outputs.assignments)
        events += len(outputs.cluster_events)
        done = number * CHUNK
        if done % POINT == 0:
            sizes = [len(task.models.snapshot(stream).body) for stream in task.models.pending(everything=True)]
            memory.append(resident())
            rows.append(Row(f"{engine} at {done:,} records", "MB resident", memory[-1]))
            rows.append(Row(f"{engine} at {done:,} records", "kB snapshot", sum(sizes) / 1e3))
    assert assignments == records // CHUNK * CHUNK
    rows.append(Row(f"{engine}, all records", "events/1,000 records", 1000 * events / records))
    return rows, memory


def main() -> None:
    """Run the benchmark."""
    parser = arguments("Resident memory and snapshot size of one partition task over a drifting stream.")
    parser.add_argument("--records", type=int, default=5_000_000, help="records of the stream")
    parser.add_argument("--engine", default="modal", help="the engine")
    given = parser.parse_args()
    rows, memory = curve(given.records, given.engine)
    if given.records > BASE:
        base, last = memory[BASE // POINT - 1], memory[-1]
        rows.append(Row(f"{given.engine} from {BASE:,} to {given.records:,}", "MB resident", last, "then", base))
    show("Memory of one partition task, default settings, drifting stream", rows, given.json)


if __name__ == "__main__":
    main()
