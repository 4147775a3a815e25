"""What a keyed hierarchy costs, and when it pays: one hot stream of HCAEA, learned by one task or by several workers.

First the tasks alone, in this process: what a record costs where the whole tree learns in one place, and at the root
and behind the routes where it does not; the difference is the price of the hop. Then workers on a real Kafka: one
stream in one input partition, local by one worker, keyed by one and by two. The last rows say how evenly the root
nodes spread over the partitions of the routes.
"""

import json
import socket
import statistics
import tempfile
import time
import urllib.request
from collections import Counter
from collections.abc import Iterator, Mapping
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any

import numpy as np
import orjson
from resonance.pipeline.config.file import as_toml
from resonance.pipeline.config.settings import Settings
from resonance.pipeline.kernels import compile_engine
from resonance.pipeline.machine import collect_rarely
from resonance.pipeline.records import Outputs, Record
from resonance.pipeline.task.partition_task import PartitionTask
from resonance.pipeline.task.stream_task import TaskContext
from resonance.pipeline.tasks import make_task

from bench.latency import latencies, steady_load
from bench.pipeline import ENDING, Bench
from bench.processes import POLL_SECONDS, STALLED_SECONDS, Answers, running
from bench.report import Row, arguments, show
from bench.streams import SPREADS, blobs
from tests.brokers import running_broker

CHUNK = 8192
"""Records that a busy worker hands to a task at once."""
WARM = 0.5
"""Share of the records that is learned before the clock runs."""
ROUTES = 8
READY_SECONDS = 300


def values(count: int, features: int) -> Iterator[bytes]:
    """Yield JSON records of one stream."""
    X = np.round(blobs(count, features, SPREADS.get(features, 0.06), seed=3), 9)
    for i, row in enumerate(X.tolist()):
        yield orjson.dumps({"id": f"r{i:07d}", "features": row})


def settings_of(hierarchy: str, **more: Any) -> dict[str, Any]:
    """Return the settings of a deployment."""
    return {
        "stream": "partition",
        "hierarchy": hierarchy,
        "engine": {"name": "hcaea"},
        "input": {"topics": ["features"], "id_path": "id"},
        **more,
    }


