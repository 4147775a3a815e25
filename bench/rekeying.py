"""What the hop over the routes costs: one worker on a real Kafka with the hop and without it, then the tasks alone.

The records, the engine and its settings are the same. With ``stream = "topic"`` beside ``"key"`` each record is written
and read once more; with ``hierarchy = "keyed"`` beside ``"local"`` the root of a tree of HCAEA learns it first.
"""

import time
from typing import Any

from resonance.pipeline.config.settings import Settings
from resonance.pipeline.kernels import compile_engine
from resonance.pipeline.machine import collect_rarely
from resonance.pipeline.records import Outputs, Record
from resonance.pipeline.task.stream_task import TaskContext
from resonance.pipeline.tasks import make_task

from bench.pipeline import Bench, median, records
from bench.processes import Pace
from bench.report import Row, arguments, show
from tests.brokers import running_broker

CHUNK = 8192
"""Records that a busy worker hands to a task at once."""
ROUTES = 8
CASES: dict[str, tuple[int, dict[str, Any], dict[str, Any]]] = {
    'modal, stream = "topic"': (4, {"stream": "topic"}, {"stream": "key"}),
    "hcaea, one stream, keyed": (
        1,
        {"engine": "hcaea", "hierarchy": "keyed", "topics": {"routes_partitions": ROUTES}},
        {"engine": "hcaea", "hierarchy": "local"},
    ),
}
"""By name: partitions of the input, and the settings with the hop and without it."""


def worker_rows(bootstrap: str, count: int, rounds: int) -> list[Row]:
    """Return rate and CPU of a worker with the hop beside those without it."""
    rows = []
    for case, (partitions, *both) in CASES.items():
        bench = Bench(bootstrap, partitions)
        paces: list[list[Pace]] = [[], []]
        with bench.topic("features") as source:
            bench.load(source, count)
            for _ in range(rounds):
                for settings, runs in zip(both, paces, strict=True):
                    runs.append(bench.run("answers", source, count, **settings))
        hop, without = map(median, paces)
        rows.append(Row(case, "records/s", hop.rate, "without the hop", without.rate))
        rows.append(Row(case, "us CPU/record", hop.cpu, "without the hop", without.cpu))
    return rows


def task_rows(count: int, features: int, rounds: int) -> list[Row]:
    """Return the cost of a record in a whole tree, in its root and in its subtrees, once they are warm."""
    local, keyed = (
        Settings.of(
            {
                "stream": "partition",
                "hierarchy": hierarchy,
                "engine.name": "hcaea",
                "input.topics": ["features"],
                "input.id_path": "id",
            }
        )
        for hierarchy in ("local", "keyed")
    )
    for settings in (local, keyed):
        compile_engine(settings)
    log = [
        Record("features", 0, i, 1_700_000_000_000 + i // 50, b"k0", value)
        for i, value in enumerate(records(count, features))
    ]
    found: dict[str, list[float]] = {"whole": [], "root": [], "subtrees": []}
    for _ in range(rounds):
        found["whole"].append(_cost(make_task(local, "features", 0, TaskContext(routes=1)), log)[0])
        cost, sent = _cost(make_task(keyed, "features", 0, TaskContext(routes=ROUTES)), log)
        found["root"].append(cost)
        logs: list[list[Record]] = [[] for _ in range(ROUTES)]
        for message in sent.routes:
            routes = logs[message.partition or 0]
            routes.append(Record("resonance.routes", message.partition or 0, len(routes), 0, *message[:3]))
        costs = [
            _cost(make_task(keyed, "resonance.routes", p), each)[0] * len(each) for p, each in enumerate(logs) if each
        ]
        found["subtrees"].append(sum(costs) / count)
    best = {part: min(costs) for part, costs in found.items()}
    case = f"task of hcaea d={features}"
    return [Row(f"{case}, {part}", "us/record", cost, "whole", best["whole"]) for part, cost in best.items()]


def _cost(task: Any, log: list[Record]) -> tuple[float, Outputs]:
    """Return the microseconds a record that a task takes for the second half, and all its outputs."""
    outputs, start = Outputs(), len(log) // 2
    for at in range(0, start, CHUNK):
        outputs.add(task.process(log[at : min(at + CHUNK, start)]))
    began = time.perf_counter()
    for at in range(start, len(log), CHUNK):
        outputs.add(task.process(log[at : at + CHUNK]))
    return (time.perf_counter() - began) / max(1, len(log) - start) * 1e6, outputs


def main() -> None:
    """Run the benchmark."""
    parser = arguments("What the hop over the routes costs.")
    parser.add_argument("--records", type=int, default=300_000, help="records of the input topic")
    parser.add_argument("--features", type=int, nargs="*", default=[16, 64], help="of the records of the tasks alone")
    parser.add_argument("--rounds", type=int, default=3, help="alternating runs that each median is taken of")
    parser.add_argument("--tasks-only", action="store_true", help="no broker: the tasks alone")
    given = parser.parse_args()
    rows = []
    if not given.tasks_only:
        with running_broker() as bootstrap:
            rows += worker_rows(bootstrap, given.records, given.rounds)
    collect_rarely()
    for features in given.features:
        rows += task_rows(given.records // 3, features, given.rounds)
    show("The hop over the routes", rows, given.json)


if __name__ == "__main__":
    main()
