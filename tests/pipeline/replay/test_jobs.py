"""Jobs in processes: one of them fails, and everything ends with one message."""

import errno
import multiprocessing
import time
from functools import partial
from pathlib import Path

import pytest
from resonance.pipeline import kernels
from resonance.pipeline.errors import DeliveryError, OutputError
from resonance.pipeline.replay import jobs
from resonance.pipeline.replay.jobs import run_jobs

from tests.pipeline.replay.quick_jobs import count, die, fail, fill_the_disk, note_and_work, work
from tests.pipeline.sparse_streams import sparse_settings

GIVEN = sparse_settings(shadow_of="live")
"""Settings with the fewest kernels, which each process loads: no alerts, no watch for changes."""
NIGHT = pytest.mark.nightly


@NIGHT
def test_results_are_in_order_and_all_records_are_reported():
    reported = []
    found, seconds = run_jobs(GIVEN, [partial(count, number) for number in (3, 1, 2)], 2, reported.append)
    assert found == [3, 1, 2]
    assert sum(reported) == 6
    assert seconds > 0


@pytest.mark.parametrize(
    ("failing", "error", "said"),
    [
        pytest.param(fail, RuntimeError, "KeyError: 7", marks=NIGHT),
        pytest.param(
            fill_the_disk, OutputError, r"out/assignments\.jsonl: it cannot be written \(No space left", marks=NIGHT
        ),
        (die, DeliveryError, "one of the processes ended without a word"),
    ],
)
def test_the_failure_of_one_ends_all(failing, error, said, capfd):
    with pytest.raises(error, match=said):
        run_jobs(GIVEN, [work, failing], 2)
    assert capfd.readouterr().err == ""


@NIGHT
def test_ctrl_c_waits_for_no_job():
    def interrupt(records):
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        run_jobs(GIVEN, [work, partial(count, 1)], 2, interrupt)


@NIGHT
def test_no_job_outlives_a_caller_that_is_killed(tmp_path):
    files = [tmp_path / "first", tmp_path / "second"]
    caller = multiprocessing.get_context("spawn").Process(
        target=run_jobs, args=(GIVEN, [partial(note_and_work, file) for file in files], 2)
    )
    caller.start()
    end = time.monotonic() + 60
    while not all(file.exists() for file in files):
        assert time.monotonic() < end, "they did not start"
        time.sleep(0.05)
    caller.kill()
    caller.join()
    for process in [Path("/proc") / file.read_text() for file in files]:
        while process.exists() and "\nState:\tZ" not in (process / "status").read_text():
            assert time.monotonic() < end, "it is still there"
            time.sleep(0.05)


class FullDisk:
    """Settings whose kernels find no room."""

    @property
    def engine_class(self):
        """Fail as the folder of the kernels does."""
        raise OSError(errno.ENOSPC, "no folder takes compiled kernels")


def test_an_error_before_the_first_job_is_that_of_the_caller(monkeypatch, capfd):
    monkeypatch.setattr(jobs, "compile_engine", lambda *_, **__: None)
    with pytest.raises(OutputError, match="no folder takes compiled kernels"):
        run_jobs(FullDisk(), [work, work], 2)
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
        run_jobs(GIVEN, [fail, fail], 2)
    assert done == [*([] if kept else ["kernels"]), "processes"]
