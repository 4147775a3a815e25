"""A search finds the first record for which something holds, and reads few records."""

import pytest
from resonance.pipeline.kafka.positions import first_offset
from resonance.pipeline.records import Message

from tests.pipeline.logs import MemoryReader

AT = ("answers", 0)


@pytest.fixture
def log():
    """Records whose values are 0, 2, 4, ..., some of which say nothing, with gaps."""
    reader = MemoryReader()
    for n in range(200):
        value = b"?" if n % 7 == 3 else b"%d" % (2 * n)
        reader.append(AT, Message(None, value, []), gap=n % 5 // 4)
    return reader


def search(reader, wanted):
    return first_offset(reader, AT, lambda record: None if record.value == b"?" else int(record.value or b"") >= wanted)


def test_it_is_the_first_record_for_which_it_holds(log):
    text = [record for record in log.logs[AT] if record.value != b"?"]
    for wanted in range(-1, 402):
        expected = next((r.offset for r in text if int(r.value or b"") >= wanted), log.bounds([AT])[AT][1])
        assert search(log, wanted) == expected


def test_few_records_are_read(log):
    search(log, 123)
    assert len(log.seen) < 20


def test_a_log_whose_beginning_is_deleted_is_searched_from_there(log):
    log.firsts[AT] = log.logs[AT][100].offset
    assert search(log, 0) == log.firsts[AT]
    assert search(log, 302) == next(r.offset for r in log.logs[AT] if r.value == b"302")


def test_in_an_empty_log_it_is_the_end():
    reader = MemoryReader()
    reader.logs[AT] = []
    assert search(reader, 1) == 0
