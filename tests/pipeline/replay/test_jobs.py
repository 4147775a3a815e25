"""Processes that are sent frames: one of them fails, and everything ends with one message."""

import threading
from itertools import cycle

import pytest
from resonance.pipeline.replay.jobs import run_with_frames

from tests.pipeline.streams import settings


def fail(frames, report):
    """Fail at the first frame."""
    raise KeyError(len(next(frames)))


def test_the_failure_of_one_ends_all_while_they_are_fed(capfd):
    before = threading.active_count()
    frames = ((number, bytes(1_000_000)) for number in cycle((0, 1)))
    with pytest.raises(RuntimeError, match="KeyError: 1000000"):
        run_with_frames(settings(stream="partition"), [fail, fail], frames)
    assert (threading.active_count(), capfd.readouterr().err) == (before, "")
