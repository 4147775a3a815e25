"""What the benchmark of latencies counts, and what its load does."""

import os

import pytest

from bench.latency import SteadyState, steady_load


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


def test_a_load_that_ends_before_its_time_is_an_error():
    with pytest.raises(RuntimeError, match="the load has ended with 1: there is no figure"):  # noqa: SIM117
        with steady_load("127.0.0.1:9", "no topic", [b"{}"], rate=0.0):
            os.waitid(os.P_ALL, 0, os.WEXITED | os.WNOWAIT)
