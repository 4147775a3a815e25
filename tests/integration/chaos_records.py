"""Real data as records for several partitions, some of no use, written in transactions of which some are aborted."""

import json
from itertools import islice
from pathlib import Path

import numpy as np
from confluent_kafka import Producer

SHARED = Path(__file__).resolve().parents[2].parent / "shared"

GROUPS = 5
"""Values of a member by which streams can be re-keyed: some in each of four partitions."""


def datasets():
    """Real data of two shapes: statlog, or breast cancer where it is not at hand, and digits."""
    from sklearn.datasets import load_breast_cancer, load_digits

    file = SHARED / "data" / "statlog.npz"
    first = np.load(file)["X"] if file.exists() else load_breast_cancer().data
    return [first, load_digits().data]


NEW_NAMES = 100
"""Records of a partition after which sparse ones have a feature more."""


SPOILED = range(600, 655)
"""Records of the first partition that are of no use one behind the other, which opens an alert."""


WAVE = 300
"""Records of a partition, 10 ms apart, after which another key comes, where streams end."""


def values(first, count, partitions, keys, *, alike=False, sparse=False, waves=False):
    """Yield (partition, key, value): the data sets over and over, and here and there something unusable.

    With `alike` it is one data set everywhere, as it must be where records of all partitions are learned together. With
    `sparse` it is what is not zero in the digits, by name, and a feature that comes for a while and never again. With
    `waves` the keys take turns.
    """
    if sparse:
        sets = [[json.dumps({f"p{i}": row[i] for i in np.flatnonzero(row)})[:-1] for row in datasets()[1]]]
    else:
        sets = [[json.dumps(row.tolist()) for row in rows] for rows in datasets()[: 1 if alike else None]]
    for n in range(first, first + count):
        partition, place = n % partitions, n // partitions
        rows = sets[partition % len(sets)]
        # Where all partitions are learned together, the same row four times in a row would be no data with clusters.
        row = rows[(n if alike else place) % len(rows)].encode()
        if sparse:
            row += b', "new%d": 8}' % (place // NEW_NAMES)
        value = b'{"id": "r%d", "group": "g%d", "features": %s}' % (n, place % GROUPS, row)
        if waves:
            value = value[:-1] + b', "at": %d}' % (1_700_000_000_000 + 10 * place)
        if partition == 0 and place in SPOILED:
            value = b'"no record"'
        elif n % 997 == 500:
            value = b"this is no JSON"
        elif n % 1499 == 700:
            value = None
        elif n % 1999 == 900:
            value = b'{"id": "r%d", "group": "g1", "features": [1, 2, 3]}' % n
        yield partition, b"k%d" % ((place // WAVE if waves else place) % keys), value


def bunched(records, most=5):
    """Yield some records of a partition and a key as one message with a record on each line."""
    waiting = {}
    for number, (partition, key, value) in enumerate(records):
        own = waiting.setdefault((partition, key), [])
        if value is not None:
            own.append(value)
        if value is None or len(own) > number % most:
            yield partition, key, b"\n".join(own) if own else None
            own.clear()
    for (partition, key), own in waiting.items():
        if own:
            yield partition, key, b"\n".join(own)


def produce(broker, topic, records, rng):
    """Write records in transactions, with aborted ones between them."""
    producer = Producer(
        {"bootstrap.servers": broker, "transactional.id": f"{topic}-produce", "linger.ms": 5, "batch.size": 500_000}
    )
    producer.init_transactions(30)
    waiting = iter(records)
    while batch := list(islice(waiting, rng.randrange(200, 1200))):
        producer.begin_transaction()
        for partition, key, value in batch:
            producer.produce(topic, value, key, partition)
        producer.commit_transaction(60)
        if rng.random() < 0.5:
            producer.begin_transaction()
            for partition, key, value in batch[: rng.randrange(1, 40)]:
                producer.produce(topic, value, key, partition)
            producer.flush(30)
            producer.abort_transaction(60)
