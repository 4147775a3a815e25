"""Whatever another program writes to the topic of the routes: it is counted, and nothing that follows is touched."""

import json
import random
from typing import Any

import orjson
import pytest
from resonance.pipeline.records import Outputs, Record
from resonance.pipeline.tasks import make_task

from tests.pipeline.routing.two_hops import ROUTES, Hops, inputs, interleaved, settings
from tests.pipeline.streams import STAMP, TOPIC

PARTITIONS = 3
STRANGE: tuple[Any, ...] = (None, True, -1, 3, 2**63, 2**64, 1e300, "x", '"', [], {}, [[]], -(2**63))


def routed() -> list[Record]:
    """What stands in one partition of the routes of a re-keyed deployment."""
    hops = Hops(settings("field:country"))
    for batch in interleaved(inputs(240)):
        hops.send(batch)
    return hops.routes[0]


def mutated(record: Record, rng: random.Random) -> Record:
    """A message of which something is another."""
    if rng.random() < 0.2:
        return record._replace(key=rng.choice([None, b"", b"\xff/", b"k" * 20_000, (record.key or b"") + b"x"]))
    if rng.random() < 0.2:
        return record._replace(headers=rng.choice([(), record.headers[1:], record.headers[:1], record.headers[::-1]]))
    if rng.random() < 0.4:
        (name, source), *others = record.headers
        numbers = orjson.loads(source or b"")
        numbers[rng.randrange(len(numbers))] = rng.choice(STRANGE)
        return record._replace(headers=[(name, json.dumps(numbers).encode()), *others])
    value = bytearray(record.value or b"")
    for _ in range(rng.randrange(1, 4)):
        value[rng.randrange(len(value))] = rng.randrange(256)
    return record._replace(value=bytes(value[: rng.randrange(len(value) + 1)]) if rng.random() < 0.5 else bytes(value))


def test_no_route_that_a_worker_could_not_have_written_ends_a_worker():
    rng, routes = random.Random(5), routed()
    for _ in range(30):
        task = make_task(settings("field:country"), ROUTES, 0, 2)
        task.input_partitions = PARTITIONS
        chosen = [mutated(record, rng) if rng.random() < 0.3 else record for record in routes]
        said = task.process(chosen)
        assert [task.snapshot(stream) for stream in task.streams]
        assert task.partition_state()
        assert all(m.partition is None or 0 <= m.partition < PARTITIONS for m in said.assignments + said.dead_letters)


@pytest.mark.parametrize(
    "source",
    [
        ["a b", 0, 4, STAMP, -1],
        [TOPIC, -1, 4, STAMP, -1],
        [TOPIC, PARTITIONS, 4, STAMP, -1],
        [TOPIC, 0, -4, STAMP, -5],
        [TOPIC, 0, 4, STAMP, 4],
        [TOPIC, 0, 2**63, STAMP, 4],
        [TOPIC, True, 4, STAMP, 3],
    ],
)
def test_a_route_from_a_place_that_is_not_there_is_left_aside(source: list[Any]):
    task = make_task(settings(), ROUTES, 0, 1)
    task.input_partitions = PARTITIONS
    headers = (("resonance.source", orjson.dumps(source)), ("resonance.key", None))
    assert task.process([Record(ROUTES, 0, 0, STAMP, b"k", b'{"cpu": 1}', headers)]) == Outputs()
