"""Whatever another program writes to the topic of the routes: it is counted, and nothing that follows is touched."""

import json
import math
import random
import struct

import orjson
import pytest
from resonance.engine.prepare import Preparation
from resonance.pipeline.config.settings import Settings
from resonance.pipeline.errors import MismatchError
from resonance.pipeline.records import MOST_ELEMENTS, Outputs, Record
from resonance.pipeline.repartition.envelope import MAX_PARTITIONS
from resonance.pipeline.repartition.keyed.operation_records import COPIED, HEAD, LABELLED, Reader
from resonance.pipeline.task.stream_task import TaskContext
from resonance.pipeline.tasks import make_task

from tests.pipeline.repartition.test_keyed import DEEP, log_of
from tests.pipeline.repartition.two_hops import KEYED_ROUTES, ROUTES, Hops, inputs, interleaved, keyed_hops, settings
from tests.pipeline.streams import STAMP, TOPIC

PARTITIONS = 3
STRANGE = (None, True, -1, 3, 2**63, 2**64, 1e300, "x", '"', [], {}, [[]], -(2**63))


def routed():
    """What stands in one partition of the routes of a re-keyed deployment."""
    hops = Hops(settings("field:country"))
    for batch in interleaved(inputs(240)):
        hops.send(batch)
    return hops.routes[0]


def mutated(record, rng):
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
        task = make_task(settings("field:country"), ROUTES, 0, TaskContext(inputs=MAX_PARTITIONS))
        said = task.process([mutated(record, rng) if rng.random() < 0.3 else record for record in routes])
        assert [task.models.snapshot(stream) for stream in task.models.names]
        assert task.partition_state()
        assert all((m.partition or 0) in range(MAX_PARTITIONS) for m in (*said.assignments, *said.dead_letters))


@pytest.mark.parametrize(
    "source",
    [
        *(["a b", 0, 4, STAMP], [TOPIC, -1, 4, STAMP], [TOPIC, MAX_PARTITIONS, 4, STAMP]),
        *([TOPIC, 0, -4, STAMP], [TOPIC, 0, 2**63, STAMP], [TOPIC, 0, 4, 2**63], [TOPIC, 0, 4, 2**64 - 1]),
        *([TOPIC, True, 4, STAMP], [TOPIC, 0, 4, STAMP, -1], [TOPIC, 0, 4, STAMP, MOST_ELEMENTS]),
        *([TOPIC, 0, 4, STAMP, True], [TOPIC, 0, 4, STAMP, 3, 3], [TOPIC, 0, 4, STAMP, "3"]),
    ],
)
def test_a_route_from_a_place_that_is_not_there_is_left_aside(source):
    task = make_task(settings(), ROUTES, 0, TaskContext(inputs=PARTITIONS))
    headers = (("resonance.source", orjson.dumps(source)), ("resonance.key", None))
    assert task.process([Record(ROUTES, 0, 0, STAMP, b"k", b'{"cpu": 1}', headers)]) == Outputs()


@pytest.fixture(scope="module")
def keyed():
    """What stands in one partition of the routes of a keyed deployment."""
    given = Settings.of({**DEEP, "stream": "key", "hierarchy": "keyed"})
    deployment = keyed_hops(given, [log_of(0, 600)])
    deployment.run()
    return given, max(deployment.routes.values(), key=len)


NAMES = (
    *("mark", "form", "flags", "partition", "offset", "number", "cluster", "score", "answered", "time"),
    *("of_topic", "of_key", "of_id", "of_copied", "of_preparation", "rows", "dimension"),
)
ODD = {
    "mark": (b"RB",),
    "flags": tuple(range(0, 256, 5)),
    "score": (math.inf, -0.5, 1.5),
    "time": (b"2023-02-30T00:00:00.000Z", b"2023-01-01 00:00:00.000Z", b"\xff" * 24, b"2023-W01-1T00:00:00.000Z"),
}
NUMBERS = (-(2**63), -(2**31), -2, -1, 0, 1, 2, 5, 2**31 - 1, 2**32 - 1, 2**53, 2**63 - 1)


def altered(record, rng):
    """A message to a subtree of which something is another."""
    value = record.value or b""
    if rng.random() < 0.6:
        members = list(HEAD.unpack_from(value))
        place = rng.choice([number for number, name in enumerate(NAMES) if name != "form"])
        members[place] = rng.choice(ODD.get(NAMES[place], NUMBERS))
        try:
            return record._replace(value=HEAD.pack(*members) + value[HEAD.size :])
        except struct.error:
            return record._replace(value=value[: rng.randrange(len(value))])
    if rng.random() < 0.3:
        key = rng.choice([None, b"", b"p0/1/-1", b"p0/1/01", b"p0/x/1", b"\xff/1/1", b"/1/1", b"p0/1/%d" % 2**70])
        return record._replace(key=key)
    body = bytearray(value)
    for _ in range(rng.randrange(1, 4)):
        body[rng.choice((rng.randrange(3, HEAD.size), rng.randrange(3, len(body))))] = rng.randrange(256)
    return record._replace(value=bytes(body))


