"""What the benchmark of latencies counts."""

import pytest

from bench.latency import SteadyState


@pytest.mark.parametrize("start", [0.5, 40.0], ids=["quick", "slow"])
def test_the_backlog_of_a_slow_start_is_no_latency(start):
    # 100 records a second; the worker begins late, answers 1,000 a second, and needs 20 ms for a record.
    state, free = SteadyState(2.0, 10.0), start
    for number in range(10_000):
        appended = number / 100
        free = max(free, appended) + 0.001
        now = free + 0.02
        if state.is_over(now):
            break
        state.add(now, appended)
    assert len(state.milliseconds) == pytest.approx(1_000, abs=5)
    assert max(state.milliseconds) == pytest.approx(21.0)


def test_a_worker_that_never_catches_up_has_no_latency():
    state = SteadyState(0.0, 10.0)
    for number in range(1_000):
        state.add(100.0 + number / 50, number / 100)
    assert not state.milliseconds
