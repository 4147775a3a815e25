"""What the benchmark of live streams counts, and a short form of it."""

import pytest

from bench import live_cost
from bench.live_cost import Cost, costs, median, rows_of, waits
from bench.pipeline import Bench

RECORDS = [[("a", 10.0), ("b", 11.0)], [("c", 10.5), ("d", 20.0)]]
ANSWERS = [[("a", 10.5), ("b", 11.1)], [("c", 10.75), ("d", 21.0)]]


def test_a_record_waits_from_its_append_to_its_answer_if_it_came_while_the_clock_ran():
    assert waits(RECORDS, ANSWERS, 10.0, 20.0) == pytest.approx([100.0, 250.0, 500.0])
    assert waits(RECORDS, ANSWERS, 10.5, 11.0) == pytest.approx([250.0])


@pytest.mark.parametrize(
    "answered",
    [["a"], ["a", "b", "b"], ["b", "a"], ["a", "x"]],
    ids=["missing", "twice", "out of order", "to another record"],
)
def test_a_run_counts_only_with_one_answer_to_each_record_in_order(answered):
    with pytest.raises(ValueError, match=f"partition 0: {len(answered)} answers are not one to each of 2 records"):
        waits(RECORDS, [[(name, 12.0) for name in answered], ANSWERS[1]], 10.0, 20.0)


def test_rounds_have_medians_and_an_idle_worker_has_no_latency():
    found = {
        ("exactly_once", 0): median([Cost(each, 0.0, None, None) for each in (1.0, 3.0, 2.0)]),
        ("transactions", 0): Cost(0.5, 0.0, None, None),
        ("exactly_once", 200): median([Cost(10.0, 199.0, 40.0, 90.0), Cost(20.0, 200.0, 60.0, 95.0)]),
        ("transactions", 200): Cost(5.0, 201.0, 100.0, 150.0),
    }
    rows = [(row.case, row.unit, row.value, row.reference_value) for row in rows_of(found)]
    assert rows == [
        ("worker exactly_once d=16, idle", "% of a core", 2.0, 0.5),
        ("worker exactly_once d=16, 200 records/s", "% of a core", 15.0, 5.0),
        ("worker exactly_once d=16, 200 records/s", "records/s", 199.5, 201.0),
        ("worker exactly_once d=16, 200 records/s", "ms p50", 50.0, 100.0),
        ("worker exactly_once d=16, 200 records/s", "ms p99", 92.5, 150.0),
    ]


@pytest.mark.broker
@pytest.mark.nightly
def test_a_worker_and_its_loop_answer_every_record_of_a_live_stream(broker, monkeypatch):
    monkeypatch.setattr(live_cost, "SETTLE_SECONDS", 0.5)
    seen = []
    # It ends with an error where an answer is missing, comes twice, or is to another record.
    found = costs(Bench(broker), ["exactly_once"], [200.0], 1, 2.0, seen.append)
    assert list(found) == [("exactly_once", 200.0), ("transactions", 200.0)]
    assert seen == [0.5, 1.0]
    for cost in found.values():
        assert cost.core > 0.0
        assert 0.0 < cost.middle <= cost.slow
    assert [row.unit for row in rows_of(found)] == ["% of a core", "records/s", "ms p50", "ms p99"]