def test_no_message_that_a_worker_could_not_have_written_ends_a_worker(keyed):
    given, log = keyed
    rng, foreign = random.Random(7), 0
    for _ in range(25):
        task = make_task(given, log[0].topic, log[0].partition, TaskContext(routes=KEYED_ROUTES, inputs=MAX_PARTITIONS))
        said = task.process([altered(record, rng) if rng.random() < 0.2 else record for record in log])
        for message in (*said.assignments, *said.cluster_events, *said.clusters):
            assert message.partition in range(MAX_PARTITIONS)
            assert message.value is None or orjson.loads(message.value)
        assert all(task.models.snapshot(stream).body for stream in task.models.names)
        foreign += task.counts.foreign
    assert foreign > 300


@pytest.mark.parametrize("change", ["inf", "huge", "dimension", "partition", "class", "id", "copied"])
def test_a_message_that_cannot_be_carried_out_is_left_aside(keyed, change, caplog):
    given, log = keyed
    begin = next(number for number, ask in enumerate(Reader("").read(log)) if ask.number == 0)
    first = next(r for r in log[begin + 1 :] if r.key == log[begin].key)
    (ask,) = Reader("").read([first])
    fields = dict(zip(NAMES, HEAD.unpack_from(first.value), strict=True))
    body = first.value[HEAD.size :]
    if change == "inf":
        body = body[:-8] + struct.pack("<d", math.inf)
    elif change == "huge":
        body = body[:-8] + struct.pack("<d", 1e200)
    elif change == "dimension":
        fields["dimension"], body = ask.dimension + 1, body + b"\0" * (8 * ask.rows)
    elif change == "partition":
        fields["partition"] = MAX_PARTITIONS
    elif change == "class":
        fields["flags"] |= LABELLED
        body = body[: -len(ask.vectors)] + struct.pack("<q", 10**9) * ask.rows + ask.vectors
    elif change == "id":
        body = body.replace(ask.id, b"x" * len(ask.id))
    else:
        fields["flags"] |= COPIED
        fields["of_copied"] = 4
        at = fields["of_topic"] + fields["of_key"] + fields["of_id"]
        body = body[:at] + b"true" + body[at + fields["of_copied"] * bool(ask.included) :]
    bad = first._replace(value=HEAD.pack(*fields.values()) + body)
    task = make_task(given, log[0].topic, log[0].partition, TaskContext(routes=KEYED_ROUTES, inputs=PARTITIONS))
    alone = make_task(given, log[0].topic, log[0].partition, TaskContext(routes=KEYED_ROUTES))
    assert (task.process([log[begin], bad, first]), task.counts.foreign) == (alone.process([log[begin], first]), 1)
    assert sum("something else than messages to subtrees" in r.getMessage() for r in caplog.records) == 1
    assert [s.body for s in task.models.states()] == [s.body for s in alone.models.states()]


@pytest.mark.parametrize("features", [["x0", "x1", "x2", "wide"], [f"w{i}" for i in range(40_000)]])
def test_a_subtree_of_other_columns_than_the_deployments_is_left_aside(keyed, features):
    given, log = keyed
    first = next(one for one, ask in zip(log, Reader("").read(log), strict=True) if ask.number == 0)
    wide = Preparation(features, scale="none").frozen_state()
    fields = dict(zip(NAMES, HEAD.unpack_from(first.value), strict=True))
    kept = first.value[HEAD.size : len(first.value) - fields["of_preparation"]]
    fields["of_preparation"] = len(wide)
    forged = first._replace(value=HEAD.pack(*fields.values()) + kept + wide)
    task = make_task(given, log[0].topic, log[0].partition, TaskContext(routes=KEYED_ROUTES))
    assert (task.process([forged]), task.models.names, task.counts.foreign) == (Outputs(), [], 1)


def test_a_message_of_a_newer_release_is_a_named_stop(keyed):
    given, log = keyed
    value = log[0].value[:2] + bytes([log[0].value[2] + 1]) + log[0].value[3:]
    task = make_task(given, log[0].topic, log[0].partition, TaskContext(routes=KEYED_ROUTES))
    with pytest.raises(MismatchError, match="another release wrote it"):
        task.process([log[0]._replace(value=value)])
