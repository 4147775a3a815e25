"""What a live stream costs: the share of a core that a worker needs, and how long a record waits for its answer.

Four partitions of JSON records with 16 features at steady rates, one worker with the default engine, both deliveries;
beside each a tuned loop of confluent-kafka without models. At the rate 0 no record comes. The models have all their
landmarks before the clock runs. A record waits from the broker's append to the moment at which a reader of committed
records holds its answer; each run ends with one answer to every record, or with an error. Broker, producer and reader
run on the same machine.
"""

import os
import statistics
import subprocess
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import closing, nullcontext
from dataclasses import dataclass, fields

import orjson
from confluent_kafka import Consumer, TopicPartition
from resonance.pipeline.cli.output import progress

from bench.pipeline import FEATURES, PARTITIONS, REFERENCES, Bench
from bench.processes import STALLED_SECONDS, cpu_of, running
from bench.report import Row, arguments, show
from tests.brokers import running_broker

CATCH_UP_SECONDS = 300.0
"""How long a worker may take to start and to work off what has come meanwhile."""
READER = {
    "group.id": "bench-latency",
    "isolation.level": "read_committed",
    "enable.auto.commit": False,
    "fetch.wait.max.ms": 10,
    "fetch.queue.backoff.ms": 1,
}
"""A reader of committed records that adds little to the wait."""
LOOPS = {"exactly_once": "transactions", "at_least_once": "bare"}
"""By the worker's delivery: the loop that delivers as it does."""
FIRST_RECORDS = 8_000
"""Records before the clock runs, after which a model of the default engine no longer grows."""
SETTLE_SECONDS = 15.0
POLL_SECONDS = 0.005


@dataclass(frozen=True, slots=True)
class Cost:
    """What one run of a contestant took.

    Attributes
    ----------
    core : float
        Per cent of one core that all threads of the process used.
    rate : float
        Records a second that came; fewer than wanted where the machine was too busy to send them.
    middle, slow : float or None
        Milliseconds from record to answer, p50 and p99; None where no record came.
    """

    core: float
    rate: float
    middle: float | None
    slow: float | None


class Reader:
    """Reads a topic from its beginning as a consumer of committed records.

    Attributes
    ----------
    found : list of list of (str, float)
        By partition, of each record the id, and the time at which it was read or appended (`read`).
    """

    def __init__(self, bootstrap: str, topic: str) -> None:
        self.found: list[list[tuple[str, float]]] = [[] for _ in range(PARTITIONS)]
        self._consumer = Consumer({"bootstrap.servers": bootstrap, **READER})
        self._places = [TopicPartition(topic, partition, 0) for partition in range(PARTITIONS)]
        self._consumer.assign(self._places)

    @property
    def count(self) -> int:
        """The records that were read."""
        return sum(map(len, self.found))

    def ends(self) -> int:
        """Return the records of a topic without transactions."""
        return sum(self._consumer.get_watermark_offsets(place, timeout=20)[1] for place in self._places)

    def read(self, appended: bool = False) -> None:
        """Read what comes in a moment, with the times at which it was appended or those of now."""
        messages = self._consumer.consume(1000, POLL_SECONDS)
        now = time.time()
        for message in messages:
            if message.error() is not None:
                continue  # passes, such as a leader that is being elected; a record that is missing is found in the end
            at = message.timestamp()[1] / 1000 if appended else now
            self.found[message.partition()].append((orjson.loads(message.value())["id"], at))

    def read_until(self, count: int, process: subprocess.Popen[bytes], patience: float, appended: bool = False) -> None:
        """Read so many records that a process writes, which may take `patience` seconds without any."""
        seen, end = self.count, time.monotonic() + patience
        while seen < count:
            self.read(appended)
            if self.count > seen:
                seen, end = self.count, time.monotonic() + patience
            if process.poll() is not None or time.monotonic() > end:
                state = "goes on" if process.poll() is None else f"ended with {process.returncode}"
                raise RuntimeError(f"{seen:,} of {count:,} records after {patience:g} s; the process {state}")

    def read_for(self, seconds: float) -> None:
        """Read for some seconds."""
        end = time.monotonic() + seconds
        while time.monotonic() < end:
            self.read()

    def close(self) -> None:
        """Close the client."""
        self._consumer.close()


def waits(
    records: Sequence[Sequence[tuple[str, float]]],
    answers: Sequence[Sequence[tuple[str, float]]],
    began: float,
    ended: float,
) -> list[float]:
    """Return in order how many milliseconds the records waited that were appended in between, by id and time of each.

    Raises `ValueError` unless each partition has one answer to every record, in order.
    """
    found = []
    for partition, (appended, answered) in enumerate(zip(records, answers, strict=True)):
        if [name for name, _ in appended] != [name for name, _ in answered]:
            raise ValueError(
                f"partition {partition}: {len(answered):,} answers are not one to each of {len(appended):,} records"
            )
        pairs = zip(appended, answered, strict=True)
        found += [1000 * (read - at) for (_, at), (_, read) in pairs if began <= at < ended]
    return sorted(found)


