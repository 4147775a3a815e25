"""Sparse records over the routes: what a stream learns is what a partition of its own would teach it."""

from collections import defaultdict

import orjson
import pytest
from resonance.pipeline.records import Message, Record
from resonance.pipeline.repartition.envelope import read_route
from resonance.pipeline.task.model.stream_model import StreamModel

from tests.pipeline.memory_deployment import rekeyed
from tests.pipeline.repartition.test_restarts import by_stream
from tests.pipeline.repartition.two_hops import ROUTES
from tests.pipeline.sparse_streams import by_index, by_name, entries, sparse_settings
from tests.pipeline.streams import STAMP, TOPIC, run, task

SPARSE = {
    "input__features": None,
    "input__sparse": "words",
    "prepare__warmup_records": None,
    "engine__name": "sa_art",
    "engine__lambda": None,
    "engine__min_cluster_records": None,
    "snapshots__records": 40,
    "snapshots__ratio": 0,
}


def deployment(patch, stream):
    """A deployment with 300 sparse records of three countries, those of France by index where it is a stream."""
    made = rekeyed(patch, records=0, stream=stream, **SPARSE)
    for partition in made.partitions:
        made.logs[TOPIC, partition] = []
    for i, record in enumerate(entries(300)):
        country = ("DE", "FR", "IT")[i % 5 % 3]
        words = by_index(record) if country == "FR" and stream != "topic" else by_name(record)
        value = orjson.dumps({"id": f"r{i}", "country": country, "words": words})
        made.append((TOPIC, i % 2), Message(b"k%d" % (i % 4), value, []), timestamp=STAMP + 1_000 * i)
    return made


@pytest.mark.parametrize(("stream", "streams"), [("topic", 1), ("field:country", 3)])
def test_routed_sparse_records_are_learned_as_those_of_a_partition(monkeypatch, stream, streams):
    calm, broken = deployment(monkeypatch, stream), deployment(monkeypatch, stream)
    calm.turn()
    broken.turn(only=TOPIC)
    for share in (0.4, 0.0, 0.5, 1.0):
        broken.turn(share, only=ROUTES)
    found = calm.models()
    assert (broken.models(), by_stream(broken), len(found)) == (found, by_stream(calm), streams)
    values = defaultdict(list)
    for partition in range(3):
        for route in calm.logs[ROUTES, partition]:
            record = read_route(route)
            values[record.stream].append(record.value)
    learned = set()
    for some in values.values():
        alone = task(sparse_settings())
        outputs = run(alone, [Record(TOPIC, 0, i, STAMP, None, value) for i, value in enumerate(some)])
        assert (len(outputs.assignments), outputs.dead_letters) == (len(some), [])
        learned.add(parts(alone.models.named("p0")))
    assert {parts(StreamModel.from_state("sa_art", name, state)) for name, state in found.items()} == learned


def parts(model):
    return model.preparation.state(), model.engine.state()
