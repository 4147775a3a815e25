"""Processes that are fed: one of them fails, and everything ends with one message."""

import threading
from itertools import cycle

import pytest
from resonance.pipeline.replay.jobs import run_with_frames


def test_the_failure_of_one_ends_all_while_they_are_fed(capfd: pytest.CaptureFixture[str]) -> None:
    before = threading.active_count()
    frames = ((number, bytes(1_000_000)) for number in cycle((0, 1)))
    with pytest.raises(RuntimeError, match="KeyError: 'settings'"):
        run_with_frames("lanes", [{}, {}], frames)
    assert threading.active_count() == before
    assert capfd.readouterr().err == ""
