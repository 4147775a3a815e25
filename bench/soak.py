"""What a worker holds for long: near its highest rate without falling behind, and many keys without growing.

One worker on a real Kafka on the same machine, four partitions of JSON records with 16 features, exactly once, default
settings. The highest rate is found first, with the producer running: the last of rising ones at which the group is
never more than a second behind. The models of many keys are filled first: one grows until it has as many landmarks as
it keeps, and what shall not grow is what comes after.
"""

import itertools
import statistics
import subprocess
import sys
import time

from confluent_kafka import Consumer, KafkaException, TopicPartition
from rich.console import Console
from rich.progress import Progress

from bench.memory import resident
from bench.pipeline import CYCLE, ENDING, FEATURES, PARTITIONS, Bench, records
from bench.report import Row, arguments, show
from tests.brokers import running_broker

FIRST_RATE, STEP = 8_000.0, 1.25
STEP_SECONDS, SETTLE_SECONDS = 20.0, 8.0
LOOK_SECONDS = 0.25
BOUND = 1.0
"""Seconds that the group may be behind."""
KEPT = {"retention_bytes": str(200_000_000), "segment_bytes": str(50_000_000)}
"""Of each partition: an hour would fill a disk."""
FULL = 1_500
"""Records after which a model of the default engine no longer grows."""
PORTION = 1_000_000
"""Records that are loaded at once, well within what is kept."""


class Group:
    """The offsets of a worker's group beside the ends of its input."""

    def __init__(self, bootstrap: str, name: str, topic: str) -> None:
        self._client = Consumer({"bootstrap.servers": bootstrap, "group.id": name, "enable.auto.commit": False})
        self._places = [TopicPartition(topic, partition) for partition in range(PARTITIONS)]

    def ends(self) -> int:
        """Return the records that were produced."""
        return sum(self._client.get_watermark_offsets(place, timeout=20)[1] for place in self._places)

    def behind(self) -> int:
        """Return the records that are not committed yet: all while a new broker has no coordinator."""
        try:
            done = sum(max(place.offset, 0) for place in self._client.committed(self._places, timeout=20))
        except KafkaException:
            done = 0
        return self.ends() - done

    def close(self) -> None:
        """Close the client."""
        self._client.close()


class Soak:
    """A worker on topics of its own.

    Attributes
    ----------
    worker : Popen
        Its process.
    """

    def __init__(
        self, bench: Bench, source: str, group: Group, worker: subprocess.Popen[bytes], progress: Progress
    ) -> None:
        self.worker = worker
        self._bench, self._source, self._group, self._progress = bench, source, group, progress

    def fill(self, count: int, keys: int) -> None:
        """Have the worker process records of all keys in turn, as fast as it can."""
        bar = self._progress.add_task(f"{count:,} records first", total=count)
        values = itertools.cycle(list(records(CYCLE)))
        for start in range(0, count, PORTION):
            self._bench.load(self._source, min(PORTION, count - start), keys, values)
            self.wait()
            self._progress.update(bar, completed=min(start + PORTION, count))
        self._progress.remove_task(bar)

    def wait(self) -> None:
        """Wait until everything is answered."""
        while self._group.behind():
            self._look()
            time.sleep(LOOK_SECONDS)

    def _look(self) -> float:
        """Return the resident MB of the worker, which must be there."""
        if (code := self.worker.poll()) is not None:
            raise RuntimeError(f"the worker has ended with exit code {code}")
        return resident(self.worker.pid)

    def hold(self, rate: float, seconds: float, keys: int, what: str) -> tuple[list[float], list[float]]:
        """Hold a rate; return how far the group was behind in seconds, and the worker's resident MB, look by look.

        Seconds that begin when the producer has settled. A producer that cannot hold the rate counts as behind.
        """
        lags: list[float] = []
        memory: list[float] = []
        bar = self._progress.add_task(f"{what} at {rate:,.0f} records/s", total=seconds)
        with self._bench.steady_load(self._source, rate, keys):
            time.sleep(SETTLE_SECONDS)
            began, first = time.monotonic(), self._group.ends()
            while (passed := time.monotonic() - began) < seconds:
                late = passed - (self._group.ends() - first) / rate
                lags.append(max(self._group.behind() / rate, late))
                memory.append(self._look())
                self._progress.update(bar, completed=passed)
                time.sleep(LOOK_SECONDS)
        self._progress.remove_task(bar)
        self.wait()
        return lags, memory

    def highest(self) -> float:
        """Return the highest rate that is held."""
        rate = FIRST_RATE
        while max(self.hold(rate, STEP_SECONDS, PARTITIONS, "searching")[0]) <= BOUND:
            rate *= STEP
        return rate / STEP


