"""A topic of records and one of labels that come later, through both hops."""

import numpy as np
import orjson
from resonance.pipeline.config.settings import Settings
from resonance.pipeline.records import Record
from resonance.pipeline.tasks import make_task

from tests.pipeline.repartition.two_hops import ROUTES, Hops
from tests.pipeline.streams import STAMP, TOPIC, restore, stored

LABELS = "labels"

TAUGHT = {
    "input__topics": [TOPIC],
    "engine__name": "mlca",
    "engine__lambda": 10,
    "input__id_path": "id",
    "input__features": "x",
    "input__dimension": 2,
    "prepare__warmup_records": 20,
}


def labelled(**changes):
    """Settings of an engine that is labelled by labels; those that are None are left out."""
    given = {**TAUGHT, **changes}
    return Settings.of({name.replace("__", "."): value for name, value in given.items() if value is not None})


def late(stream="topic", **changes):
    """Settings with a topic of labels."""
    return labelled(**{"stream": stream, "labels__topic": LABELS, **changes})


def rows(count, seed=0):
    return np.random.default_rng(seed).random((count, 2)).tolist()


def labels_of(row):
    """What is said of a point: on the right, above, both or neither."""
    return [label for label, high in zip(("right", 7), row, strict=True) if high > 0.5]


def feature(offset, row, **members):
    value = orjson.dumps({"id": f"r{offset}", "x": list(row), **members})
    return Record(TOPIC, 0, offset, STAMP + 1_000 * offset, b"k", value)


def label(offset, own, labels, partition=0, **members):
    value = orjson.dumps({"id": own, "labels": labels, **members})
    return Record(LABELS, partition, offset, STAMP + 1_000_000 + offset, b"l", value, (("traceparent", b"00-9"),))


def feedback(count, seed=0):
    """Records and labels in the order of their routes: early, late, too late, said twice, and never said."""
    rng = np.random.default_rng(seed)
    points = rows(count, seed)
    coming = []
    for i, row in enumerate(points):
        coming.append((float(i), 0, i, row))
        for _ in range(int(rng.choice([0, 1, 1, 1, 2]))):
            coming.append((i + float(rng.choice([-30.5, -4.5, 0.5, 8.5, 60.5])), 1, f"r{i}", labels_of(row)))
    coming.append((count / 2, 1, "nobody", ["right"]))
    log = []
    said = 0
    for _, kind, own, what in sorted(coming, key=lambda entry: entry[:2]):
        if kind:
            log.append(label(said, own, what))
            said += 1
        else:
            log.append(feature(own, what))
    return log


def routed(given, log, routes=1):
    """Both hops with some records on their way, in that order."""
    hops = Hops(given, routes)
    for record in log:
        hops.send([record])
    return hops


def learned(given, log):
    """What the second hop says of some records."""
    hops = routed(given, log)
    hops.learn()
    return said(hops)


def said(hops):
    """What the second hop has said, where all of it is learned in one place."""
    (outputs,) = hops.second.values()
    return outputs


def restarted(given, task):
    """A task that goes on from the snapshots of another."""
    fresh = make_task(given, ROUTES, task.partition)
    restore(fresh, *stored(task))
    return fresh
