"""Records as columns are the records that they were made of."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from resonance.pipeline.record_columns import RecordColumns
from resonance.pipeline.records import Record

BYTES = st.none() | st.binary(max_size=6)
HEADERS = st.lists(st.tuples(st.text(max_size=3), BYTES), max_size=2).map(tuple)
RECORDS = st.lists(st.tuples(st.integers(0, 9), st.integers(-1, 2**41), BYTES, BYTES, HEADERS), min_size=1, max_size=9)


def made(rows):
    offsets = [sum(row[0] + 1 for row in rows[: at + 1]) for at in range(len(rows))]
    return [Record("t", 3, at, *row[1:]) for at, row in zip(offsets, rows, strict=True)]


@settings(deadline=None)
@given(RECORDS, st.integers(0, 9), st.integers(0, 9))
def test_columns_are_read_as_records(rows, first, last):
    records = made(rows)
    columns = RecordColumns.of(records)
    assert list(columns) == records
    assert [columns[at] for at in range(len(records))] == records
    assert columns[-1] == records[-1]
    assert list(columns[first:last]) == records[first:last]
    assert list(columns[first:][: last - first]) == records[first:][: last - first]
    assert RecordColumns.of(columns) is columns


def test_columns_are_not_picked():
    columns = RecordColumns.of(made([(0, 0, b"", None, ())]))
    with pytest.raises(ValueError, match="picked"):
        columns[::2]
    with pytest.raises(IndexError):
        columns[1]
