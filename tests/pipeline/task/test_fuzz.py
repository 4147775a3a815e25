"""Broken values among valid records: each becomes one answer or one letter, and a rejected one changes nothing.

Only the rule on silence counts what could be read and was then rejected: its source is not silent.

The tests break 12,000 values, ``make long WHAT=tests/pipeline/task/test_fuzz.py`` 1,000,000.
"""

import random

import orjson
import pytest
from hypothesis import given, settings
from hypothesis import strategies as some
from resonance.pipeline.records import Record

from tests import LONG
from tests.pipeline.labels.feedback import feature, labelled, labels_of, rows
from tests.pipeline.sparse_streams import by_name, entries, sparse_record, sparse_settings
from tests.pipeline.streams import STAMP, TOPIC, errors, payloads, points, records, states, task
from tests.pipeline.streams import settings as dense_settings

BROKEN = 1_000_000 if LONG else 12_000
BATCH = 500

SPLICES = [
    *(
        b"NaN",
        b"-Infinity",
        b"1e400",
        b"-1e400",
        b"1e308",
        b"5e-324",
        b"-0.0",
        b"1" + b"0" * 400,
        b"0x10",
        b"01",
        b"1.",
    ),
    *(b"null", b"true", b"[]", b"{}", b'""', b'"1.5"', b"[[0.5]]", b'{"value": 1}', b"[" * 2_000, b'{"a":' * 300),
    *(
        b"\x00",
        b"\xff\xfe",
        b"\xed\xa0\x80",
        b'"\\ud800"',
        b"\xef\xbb\xbf",
        b"\r\n",
        b"//",
        b",,",
        b"18446744073709551616",
    ),
]
"""What stands in place of a part of a value."""

KEYS = (None, b"", b"a", b"b", b"\xff\xfe", "é/§".encode(), b"p0", b"k" * 100, b"0" * 5_000)
STAMPS = (-1, 0, STAMP, STAMP + 10**6, 2**41, 2**62)


def broken(value, rng):
    """Cut, repeated, spliced, or with other bytes; now and then something that never was a record."""
    made, chance = bytearray(value), rng.random
    for _ in range(rng.choice((1, 1, 1, 2, 5))):
        start = rng.randrange(len(made) + 1)
        end = min(len(made), start + rng.choice((0, 1, 1, 2, 5, 20)))
        if chance() < 0.6:
            made[start:end] = rng.choice(SPLICES)
        elif chance() < 0.3:
            made[start:end] = made[start:end] * rng.choice((0, 2, 50))
        else:
            made[start:end] = rng.randbytes(end - start)
    return bytes(made) if chance() < 0.98 else rng.choice((b"", b"null", b"{}", b"[]", rng.randbytes(40)))


def log(valid, count, rng):
    """Yield records: of five, three have a broken value, and one of the others an odd key or time."""
    for offset in range(count):
        source = valid[rng.randrange(len(valid))]
        record = Record(TOPIC, 0, offset, STAMP + offset, source.key or b"a", source.value, source.headers)
        if rng.random() < 0.6:
            record = record._replace(value=broken(record.value, rng))
        if rng.random() < 0.2:
            record = record._replace(key=rng.choice(KEYS), timestamp=rng.choice(STAMPS))
        yield record


def place(message):
    return int(errors(message)["offset"])


def named(**changes):
    return dense_settings(stream="key", **changes), records(points(400).tolist(), keys=(b"a", b"b"))


def arrays(**changes):
    given = dense_settings(stream="key", **changes, input__features=None, input__dimension=3)
    return given, [feature(i, row, features=row) for i, row in enumerate(points(400).tolist())]


def sparse(**changes):
    given = sparse_settings(stream="key", **changes, engine__max_features=200)
    return given, [sparse_record(i, by_name(entry), b"a") for i, entry in enumerate(entries(400))]


def with_labels(**changes):
    return labelled(stream="key", **changes), [
        feature(i, row, labels=labels_of(row)) for i, row in enumerate(rows(400))
    ]


FORMS = (named, arrays, sparse, with_labels)


@pytest.mark.parametrize("form", FORMS)
def test_each_broken_value_has_one_end_and_a_rejected_one_changes_nothing(form):
    rng = random.Random(form.__name__)
    given, valid = form(alerts__off=("silent",))
    every, accepted = task(given), task(given)
    rejected, keys = 0, set()
    for batch in _batches(log(valid, BROKEN // len(FORMS), rng)):
        outputs = every.process(batch)
        letters = [place(message) for message in outputs.dead_letters]
        answers = [payload["source"]["offset"] for payload in payloads(outputs.assignments)]
        assert sorted(answers + letters) == [record.offset for record in batch]
        refused = set(letters)
        good = [record for record in batch if record.offset not in refused]
        alone = accepted.process(good)
        keys |= {record.key for record in good}
        assert (alone.assignments, alone.cluster_events) == (outputs.assignments, outputs.cluster_events)
        assert not alone.dead_letters
        rejected += len(letters)
    assert 0.1 * BROKEN / len(FORMS) < rejected < 0.6 * BROKEN / len(FORMS)
    # A state names the place behind the last record that its stream was given.
    last = [valid[0]._replace(key=key, offset=BROKEN + i) for i, key in enumerate(sorted(keys))]
    assert len(accepted.process(last).assignments) == len(every.process(last).assignments) == len(keys)
    assert states(every) == states(accepted)


def _batches(stream):
    waiting = []
    for record in stream:
        waiting.append(record)
        if len(waiting) == BATCH:
            yield waiting
            waiting = []
    yield waiting


anything = some.recursive(
    some.none() | some.booleans() | some.integers(-(2**63), 2**64 - 1) | some.floats() | some.text(),
    lambda inner: some.lists(inner, max_size=4) | some.dictionaries(some.text(max_size=8), inner, max_size=4),
)


@settings(max_examples=200, deadline=None, derandomize=True, database=None)
@given(cpu=anything, latency=anything, net=anything, whole=anything)
def test_any_json_has_one_end(cpu, latency, net, whole):
    worker = task()
    values = [{"cpu": cpu, "latency_ms": latency, "net": net}, {"cpu": 1, "latency_ms": 2, "net": {"in": net}}, whole]
    batch = [Record(TOPIC, 0, i, STAMP, b"k", orjson.dumps(value)) for i, value in enumerate(values)]
    outputs = worker.process(batch)
    assert len(outputs.assignments) + len(outputs.dead_letters) == 3
