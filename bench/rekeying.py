"""What the hop over the routes costs: one worker on a real Kafka with one model for each key, and with one for all.

The records, the engine and its settings are the same; with ``stream = "topic"`` each record is written and read once
more. The steps of the hop follow, measured alone: the first hop with and without a member to look for, and what the
second does before it learns.
"""

import time
from collections.abc import Callable, Iterable
from typing import Any

import numpy as np
import orjson
from resonance.pipeline.config.settings import Settings
from resonance.pipeline.machine import collect_rarely
from resonance.pipeline.records import Record
from resonance.pipeline.repartition.envelope import read_route
from resonance.pipeline.task.stream_task import TaskContext
from resonance.pipeline.tasks import make_task

from bench.pipeline import FEATURES, PARTITIONS, Bench, median
from bench.processes import Answers, Pace, pace
from bench.report import Row, arguments, show
from bench.streams import SPREADS, blobs
from tests.brokers import running_broker

STREAMS = ("key", "topic")
CHUNK, WARM, RECORDS, ROUNDS = 500, 5_000, 25_000, 5


def run(bench: Bench, stream: str, source: str, count: int) -> Pace:
    """Let a worker answer."""
    with bench.topic("answers") as target:
        answers = Answers(bench.bootstrap, target, PARTITIONS)
        with bench.worker(source, target, stream=stream) as process:
            return pace(process, answers.count, count)


def _per_record(work: Callable[[Any], Any], parts: Iterable[Any]) -> float:
    start = time.thread_time()
    for part in parts:
        work(part)
    return (time.thread_time() - start) / (RECORDS - WARM) * 1e6


def step_rows() -> list[Row]:
    """Return what the steps of the hop cost beside a partition task that learns where it reads."""
    collect_rarely()
    X = np.round(blobs(RECORDS, FEATURES, SPREADS[FEATURES], seed=3), 9)
    members = ({"id": f"r{i:07d}", "country": "DE", "features": row, "time": i} for i, row in enumerate(X.tolist()))
    values = list(map(orjson.dumps, members))
    records = [Record("features", 0, i, 1_700_000_000_000 + i // 50, b"k0", value) for i, value in enumerate(values)]
    chunks = [records[i : i + CHUNK] for i in range(0, RECORDS, CHUNK)]
    found: dict[str, list[float]] = {}

    def note(step: str, microseconds: float) -> None:
        found.setdefault(step, []).append(microseconds)

    for _ in range(ROUNDS):
        for stream in ("key", "topic", "field:country"):
            given = Settings.of({"stream": stream, "input.topics": ["features"], "input.id_path": "id"})
            task = make_task(given, "features", 0, TaskContext(routes=1))
            for chunk in chunks[: WARM // CHUNK]:
                task.process(chunk)
            timed = chunks[WARM // CHUNK :]
            if stream == "key":
                note("partition task", _per_record(task.process, timed))
                continue
            note(f"first hop, stream = {stream}", _per_record(task.process, timed))
        # Once more, by a task that nobody timed.
        router = make_task(given, "features", 0, TaskContext(routes=1))
        log = [message for chunk in chunks for message in router.process(chunk).routes]
        routes = [Record("routes", 0, i, 0, m.key, m.value, m.headers) for i, m in enumerate(log)]
        parts = [routes[i : i + CHUNK] for i in range(0, RECORDS, CHUNK)]

        def read(some: list[Record]) -> None:
            for record in some:
                read_route(record)

        note("second hop: routes read", _per_record(read, parts[WARM // CHUNK :]))
        second = make_task(given, given.topic("routes"), 0)
        for part in parts[: WARM // CHUNK]:
            second.process(part)
        note("second hop, all of it", _per_record(second.process, parts[WARM // CHUNK :]))
    best = {step: min(times) for step, times in found.items()}
    base = best.pop("partition task")
    rows = [Row("partition task, stream = key, chunks of 500", "us CPU/record", base)]
    return rows + [Row(step, "us CPU/record", cost, "partition task", base) for step, cost in best.items()]


def main() -> None:
    """Run the benchmark."""
    parser = arguments("What the hop over the routes costs.")
    parser.add_argument("--records", type=int, default=300_000, help="records of the input topic")
    parser.add_argument("--rate", type=float, default=5_000, help="records a second while latencies are measured")
    parser.add_argument("--no-latency", action="store_true", help="leave out the latencies")
    parser.add_argument("--rounds", type=int, default=3, help="alternating runs that each median is taken of")
    given = parser.parse_args()
    paces: dict[str, list[Pace]] = {stream: [] for stream in STREAMS}
    with running_broker() as bootstrap:
        bench = Bench(bootstrap)
        with bench.topic("features") as source:
            bench.load(source, given.records)
            for _ in range(given.rounds):
                for stream in STREAMS:
                    paces[stream].append(run(bench, stream, source, given.records))
        found = {} if given.no_latency else {s: sorted(bench.latency("exactly_once", given.rate, s)) for s in STREAMS}
    key, topic = (median(paces[stream]) for stream in STREAMS)
    case = f"worker exactly_once d={FEATURES} partitions={PARTITIONS} stream = topic"
    rows = [
        Row(case, "records/s", topic.rate, "stream = key", key.rate),
        Row(case, "us CPU/record", topic.cpu, "stream = key", key.cpu),
    ]
    for percent in (50, 99) if found else ():
        one, other = (found[stream][len(found[stream]) * percent // 100] for stream in STREAMS)
        case = f"latency exactly_once p{percent} at {given.rate:,.0f} records/s, stream = topic"
        rows.append(Row(case, "ms", other, "stream = key", one))
    show("The hop over the routes", rows + step_rows(), given.json)


if __name__ == "__main__":
    main()
