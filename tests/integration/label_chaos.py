"""Disturbed workers that learn labels from a topic of their own: early, late, and too late."""

import random
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from confluent_kafka import TopicPartition

from tests.brokers import create_topic
from tests.integration.chaos import GROUPS, Chaos, datasets, feed
from tests.integration.workers import consumer

PARTITIONS = 2


def labels(first: int, count: int, inputs: int, rng: random.Random) -> Iterator[tuple[int, bytes, bytes | None]]:
    """Yield (partition, key, value): labels for two of three records, in about their order, and some for nobody."""
    numbers = [n for n in range(first, first + count) if n % 3]
    for n in sorted(numbers, key=lambda n: n + rng.choice((0, 0, 200, count))):
        said = b'["c%d"%b]' % (n % 4, b',"even"' if n % 2 == 0 else b"")
        value = b'{"id": "r%d", "labels": %b, "stream": "g%d"}' % (n, said, n // inputs % GROUPS)
        if n % 499 == 100:
            value = b'{"id": "nobody%d", "labels": [], "stream": "g%d"}' % (n, n % GROUPS)
        elif n % 997 == 10:
            value = b'{"labels": []}'
        yield n % PARTITIONS, b"l%d" % n, value


class LabelChaos(Chaos):
    """As `Chaos`, with a topic of labels that has fewer partitions than the input; parameters as there."""

    def __init__(self, broker: str, *, records: int, settings: Mapping[str, Any], folder: Path, seed: int) -> None:
        self._labels = create_topic(broker, "labels", partitions=PARTITIONS)
        taught = {
            "labels.topic": self._labels,
            "labels.buffer_records": 150,
            "labels.wait_records": 150,
            "input.dimension": datasets()[0].shape[1],
            "engine.max_nodes": 40,
        }
        super().__init__(broker, records=records, settings={**taught, **settings}, folder=folder, seed=seed)

    def _feed(self, count: int) -> None:
        first = self.records
        super()._feed(count)
        feed(self.deployment.broker, self._labels, labels(first, count, self.PARTITIONS, self.rng), self.rng)
        with consumer(self.deployment.broker, self.deployment.name) as asked:
            self._ends += sum(asked.get_watermark_offsets(place, timeout=20)[1] for place in self._label_places())

    def _label_places(self) -> list[TopicPartition]:
        return [TopicPartition(self._labels, partition) for partition in range(PARTITIONS)]

    def _position(self) -> int:
        places = self._progress.committed(self._label_places(), timeout=20)
        return super()._position() + sum(max(place.offset, 0) for place in places)
