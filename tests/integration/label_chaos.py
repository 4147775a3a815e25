"""Disturbed workers that learn labels from a topic of their own: early, late, and too late."""

import json

from confluent_kafka import TopicPartition

from tests.brokers import create_topic
from tests.integration.chaos import Chaos
from tests.integration.chaos_records import GROUPS, datasets, produce, values
from tests.integration.workers import consumer

PARTITIONS = 2


def labels(first, count, inputs, rng):
    """Yield (partition, key, value): labels for two of three records, in about their order, and some for no record."""
    numbers = [n for n in range(first, first + count) if n % 3]
    numbers += [n for n in numbers if n % 97 == 1]  # twice
    for n in sorted(numbers, key=lambda n: n + rng.choice((0, 0, 200, count))):
        said = b'["c%d"%b]' % (n % 4, b',"even"' if n % 2 == 0 else b"")
        value = b'{"id": "r%d", "labels": %b, "stream": "g%d"}' % (n, said, n // inputs % GROUPS)
        if n % 499 == 100:
            value = b'{"id": "nobody%d", "labels": [], "stream": "g%d"}' % (n, n % GROUPS)
        elif n % 997 == 10:
            value = b'{"labels": []}'
        yield n % PARTITIONS, b"l%d" % n, value


PATIENCE = 10_000
"""Messages that labels wait for their record, at most."""


def usable(first, count, inputs):
    """Yield the ids of the records that can be learned."""
    dimension = datasets()[0].shape[1]
    for _, _, value in values(first, count, inputs, 5, alike=True):
        if value is not None and value.startswith(b"{"):
            record = json.loads(value)
            if len(record["features"]) == dimension:
                yield record["id"]


class LabelChaos(Chaos):
    """As `Chaos`, with a topic of labels that has fewer partitions than the input; parameters as there.

    The routes have records and labels in the order in which two workers happen to send them, which is another one in
    every run. So where a stream has no more messages than labels can wait, every label meets its record in any order:
    how many records are labelled, and how often twice, is then a matter of what was written alone. Beyond that labels
    have 150 records of time, and it is the order that decides which are too late.

    Attributes
    ----------
    labelled, repeats : int or None
        Records that get labels, and labels that come a second time; None where it depends on the order.
    """

    def __init__(self, broker, *, records, settings, folder, seed):
        self._labels = create_topic(broker, "labels", partitions=PARTITIONS)
        dimension = datasets()[0].shape[1]
        self._is_patient = 2 * records / GROUPS < PATIENCE
        self._usable = set()
        self._named = []
        time = PATIENCE if self._is_patient else 150
        by_labels = {
            "labels.topic": self._labels,
            "labels.buffer_records": time,
            "labels.wait_records": time,
            "input.dimension": dimension,
            "engine.max_nodes": 40,
            # Where most labels come too late, they are no reason to pause.
            **({} if self._is_patient else {"dlq.max_share": 1}),
        }
        super().__init__(broker, records=records, settings={**by_labels, **settings}, folder=folder, seed=seed)

    @property
    def labelled(self):
        return len(self._usable.intersection(self._named)) if self._is_patient else None

    @property
    def repeats(self):
        return len(self._named) - len(set(self._named)) if self._is_patient else None

    def _feed(self, count):
        first = self.records
        super()._feed(count)
        self._usable |= set(usable(first, count, self.PARTITIONS))
        messages = list(labels(first, count, self.PARTITIONS, self.rng))
        self._named += [said["id"] for said in (json.loads(value or b"{}") for _, _, value in messages) if "id" in said]
        produce(self.deployment.broker, self._labels, messages, self.rng)
        with consumer(self.deployment.broker, self.deployment.name) as wanted:
            self._ends += sum(wanted.get_watermark_offsets(place, timeout=20)[1] for place in self._label_places())

    def _label_places(self):
        return [TopicPartition(self._labels, partition) for partition in range(PARTITIONS)]

    def _position(self):
        places = self._progress.committed(self._label_places(), timeout=20)
        return super()._position() + sum(max(place.offset, 0) for place in places)
