"""What a stream remembers for labels: bounded, canonical, and nothing that was not written comes back."""

import numpy as np
import pytest
from resonance.engine.errors import StateError
from resonance.engine.state import pack, unpack
from resonance.pipeline.config.checks import LABELS as MAX
from resonance.pipeline.records import RoutedRecord
from resonance.pipeline.task.decode.faults import FaultError
from resonance.pipeline.task.model.label_memory import ID_BYTES, KIND, REVISION, LabelMemory

from tests.pipeline.labels.feedback import LABELS, late

MESSAGE = RoutedRecord(LABELS, 3, 17, 5, None, b'{"id":"\xc3\xa9"}', (("h", None), ("g", b"\xff")), b"s\x00", 9)


def memory(buffer=3, wait=2):
    made = LabelMemory()
    made.bound(late(labels__buffer_records=buffer, labels__wait_records=wait))
    return made


def filled():
    made = memory()
    for own, features in ((b'"a"', np.ones(2)), (b'"b"', None), (b"3", np.zeros(2)), (b"4", np.full(2, 0.5))):
        made.keep(own, features)
    made.take(b"4")
    made.seen, made.learned = 7, 2
    made.take_in(("x", "y"))
    for own, labels in ((None, None), (b'"h"', ("x",)), (b"5", ())):
        made.hold(own, labels)
    assert made.wait(b'"w"', ("y",), MESSAGE)
    return made


def test_the_newest_records_are_kept():
    made = filled()
    assert len(made) == 3
    assert b'"a"' not in made.kept
    assert made.kept[b'"b"'] is None
    assert made.kept[b"4"] is None
    assert made.unlabelled == 1
    made.keep(None, np.ones(2))
    made.keep(b"9" * (ID_BYTES + 1), np.ones(2))
    assert len(made) == 3
    made.bound(late(labels__buffer_records=1))
    assert (len(made), made.unlabelled) == (1, 0)


def test_a_state_comes_back_as_it_was():
    made = filled()
    again = LabelMemory.from_state(made.state(2), 2, 3)
    assert again.state(2) == made.state(2)
    assert again.waiting == {b'"w"': (("y",), MESSAGE._replace(headers=[("h", None), ("g", b"\xff")]), 9)}
    assert (again.held, again.known, again.unlabelled) == (made.held, made.known, 1)
    assert [again.held_at.get(own) for own in (b'"h"', b"5", b'"w"')] == [1, 2, None]
    again.seen = 9
    assert [own for own, _ in again.overdue()] == [b'"w"']
    assert not again.waiting


def test_of_several_held_records_with_an_id_the_newest_counts():
    made = memory()
    for own in (b"1", b"2", b"1", None):
        made.hold(own, None)
    assert [made.held_at.get(own) for own in (b"1", b"2", b"3")] == [2, 1, None]
    assert (len(made.release()), made.held_at.get(b"1")) == (4, None)


def test_labels_wait_no_longer_than_the_settings_of_now_say():
    made = memory(wait=1_000)
    for i, offset in enumerate((9, 4, 7)):
        made.seen += 1
        assert made.wait(b"%d" % i, ("x",), MESSAGE._replace(source_offset=offset))
    made.bound(late(labels__wait_records=5))
    assert [label.due for label in made.waiting.values()] == [8, 8, 8]
    made.seen += 1
    assert made.wait(b"8", ("x",), MESSAGE)
    made.seen = 8
    # Those that are given up at once stand as on their topic.
    assert [record.source_offset for _, record in made.overdue()] == [4, 7, 9]
    made.seen = 9
    assert [own for own, _ in made.overdue()] == [b"8"]


def test_a_stream_has_so_many_labels_at_most():
    made = memory()
    made.take_in(tuple(map(str, range(MAX))))
    made.take_in(("1", "2"))
    with pytest.raises(FaultError, match="would have 1,001, and a stream can have 1,000"):
        made.take_in(("1", "more"))
    assert len(made.known) == MAX


@pytest.mark.parametrize(
    ("header", "arrays"),
    [
        *(({"held": [[None, None]]}, {}), ({"seen": -1}, {}), ({"waiting": [["w"]]}, {}), ({"known": 5}, {})),
        *(({"known": []}, {}), ({"known": ["y"]}, {}), ({"known": ["x", 7]}, {}), ({"known": ["x", "y" * 101]}, {})),
        *(({"known": ["x", *map(str, range(MAX))]}, {}), ({"held": [[None, None], ["5", ["z"]], ["6", []]]}, {})),
        *(({"held": [[None, None], ["5", ["x" * 101]], ["6", []]]}, {}), ({}, {"features": np.zeros((1, 3))})),
        *(({}, {"features": np.zeros((2, 2))}), ({}, {"features": np.full((1, 2), np.nan)})),
        *(({}, {"features": np.full((1, 2), 1e300)}), ({}, {"ends": np.array([3, 2, 5])})),
        *(({}, {"ends": np.array([3, 4])}), ({}, {"labelled": np.array([1, 1], np.uint8)})),
    ],
)
def test_a_state_that_cannot_be_is_refused(header, arrays):
    whole, parts = unpack(filled().state(2), KIND, REVISION)
    with pytest.raises(StateError, match="the labels of a stream cannot be read"):
        LabelMemory.from_state(pack(KIND, REVISION, {**whole, **header}, {**parts, **arrays}), 2, 3)


@pytest.mark.parametrize("wrong", [{0: "\xff"}, {1: ["y" * 101]}, {1: [7]}, {2: 11}, {4: -1}], ids=str)
def test_labels_that_cannot_wait_are_refused(wrong):
    made = filled()
    made.seen += 1
    assert made.wait(b'"v"', ("x",), MESSAGE)
    header, arrays = unpack(made.state(2), KIND, REVISION)
    assert len(LabelMemory.from_state(pack(KIND, REVISION, header, arrays), 2, 3).waiting) == 2
    for place, value in wrong.items():
        header["waiting"][0][place] = value
    with pytest.raises(StateError, match="the labels of a stream cannot be read"):
        LabelMemory.from_state(pack(KIND, REVISION, header, arrays), 2, 3)
