"""Jobs in processes: one of them fails, and everything ends with one message."""

import errno
import os
import signal
import time
from functools import partial

import pytest
from resonance.pipeline import kernels
from resonance.pipeline.errors import DeliveryError, OutputError
from resonance.pipeline.replay import jobs
from resonance.pipeline.replay.jobs import run_jobs

from tests.pipeline.streams import settings


def work(report):
    """Report for as long as somebody waits."""
    while True:
        report(1)
        time.sleep(0.01)


def count(number, report):
    """Report some records."""
    for _ in range(number):
        report(1)
    return number


def fail(report):
    """Fail as a fault of the program does."""
    raise KeyError(7)


def fill_the_disk(report):
    """Fail as a write on a full disk does."""
    raise OSError(errno.ENOSPC, "No space left on device", "out/assignments.jsonl")


def die(report):
    """End as a process that is killed."""
    os.kill(os.getpid(), signal.SIGKILL)


def test_results_are_in_order_and_all_records_are_reported():
    reported = []
    found, seconds = run_jobs(
        settings(stream="partition"), [partial(count, number) for number in (3, 1, 2)], 2, reported.append
    )
    assert found == [3, 1, 2]
    assert sum(reported) <= 6
    assert seconds > 0


@pytest.mark.parametrize(
    ("failing", "error", "said"),
    [
        (fail, RuntimeError, "KeyError: 7"),
        (fill_the_disk, OutputError, r"out/assignments\.jsonl: it cannot be written \(No space left on device\)"),
        (die, DeliveryError, "one of the processes ended without a word"),
    ],
)
def test_the_failure_of_one_ends_all(failing, error, said, capfd):
    with pytest.raises(error, match=said):
        run_jobs(settings(stream="partition"), [work, failing], 2)
    assert capfd.readouterr().err == ""


@pytest.mark.parametrize("kept", [False, True])
def test_kernels_are_compiled_once_before_several_processes_need_them_and_not_loaded_where_they_are(monkeypatch, kept):
    done = []

    def start(*_, **__):
        done.append("processes")
        raise LookupError

    monkeypatch.setattr(kernels, "compile_with", lambda *_: done.append("kernels"))
    monkeypatch.setattr(kernels, "is_kept", lambda module: kept)
    monkeypatch.setattr(jobs, "ProcessPoolExecutor", start)
    with pytest.raises(LookupError):
        run_jobs(settings(stream="partition"), [fail, fail], 2)
    assert done == [*([] if kept else ["kernels"]), "processes"]