def near_the_highest_rate(soak: Soak, minutes: float) -> list[Row]:
    """Return how far the group was behind at 80 % of the highest rate."""
    highest = soak.highest()
    lags, _ = soak.hold(0.8 * highest, 60 * minutes, PARTITIONS, "holding")
    case = f"{minutes:g} min at 80 % of the highest rate, d={FEATURES}"
    return [
        Row("highest rate with its producer on the machine", "records/s", highest),
        Row(f"{case}, 99 % of the looks", "s behind", statistics.quantiles(lags, n=100)[98], "bar", BOUND),
        Row(f"{case}, worst look", "s behind", max(lags), "bar", BOUND),
    ]


def many_keys(soak: Soak, minutes: float, keys: int, rate: float, first: int) -> list[Row]:
    """Return the worker's memory at the end beside that after a third of the time, behind the `first` of each key."""
    soak.fill(first * keys, keys)
    lags, memory = soak.hold(rate, 60 * minutes, keys, f"{keys:,} keys")
    tenth = max(len(memory) // 10, 1)
    third = len(memory) // 3
    before, after = statistics.mean(memory[third : third + tenth]), statistics.mean(memory[-tenth:])
    case = f"{keys:,} keys for {minutes:g} min at {rate:,.0f} records/s"
    return [
        Row(f"{case}, last tenth", "MB resident", after, "after a third", before),
        Row(f"{case}, worst look", "s behind", max(lags), "bar", BOUND),
    ]


def main() -> None:
    """Run it."""
    parser = arguments("A worker near its highest rate for minutes, and with many keys for an hour.")
    parser.add_argument("--minutes", type=float, default=10.0, help="near the highest rate; 0 leaves it out")
    parser.add_argument("--keys-minutes", type=float, default=60.0, help="with many keys; 0 leaves it out")
    parser.add_argument("--keys", type=int, default=10_000, help="keys: a multiple of four")
    parser.add_argument("--first", type=int, default=FULL, help="records of each key before the time begins")
    parser.add_argument("--rate", type=float, default=2_500.0, help="records a second of all keys together")
    given = parser.parse_args()
    console, rows = Console(stderr=True), list[Row]()
    runs = [("partition", given.minutes), ("key", given.keys_minutes)]
    with running_broker() as bootstrap, Progress(console=console, disable=not console.is_terminal) as progress:
        bench = Bench(bootstrap)
        for stream, minutes in runs:
            if not minutes:
                continue
            with (
                bench.topic("soak", **KEPT) as source,
                bench.topic("answers", **KEPT) as target,
                bench.worker(source, target, stream=stream) as worker,
            ):
                group = Group(bootstrap, target.removesuffix(ENDING), source)
                soak = Soak(bench, source, group, worker, progress)
                # The engine is loaded, and every partition assigned.
                bench.load(source, 1_000)
                soak.wait()
                if stream == "partition":
                    rows += near_the_highest_rate(soak, minutes)
                else:
                    rows += many_keys(soak, minutes, given.keys, given.rate, given.first)
                group.close()
    show("A worker over a long time", rows, given.json)


if __name__ == "__main__":
    sys.exit(main())
