"""Events against marked changes: precision, recall and delay are those that a hand computation gives."""

from collections import Counter

import numpy as np
from resonance.pipeline.evaluate.changes import compare
from resonance.pipeline.evaluate.dataset import Mark
from resonance.pipeline.evaluate.run import Run

NOTHING = {"precision": None, "recall": None, "delay": None}


def run_of(events=(), drifts=(), stream=None, size=1_000):
    """A run with events of these kinds at these records."""
    stream = np.zeros(size, np.int32) if stream is None else np.array(stream, np.int32)
    column, flags = np.zeros(size, np.int32), np.zeros(size, bool)
    own = [(at, {"kind": kind}) for at, kind in events]
    return Run(
        *(column, ["a"], stream, ["p0", "p1"], column, [], flags, column, []),
        *(own, [(at, {"kind": kind}) for at, kind in drifts]),
        *([], [], Counter()),
    )


def test_births_splits_merges_deaths_and_drifts_are_counted_by_hand():
    marks = [Mark(*each) for each in ((100, "birth"), (300, "split"), (500, "merge"), (700, "death"), (800, "drift"))]
    events = [
        *((40, "emerged"), (130, "emerged"), (131, "emerged")),
        *((310, "split"), (499, "absorbed"), (520, "absorbed")),
        # Too late by one record.
        (751, "vanished"),
    ]
    found = compare(marks, run_of(events, [(805, "drift"), (900, "settled")]), within=50)
    assert found == {
        "birth": _row(1, 3, 1, [30]),
        "death": {"true": 1, "reported": 1, "found": 0, "precision": 0.0, "recall": 0.0, "delay": None},
        "split": _row(1, 1, 1, [10]),
        "merge": _row(1, 2, 1, [20]),
        "drift": _row(1, 1, 1, [5]),
    }


def _row(true, reported, hits, delays):
    delay = {"median": sorted(delays)[len(delays) // 2], "most": max(delays)}
    return {
        **{"true": true, "reported": reported, "found": hits},
        **{"precision": hits / reported, "recall": hits / true, "delay": delay},
    }


def test_each_event_finds_one_change_and_the_earlier_change_first():
    marks = [Mark(100, "birth"), Mark(110, "birth"), Mark(400, "birth")]
    found = compare(marks, run_of([(120, "emerged"), (125, "emerged"), (125, "emerged")]), within=100)
    assert found["birth"] == {
        **{"true": 3, "reported": 3, "found": 2, "precision": 2 / 3, "recall": 2 / 3},
        "delay": {"median": 17.5, "most": 20},
    }


def test_an_event_finds_only_changes_of_its_stream_and_the_delay_counts_the_records_of_that():
    stream = [0, 1] * 500
    marks = [Mark(100, "split"), Mark(101, "split")]
    found = compare(marks, run_of([(120, "split"), (130, "split")], stream=stream), within=50)
    assert (found["split"]["found"], found["split"]["delay"]) == (1, {"median": 10, "most": 10})


def test_changes_that_nothing_reported_and_reports_of_no_change_have_no_other_figure():
    assert compare([Mark(5, "drift")], run_of()) == {
        "drift": {"true": 1, "reported": 0, "found": 0, **NOTHING, "recall": 0.0}
    }
    assert compare([], run_of([(5, "vanished")])) == {
        "death": {"true": 0, "reported": 1, "found": 0, **NOTHING, "precision": 0.0}
    }
