"""How fast the worker moves records on a real Kafka, in and out, and how long a record waits for its answer.

Four partitions of JSON records with 16 features, one worker or two of one machine, exactly once;
beside it a tuned loop of confluent-kafka that knows no models, and Faust as its documentation writes it. The broker
runs on the same machine. Medians of alternating runs; each is watched from outside, from its first answers to the last.
"""

import itertools
import socket
import statistics
import subprocess
import tempfile
import uuid
from collections.abc import Iterable, Iterator
from contextlib import AbstractContextManager, contextmanager
from pathlib import Path

import numpy as np
import orjson
from confluent_kafka import Producer
from confluent_kafka.admin import AdminClient
from resonance.pipeline.config.file import as_toml

from bench.latency import latencies, steady_load
from bench.processes import Answers, Pace, pace, running
from bench.report import Row, arguments, show
from bench.streams import SPREADS, blobs
from tests.brokers import create_topic, running_broker

PARTITIONS = 4
FEATURES = 16
STOCK_RECORDS = 20_000
"""Answers watched of the contestants that need 100 microseconds for one."""
WORKERS = {"worker": ("events", 1), "worker-cloudevents": ("cloudevents", 1), "worker-two": ("events", 2)}
"""Settings of ``output.envelope``, no headers for an answer, as the loops have none, or six; and of
``worker.processes``."""
FAST = (*WORKERS, "bare", "transactions")
REFERENCES = {
    "bare": "tuned loop",
    "transactions": "tuned loop, transactions",
    "stock": "stock faust",
    "stock-idle": "stock faust, no model",
}
CYCLE = 49_999
"""Records of a load that never ends, over and over; prime, so that each key has all of them in time."""
MODES = ("exactly_once", "at_least_once")
SETTLE_SECONDS, LATENCY_SECONDS = 8.0, 20.0


def records(count: int) -> Iterator[bytes]:
    """Yield JSON records, of the stream that the engine's benchmark uses at 16 features."""
    X = np.round(blobs(count, FEATURES, SPREADS[FEATURES], seed=3), 9)
    for i, row in enumerate(X.tolist()):
        yield orjson.dumps({"id": f"r{i:07d}", "features": row, "time": 1_700_000_000_000 + i})


ENDING = ".assignments"
INPUTS = {"features", "hot", "live", "paced", "soak"}
"""Kinds of topics that a worker reads."""


class Bench:
    """A broker, its input topic, and the contestants."""

    def __init__(
        self, bootstrap: str, partitions: int = PARTITIONS, keys: int = PARTITIONS, engine: str = "modal"
    ) -> None:
        self.bootstrap = bootstrap
        self.engine = engine
        self.partitions = partitions
        self.keys = keys
        self.admin = AdminClient({"bootstrap.servers": bootstrap, "log_level": 0})

    @contextmanager
    def topic(self, kind: str, **config: str) -> Iterator[str]:
        """Have a topic for a while; that of answers is named as a deployment names it."""
        ending = "" if kind in INPUTS else ENDING
        name = f"bench-{kind}-{uuid.uuid4().hex[:8]}{ending}"
        create_topic(self.bootstrap, name, partitions=self.partitions, exact=True, **config)
        try:
            yield name
        finally:
            self.admin.delete_topics([name])[name].result(30)

    def load(self, topic: str, count: int, keys: int = PARTITIONS, values: Iterable[bytes] | None = None) -> None:
        """Fill the input, with so many keys in turn: a multiple of the partitions."""
        producer = Producer(
            {"bootstrap.servers": self.bootstrap, "linger.ms": 20, "batch.size": 1_000_000, "compression.type": "lz4"}
        )
        for i, value in enumerate(records(count) if values is None else itertools.islice(values, count)):
            while True:
                try:
                    producer.produce(topic, value, key=b"k%d" % (i % keys), partition=i % self.partitions)
                    break
                except BufferError:
                    producer.poll(0.1)
        producer.flush(60)

    @contextmanager
    def worker(
        self,
        source: str,
        target: str,
        mode: str = "exactly_once",
        envelope: str = "events",
        stream: str = "partition",
        processes: int = 1,
    ) -> Iterator[subprocess.Popen[bytes]]:
        """Run the worker on a topic."""
        name = target.removesuffix(ENDING)
        with socket.socket() as probe:
            probe.bind(("127.0.0.1", 0))
            port = probe.getsockname()[1]
        values = {
            "name": name,
            "stream": stream,
            "engine": {"name": self.engine},
            "broker": {"bootstrap": self.bootstrap},
            "worker": {"web_port": port, "processes": processes},
            "input": {"topics": [source], "id_path": "id"},
            "delivery": {"mode": mode},
            "output": {"envelope": envelope},
        }
        with tempfile.TemporaryDirectory() as folder:
            file = Path(folder) / "resonance.toml"
            file.write_text(as_toml(values))
            with running(["resonance.pipeline.cli.main", "worker", "--config", str(file)]) as process:
                yield process
        mine = [
            topic for topic in self.admin.list_topics(timeout=10).topics if topic.startswith(name) and topic != target
        ]
        for future in self.admin.delete_topics(mine).values() if mine else ():
            future.result(30)

    def run(self, kind: str, source: str, count: int) -> Pace:
        """Let one contestant answer."""
        watched = count if kind in FAST else min(count, STOCK_RECORDS)
        with self.topic(kind) as target:
            answers = Answers(self.bootstrap, target, PARTITIONS)
            contestant = (
                self.worker(
                    source,
                    target,
                    envelope=WORKERS[kind][0],
                    processes=WORKERS[kind][1],
                    stream="key" if self.keys > self.partitions else "partition",
                )
                if kind in WORKERS
                else running(["bench.contestants", kind, self.bootstrap, source, target])
            )
            with contestant as process:
                return pace(process, answers.count, watched)

    def steady_load(self, source: str, rate: float, keys: int = PARTITIONS) -> AbstractContextManager[None]:
        """Produce records at a steady rate meanwhile, with so many keys in turn."""
        return steady_load(self.bootstrap, source, records(CYCLE), rate, PARTITIONS, keys)

    def latency(self, mode: str, rate: float, stream: str = "partition") -> list[float]:
        """Feed a worker at a steady rate and return the milliseconds that its assignments took."""
        with (
            self.topic("paced", message_timestamp_type="LogAppendTime") as source,
            self.topic(mode) as target,
            self.worker(source, target, mode, stream=stream),
            self.steady_load(source, rate),
        ):
            return latencies(self.bootstrap, target, PARTITIONS, SETTLE_SECONDS, LATENCY_SECONDS)