def task_rows(count: int, features: int, rounds: int) -> list[Row]:
    """Return the cost of a record in each task, of the hop, and above which cost of a record the hop pays."""
    collect_rarely()
    for hierarchy in ("local", "keyed"):
        compile_engine(Settings.of(settings_of(hierarchy)))
    records = [
        Record("features", 0, i, 1_700_000_000_000 + i // 50, b"k0", value)
        for i, value in enumerate(values(count, features))
    ]
    local, first, second = [], [], []
    spread: Counter[int] = Counter()
    nodes = 0
    for _ in range(rounds):
        local.append(_cost(PartitionTask(Settings.of(settings_of("local")), "features", 0), records)[0])
        keyed = Settings.of(settings_of("keyed"))
        cost, sent = _cost(make_task(keyed, "features", 0, TaskContext(routes=ROUTES)), records)
        first.append(cost)
        logs: dict[int, list[Record]] = {number: [] for number in range(ROUTES)}
        for message in sent.routes:
            log = logs[message.partition or 0]
            log.append(Record("resonance.routes", message.partition or 0, len(log), 0, *message[:3]))
        spread = Counter({number: len(log) for number, log in logs.items()})
        nodes = len({message.key for message in sent.routes})
        costs = [(_cost(make_task(keyed, "resonance.routes", p), log)[0], len(log)) for p, log in logs.items() if log]
        second.append(sum(cost * length for cost, length in costs) / count)
    one, root, below = min(local), min(first), min(second)
    hop = root + below - one
    case = f"hcaea d={features}"
    shares = sorted(spread.values(), reverse=True)
    return [
        Row(f"{case} task, local", "us/record", one),
        Row(f"{case} task, root", "us/record", root, "local", one),
        Row(f"{case} task, subtrees", "us/record", below, "local", one),
        Row(f"{case} cost of the hop in the tasks", "us/record", hop, "local", one),
        # Two workers share what one does alone, and the hop; the root's share is one worker's.
        Row(f"{case} local cost above which 2 workers win", "us/record", max(hop, root), "local", one),
        Row(
            f"{case} messages of the fullest of {ROUTES} partitions",
            "share",
            shares[0] / sum(shares),
            "even",
            1 / ROUTES,
        ),
        Row(f"{case} root nodes with messages", "nodes", nodes),
    ]


def _cost(task: Any, records: list[Record]) -> tuple[float, Outputs]:
    """Return the microseconds a record that a task takes once it is warm, and all its outputs."""
    outputs, start = Outputs(), int(len(records) * WARM)
    for at in range(0, start, CHUNK):
        outputs.add(task.process(records[at : min(at + CHUNK, start)]))
    began = time.perf_counter()
    for at in range(start, len(records), CHUNK):
        outputs.add(task.process(records[at : at + CHUNK]))
    return (time.perf_counter() - began) / max(1, len(records) - start) * 1e6, outputs


class KeyedBench(Bench):
    """Workers of one deployment, on an input of one partition."""

    def __init__(self, bootstrap: str, features: int) -> None:
        super().__init__(bootstrap, partitions=1)
        self._features = features

    @contextmanager
    def workers(self, source: str, target: str, hierarchy: str, count: int) -> Iterator[None]:
        """Run some workers and wait until all of them work."""
        name = target.removesuffix(ENDING)
        values = settings_of(hierarchy, name=name, broker={"bootstrap": self.bootstrap})
        values |= {"topics": {"routes_partitions": ROUTES}} if hierarchy == "keyed" else {}
        values["input"] = {"topics": [source], "id_path": "id"}
        with tempfile.TemporaryDirectory() as folder, ExitStack() as stack:
            ports = []
            for number in range(count):
                with socket.socket() as probe:
                    probe.bind(("127.0.0.1", 0))
                    ports.append(probe.getsockname()[1])
                file = Path(folder) / f"{number}.toml"
                given = {**values, "worker": {"web_port": ports[-1]}}
                file.write_text(as_toml(given))
                stack.enter_context(running(["resonance.pipeline.cli.main", "worker", "--config", str(file)]))
            partitions = 1 + (ROUTES if hierarchy == "keyed" else 0)
            self._wait_until_ready(ports, partitions)
            yield
        mine = [
            topic for topic in self.admin.list_topics(timeout=10).topics if topic.startswith(name) and topic != target
        ]
        for future in self.admin.delete_topics(mine).values() if mine else ():
            future.result(30)

    @staticmethod
    def _wait_until_ready(ports: list[int], partitions: int) -> None:
        end = time.monotonic() + READY_SECONDS
        while time.monotonic() < end:
            try:
                pages = [
                    json.load(urllib.request.urlopen(f"http://127.0.0.1:{port}/readyz", timeout=2)) for port in ports
                ]
            except OSError:
                pages = []
            if pages and all(p["ready"] for p in pages) and sum(len(p["partitions"]) for p in pages) == partitions:
                return
            time.sleep(0.3)
        raise RuntimeError(f"the workers are not ready within {READY_SECONDS} s")

    def speed(self, hierarchy: str, count: int, records: int) -> float:
        """Return the records a second of so many workers together, from their first answer to the last."""
        with self.topic("hot") as source, self.topic("answers") as target:
            answers = Answers(self.bootstrap, target, 1)
            with self.workers(source, target, hierarchy, count):
                self.load_values(source, records)
                began, first, seen, changed = 0.0, 0, 0, time.monotonic()
                while seen < records:
                    found, now = answers.count(), time.monotonic()
                    if found != seen:
                        seen, changed = found, now
                    if not first and seen:
                        began, first = now, seen
                    if now - changed > STALLED_SECONDS:
                        raise RuntimeError(f"no new answers for {STALLED_SECONDS} s: {seen:,} of {records:,}")
                    time.sleep(POLL_SECONDS)
                return (seen - first) / (time.monotonic() - began)

    def load_values(self, topic: str, count: int) -> None:
        """Fill the input."""
        from confluent_kafka import Producer  # noqa: PLC0415

        producer = Producer({"bootstrap.servers": self.bootstrap, "linger.ms": 20, "compression.type": "lz4"})
        for value in values(count, self._features):
            while True:
                try:
                    producer.produce(topic, value, key=b"k", partition=0)
                    break
                except BufferError:
                    producer.poll(0.1)
        producer.flush(60)

    def waits(self, hierarchy: str, count: int, rate: float, seconds: float) -> list[float]:
        """Give so many workers a steady load and return the milliseconds that their assignments took."""
        with (
            self.topic("paced", message_timestamp_type="LogAppendTime") as source,
            self.topic("answers") as target,
            self.workers(source, target, hierarchy, count),
            steady_load(self.bootstrap, source, values(20_000, self._features), rate),
        ):
            return sorted(latencies(self.bootstrap, target, 1, seconds / 2, seconds))


CASES = (("local", 1), ("keyed", 1), ("keyed", 2))


def broker_rows(bench: KeyedBench, given: Any) -> list[Row]:
    """Return rates and latencies of each case beside those of one local worker."""
    rates: dict[tuple[str, int], list[float]] = {case: [] for case in CASES}
    for _ in range(given.rounds):
        for case in CASES:
            rates[case].append(bench.speed(*case, given.records))
    found: Mapping[tuple[str, int], float] = {case: statistics.median(runs) for case, runs in rates.items()}
    one = found["local", 1]
    rows = [
        Row(
            f"{hierarchy}, {count} worker{'s' * (count > 1)}, one stream, d={given.features}",
            "records/s",
            rate,
            "local",
            one,
        )
        for (hierarchy, count), rate in found.items()
    ]
    if given.no_latency:
        return rows
    base: dict[int, float] = {}
    for hierarchy, count in CASES:
        waited = bench.waits(hierarchy, count, one / 10, given.seconds)
        for percent in (50, 99):
            value = waited[len(waited) * percent // 100]
            base.setdefault(percent, value)
            name = f"latency p{percent}, {hierarchy}, {count} worker{'s' * (count > 1)} at {one / 10:,.0f} records/s"
            rows.append(Row(name, "ms", value, "local", base[percent]))
    return rows


def main() -> None:
    """Run the benchmark."""
    parser = arguments("What a keyed hierarchy costs, and when it pays.")
    parser.add_argument("--records", type=int, default=100_000, help="records of the stream")
    parser.add_argument("--features", type=int, default=16, help="features of a record")
    parser.add_argument("--rounds", type=int, default=3, help="runs that each figure is taken of")
    parser.add_argument("--seconds", type=float, default=10.0, help="how long latencies are looked at")
    parser.add_argument("--tasks-only", action="store_true", help="no broker: the tasks alone")
    parser.add_argument("--no-latency", action="store_true", help="leave out the latencies")
    given = parser.parse_args()
    rows = task_rows(given.records, given.features, given.rounds)
    if not given.tasks_only:
        with running_broker() as bootstrap:
            rows += broker_rows(KeyedBench(bootstrap, given.features), given)
    show("HCAEA with children keyed per node", rows, given.json)


if __name__ == "__main__":
    main()