def measure(bench: Bench, kind: str, rate: float, seconds: float) -> Cost:
    """Run a contestant at a rate and look at it for some seconds."""
    with (
        bench.topic("live", message_timestamp_type="LogAppendTime") as source,
        bench.topic(kind) as target,
        closing(Reader(bench.bootstrap, source)) as records,
        closing(Reader(bench.bootstrap, target)) as answers,
    ):
        bench.load(source, FIRST_RECORDS)
        contestant = (
            bench.worker(source, target, kind)
            if kind in LOOPS
            else running(["bench.contestants", kind, bench.bootstrap, source, target])
        )
        with contestant as process:
            answers.read_until(FIRST_RECORDS, process, CATCH_UP_SECONDS)
            with bench.steady_load(source, rate) if rate else nullcontext():
                # The load takes a while to start.
                answers.read_until(FIRST_RECORDS + (rate > 0), process, STALLED_SECONDS)
                answers.read_for(SETTLE_SECONDS)
                began, used = time.time(), cpu_of(process.pid)
                answers.read_for(seconds)
                ended, used = time.time(), cpu_of(process.pid) - used
            count = records.ends()
            answers.read_until(count, process, STALLED_SECONDS)
            records.read_until(count, process, STALLED_SECONDS, appended=True)
            found = waits(records.found, answers.found, began, ended)
    if rate and not found:
        raise RuntimeError(f"{kind}: no record came at {rate:g} records/s in {seconds:g} s")
    middle, slow = (found[len(found) * percent // 100] if found else None for percent in (50, 99))
    return Cost(100 * used / (ended - began), len(found) / (ended - began), middle, slow)


def median(runs: Sequence[Cost]) -> Cost:
    """Return the medians of several runs."""
    found = ([getattr(run, each.name) for run in runs] for each in fields(Cost))
    return Cost(*(None if None in values else statistics.median(values) for values in found))


def costs(
    bench: Bench,
    modes: Sequence[str],
    rates: Sequence[float],
    rounds: int,
    seconds: float,
    done: Callable[[float], None],
) -> dict[tuple[str, float], Cost]:
    """Return the medians of alternating runs of the worker in its modes, and of their loops, at all rates."""
    kinds = [kind for mode in modes for kind in (mode, LOOPS[mode])]
    found: dict[tuple[str, float], list[Cost]] = {(kind, rate): [] for rate in rates for kind in kinds}
    for number in range(rounds):
        for place, (run, its) in enumerate(found.items()):
            its.append(measure(bench, *run, seconds))
            done((number + (place + 1) / len(found)) / rounds)
    return {run: median(its) for run, its in found.items()}


def rows_of(found: Mapping[tuple[str, float], Cost]) -> list[Row]:
    """Return the figures of the worker beside those of the loops."""
    rows = []
    for (mode, rate), worker in found.items():
        if mode not in LOOPS:
            continue
        loop, label = found[LOOPS[mode], rate], REFERENCES[LOOPS[mode]]
        case = f"worker {mode} d={FEATURES}, {f'{rate:,.0f} records/s' if rate else 'idle'}"
        rows.append(Row(case, "% of a core", worker.core, label, loop.core))
        if worker.middle is not None and worker.slow is not None:
            rows.append(Row(case, "records/s", worker.rate, label, loop.rate))
            rows.append(Row(case, "ms p50", worker.middle, label, loop.middle))
            rows.append(Row(case, "ms p99", worker.slow, label, loop.slow))
    return rows


def main() -> None:
    """Run the benchmark."""
    parser = arguments("What a live stream costs, and how long a record waits.")
    parser.add_argument("--rates", type=float, nargs="+", default=[0, 200, 2_000, 10_000], help="records/s; 0: idle")
    parser.add_argument("--rounds", type=int, default=5, help="alternating runs that each median is taken of")
    parser.add_argument("--seconds", type=float, default=20.0, help="how long each run is looked at")
    parser.add_argument("--modes", nargs="+", choices=LOOPS, default=list(LOOPS), help="deliveries of the worker")
    given = parser.parse_args()
    with running_broker() as bootstrap, progress("live streams", 1.0) as done:
        found = costs(Bench(bootstrap), given.modes, given.rates, given.rounds, given.seconds, done)
    show(f"A live stream, machine load {os.getloadavg()[0]:.1f}", rows_of(found), given.json)


if __name__ == "__main__":
    main()
