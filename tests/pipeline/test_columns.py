"""Columns of texts and times are read as lists of them."""

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as some
from resonance.pipeline.columns import Texts, Times
from resonance.pipeline.record_columns import RecordColumns
from resonance.pipeline.records import RoutedRecord
from resonance.pipeline.text.paste import paste
from resonance.pipeline.timestamps import canonical

TEXTS = some.lists(some.none() | some.binary(max_size=9), max_size=9)


@settings(deadline=None)
@given(TEXTS, TEXTS, some.slices(9), some.data())
def test_texts_are_what_they_were_made_of(parts, others, part, data):
    column = Texts.of(parts)
    assert [column[at] for at in range(len(parts))] == parts
    assert (column, column[part], Texts.of(column) is column) == (parts, parts[part], True)
    assert [column[at] for at in range(len(parts))] == parts
    assert Texts.joined([column[part], Texts.of(others)]) == [*parts[part], *others]
    assert [Texts.repeated(text, 2) for text in parts] == [[text, text] for text in parts]
    assert column.longest() == max((len(text or b"") for text in parts), default=0)
    picked = data.draw(some.lists(some.integers(0, len(parts) - 1), max_size=9)) if parts else []
    assert column.take(np.array(picked, np.int64)) == [parts[at] for at in picked]


@settings(deadline=None)
@given(some.lists(some.binary(max_size=20).map(lambda text: text.replace(b"\0", b"1")), max_size=9), some.slices(9))
def test_texts_are_columns_of_a_row(parts, part):
    rows, ends = paste(len(parts[part]), [b"<", Texts.of(parts)[part].pieces(), b">"])
    assert (rows.tobytes(), len(ends)) == (b"".join(b"<%b>" % text for text in parts[part]), len(parts[part]))


@settings(deadline=None)
@given(some.lists(some.integers(-(10**12), 10**13).filter(lambda time: time != -1), max_size=9), some.slices(9))
def test_times_are_read_as_texts(milliseconds, part):
    column, texts = Times(np.array(milliseconds, np.int64)), [canonical(time) for time in milliseconds]
    assert (column, column[part], len(column)) == (texts, texts[part], len(texts))
    assert Times.of(texts).milliseconds.tolist() == milliseconds


def test_columns_of_routed_records_are_these_records():
    routed = [RoutedRecord(f"t{at}", at, 5 + at, 9, b"k", b"{}", (), b"s", 3) for at in range(4)]
    columns = RecordColumns.of(routed)
    assert (list(columns), columns[2], list(columns[1:3])) == (routed, routed[2], routed[1:3])
    assert columns.offsets.tolist() == [5, 6, 7, 8]


def test_nothing_has_columns_too():
    assert list(RecordColumns.of([])) == []
