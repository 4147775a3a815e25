"""Processes that are sent frames: one of them fails, and everything ends with one message."""

import errno
import threading
from itertools import cycle

import pytest
from resonance.pipeline.config import fields
from resonance.pipeline.errors import OutputError
from resonance.pipeline.replay import jobs
from resonance.pipeline.replay.jobs import run_jobs, run_with_frames

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


def fill_the_disk(report):
    """Fail as a write on a full disk does."""
    raise OSError(errno.ENOSPC, "No space left on device", "out/assignments.jsonl")


def test_a_full_disk_is_named_where_a_process_finds_it():
    with pytest.raises(OutputError, match=r"out/assignments\.jsonl: it cannot be written \(No space left on device\)"):
        run_jobs(settings(stream="partition"), [fill_the_disk, fill_the_disk], 2)


@pytest.mark.parametrize("kept", [False, True])
def test_kernels_are_compiled_once_before_several_processes_need_them_and_not_loaded_where_they_are(monkeypatch, kept):
    done = []

    def start(*_, **__):
        done.append("processes")
        raise LookupError

    monkeypatch.setattr(fields, "compile_with", lambda *_: done.append("kernels"))
    monkeypatch.setattr(fields, "is_kept", lambda module: kept)
    monkeypatch.setattr(jobs, "_Pool", start)
    with pytest.raises(LookupError):
        run_with_frames(settings(stream="partition"), [fail, fail], ())
    assert done == [*([] if kept else ["kernels"]), "processes"]
