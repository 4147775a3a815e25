"""How fast recorded data are replayed: a topic beside the partition task alone, and a file in two processes beside one.

``python -m bench.replay`` starts a Kafka broker unless ``KAFKA_BOOTSTRAP`` names one.
"""

import tempfile
import time
from pathlib import Path

import orjson
from resonance.pipeline.config.settings import Settings
from resonance.pipeline.files.rows import Columns
from resonance.pipeline.kafka.ranges import Span
from resonance.pipeline.machine import collect_rarely
from resonance.pipeline.records import Record
from resonance.pipeline.replay.replaying import replay_file, replay_topics
from resonance.pipeline.task.partition_task import PartitionTask

from bench.pipeline import Bench, records
from bench.report import Row, alternating, arguments, show
from tests.brokers import running_broker

CHUNK = 500
"""Records that a worker gets at once, about."""

FILE_PARTITIONS = 4
KEYS = 20_000
"""So many that the partitions get about the same."""


class Contest:
    """Records in memory, on a topic and in a file, and what is done with them.

    Parameters
    ----------
    bootstrap : str
        Broker.
    topic : str
        Input topic, filled.
    file : Path
        The same records, with keys.
    count : int
        How many there are.
    """

    def __init__(self, bootstrap: str, topic: str, file: Path, count: int) -> None:
        self._settings = Settings.of(
            {
                "name": "bench-replay",
                "stream": "partition",
                "broker.bootstrap": bootstrap,
                "input": {"topics": [topic], "id_path": "id", "dimension": 16},
            }
        )
        self._topic, self._file, self._count = topic, file, count
        values = list(records(count))
        self._records = [Record(topic, 0, i, 1_700_000_000_000 + i, b"k0", value) for i, value in enumerate(values)]
        self._settings.compile_engine()

    def alone(self) -> float:
        """Return the rate of decoding, learning and encoding records that are in memory."""
        task = PartitionTask(self._settings, self._topic, 0)
        began = time.perf_counter()
        for start in range(0, self._count, CHUNK):
            task.process(self._records[start : start + CHUNK])
        return self._count / (time.perf_counter() - began)

    def topic(self) -> float:
        """Return the rate of a replay of the topic, in this process."""
        return replay_topics(self._settings, [self._topic], Span(), processes=1).rate

    def file(self, processes: int) -> float:
        """Return the rate of a replay of the file."""
        summary = replay_file(
            self._settings, self._file, Columns(key="key"), partitions=FILE_PARTITIONS, processes=processes
        )
        assert summary.records == self._count
        return summary.rate


def main() -> None:
    """Run the benchmark."""
    parser = arguments("How fast a topic and a file are replayed.")
    parser.add_argument("--records", type=int, default=400_000, help="records of the topic and of the file")
    parser.add_argument("--rounds", type=int, default=3, help="alternating runs that each median is taken of")
    given = parser.parse_args()
    collect_rarely()
    with running_broker() as bootstrap, tempfile.TemporaryDirectory() as folder:
        bench = Bench(bootstrap, partitions=1)
        file = Path(folder) / "records.jsonl"
        with file.open("wb") as lines:
            for i, value in enumerate(records(given.records)):
                lines.write(orjson.dumps(orjson.loads(value) | {"key": f"k{i % KEYS}"}) + b"\n")
        with bench.topic("replayed") as topic:
            bench.load(topic, given.records)
            contest = Contest(bootstrap, topic, file, given.records)
            found = alternating(
                {
                    "alone": contest.alone,
                    "topic": contest.topic,
                    "one": lambda: contest.file(1),
                    "two": lambda: contest.file(2),
                },
                given.rounds,
            )
    rows = [
        Row("replay of a topic, one process", "records/s", found["topic"], "partition task alone", found["alone"]),
        Row("replay of a JSONL file, two processes", "records/s", found["two"], "one process", found["one"]),
    ]
    show("Replay: default settings, 16 features", rows, given.json)


if __name__ == "__main__":
    main()