def median(paces: list[Pace]) -> Pace:
    """Return the medians of several runs, and the threads of the one in the middle."""
    middle = sorted(paces, key=lambda p: p.cpu)[len(paces) // 2]
    return Pace(statistics.median(p.rate for p in paces), statistics.median(p.cpu for p in paces), middle.threads)


def speed_rows(found: dict[str, Pace], keys: int = PARTITIONS) -> list[Row]:
    """Return rate and CPU of the worker, with a model for each key, beside those of the others."""
    rows = []
    for name, (envelope, processes) in WORKERS.items():
        for kind, label in REFERENCES.items():
            if name in found and kind in found:
                case = (
                    f"{processes} x worker exactly_once {envelope} d={FEATURES} partitions={PARTITIONS} models={keys:,}"
                )
                rows.append(Row(case, "records/s", found[name].rate, label, found[kind].rate))
                rows.append(Row(case, "us CPU/record", found[name].cpu, label, found[kind].cpu))
    return rows


def latency_rows(bench: Bench, rate: float) -> list[Row]:
    """Return the latencies of both deliveries at a rate."""
    rows = []
    for mode in MODES:
        found = sorted(bench.latency(mode, rate))
        for percent in (50, 99):
            case = f"latency {mode} p{percent} at {rate:,.0f} records/s"
            rows.append(Row(case, "ms", found[len(found) * percent // 100]))
    return rows


def main() -> None:
    """Run the benchmark."""
    parser = arguments("How fast the worker moves records on a real Kafka, and how long a record waits.")
    parser.add_argument("--records", type=int, default=600_000, help="records of the input topic")
    parser.add_argument("--keys", type=int, default=PARTITIONS, help="models: a multiple of four, in turn")
    parser.add_argument("--engine", default="modal", help="engine of the models")
    parser.add_argument("--rounds", type=int, default=5, help="alternating runs that each median is taken of")
    parser.add_argument("--profile", action="store_true", help="say where the worker's CPU time goes")
    parser.add_argument("--no-latency", action="store_true", help="leave out the latencies")
    parser.add_argument("--only", nargs="*", choices=[*WORKERS, *REFERENCES], help="contestants to run")
    given = parser.parse_args()
    kinds = given.only or [*WORKERS, *REFERENCES]
    with running_broker() as bootstrap:
        bench = Bench(bootstrap, keys=given.keys, engine=given.engine)
        paces: dict[str, list[Pace]] = {kind: [] for kind in kinds}
        with bench.topic("features") as source:
            bench.load(source, given.records, given.keys)
            for _ in range(given.rounds):
                for kind in kinds:
                    paces[kind].append(bench.run(kind, source, given.records))
        found = {kind: median(runs) for kind, runs in paces.items()}
        rows = speed_rows(found, given.keys)
        if "worker" in found and not given.no_latency:
            rows += latency_rows(bench, found["worker"].rate / 10)
    if given.profile and "worker" in found:
        from bench.stages import profile_rows  # noqa: PLC0415 - compiles kernels, which only a profile needs

        rows += profile_rows(found["worker"])
    show("Pipeline: one worker on a real Kafka", rows or other_rows(found), given.json)


def other_rows(found: dict[str, Pace]) -> list[Row]:
    """Return the figures of contestants that ran without the worker."""
    return [
        row
        for kind, run in found.items()
        for label in [REFERENCES.get(kind, kind)]
        for row in (Row(label, "records/s", run.rate), Row(label, "us CPU/record", run.cpu))
    ]


if __name__ == "__main__":
    main()
