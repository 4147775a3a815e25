"""How fast the worker moves records on a real Kafka, in and out.

Four partitions of JSON records with 16 features, one worker or two of one machine, exactly once; beside it a tuned loop
of confluent-kafka that knows no models. The broker runs on the same machine. Medians of alternating runs; each is
watched from outside, from its first answers to the last. `bench.live_cost` measures how long a record waits.
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
from typing import Any

import numpy as np
import orjson
from confluent_kafka import Producer
from confluent_kafka.admin import AdminClient
from resonance.pipeline.config.file import as_toml

from bench.load import steady_load
from bench.processes import Answers, Pace, pace, running
from bench.report import Row, arguments, show
from bench.streams import SPREADS, blobs
from tests.brokers import create_topic, running_broker

PARTITIONS = 4
FEATURES = 16
WORKERS: dict[str, dict[str, Any]] = {
    "worker": {},
    "worker-cloudevents": {"output": {"envelope": "cloudevents"}},
    "worker-two": {"processes": 2},
}
"""No headers for an answer, as the loops have none, or six; two processes."""
REFERENCES = {"bare": "tuned loop", "transactions": "tuned loop, transactions"}
CYCLE = 49_999
"""Records of a load that never ends, over and over; prime, so that each key has all of them in time."""
ENDING = ".assignments"
INPUTS = {"features", "live", "soak"}
"""Kinds of topics that a worker reads."""


def records(count: int, features: int = FEATURES) -> Iterator[bytes]:
    """Yield JSON records, of the stream that the engine's benchmark uses at 16 features."""
    X = np.round(blobs(count, features, SPREADS.get(features, 0.06), seed=3), 9)
    for i, row in enumerate(X.tolist()):
        yield orjson.dumps({"id": f"r{i:07d}", "features": row, "time": 1_700_000_000_000 + i})


class Bench:
    """A broker, its input topic, and the contestants."""

    def __init__(self, bootstrap: str, partitions: int = PARTITIONS) -> None:
        self.bootstrap = bootstrap
        self.partitions = partitions
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
        stream: str = "partition",
        engine: str = "modal",
        processes: int = 1,
        **more: dict[str, Any] | str,
    ) -> Iterator[subprocess.Popen[bytes]]:
        """Run the worker on a topic; `more`: further members of its settings file."""
        name = target.removesuffix(ENDING)
        with socket.socket() as probe:
            probe.bind(("127.0.0.1", 0))
            port = probe.getsockname()[1]
        values = {
            "name": name,
            "stream": stream,
            "engine": {"name": engine},
            "broker": {"bootstrap": self.bootstrap},
            "worker": {"web_port": port, "processes": processes},
            "input": {"topics": [source], "id_path": "id"},
            "delivery": {"mode": mode},
            "output": {"envelope": "events"},
            **more,
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

    def run(self, kind: str, source: str, count: int, **settings: Any) -> Pace:
        """Let one contestant answer, or a worker with some settings."""
        with self.topic(kind) as target:
            answers = Answers(self.bootstrap, target, self.partitions)
            contestant = (
                running(["bench.contestants", kind, self.bootstrap, source, target])
                if kind in REFERENCES
                else self.worker(source, target, **{**settings, **WORKERS.get(kind, {})})
            )
            with contestant as process:
                return pace(process, answers.count, count)

    def steady_load(self, source: str, rate: float, keys: int = PARTITIONS) -> AbstractContextManager[None]:
        """Produce records at a steady rate meanwhile, with so many keys in turn."""
        return steady_load(self.bootstrap, source, records(CYCLE), rate, PARTITIONS, keys)


def median(paces: list[Pace]) -> Pace:
    """Return the medians of several runs."""
    return Pace(statistics.median(p.rate for p in paces), statistics.median(p.cpu for p in paces))


def rows_of(found: dict[str, Pace]) -> list[Row]:
    """Return rate and CPU of the workers beside those of the loops, or of the loops alone."""
    rows = []
    workers = [name for name in WORKERS if name in found]
    for name in workers or found:
        for kind in [kind for kind in REFERENCES if kind in found] if workers else [name]:
            label, loop = REFERENCES[kind], found[kind]
            rows.append(Row(name, "records/s", found[name].rate, label, loop.rate))
            rows.append(Row(name, "us CPU/record", found[name].cpu, label, loop.cpu))
    return rows


def main() -> None:
    """Run the benchmark."""
    parser = arguments("How fast the worker moves records on a real Kafka.")
    parser.add_argument("--records", type=int, default=600_000, help="records of the input topic")
    parser.add_argument("--keys", type=int, default=PARTITIONS, help="models: a multiple of four, in turn")
    parser.add_argument("--engine", default="modal", help="engine of the models")
    parser.add_argument("--rounds", type=int, default=5, help="alternating runs that each median is taken of")
    parser.add_argument("--only", nargs="*", choices=[*WORKERS, *REFERENCES], help="contestants to run")
    given = parser.parse_args()
    paces: dict[str, list[Pace]] = {kind: [] for kind in given.only or [*WORKERS, *REFERENCES]}
    settings = {"engine": given.engine, "stream": "key" if given.keys > PARTITIONS else "partition"}
    with running_broker() as bootstrap:
        bench = Bench(bootstrap)
        with bench.topic("features") as source:
            bench.load(source, given.records, given.keys)
            for _ in range(given.rounds):
                for kind, runs in paces.items():
                    runs.append(bench.run(kind, source, given.records, **settings))
    title = f"One worker, exactly once, d={FEATURES}, {PARTITIONS} partitions, {given.keys:,} models of {given.engine}"
    show(title, rows_of({kind: median(runs) for kind, runs in paces.items()}), given.json)


if __name__ == "__main__":
    main()
