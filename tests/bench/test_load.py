"""The load of the benchmarks."""

import os

import pytest

from bench.load import steady_load


def test_a_load_that_ends_before_its_time_is_an_error():
    with pytest.raises(RuntimeError, match="the load has ended with 1: there is no figure"):  # noqa: SIM117
        with steady_load("127.0.0.1:9", "no topic", [b"{}"], rate=0.0):
            os.waitid(os.P_ALL, 0, os.WEXITED | os.WNOWAIT)
