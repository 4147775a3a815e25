"""What the process does that runs several workers; with workers as processes: `tests/integration/test_processes.py`."""

import asyncio
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest
from resonance.pipeline.errors import ConfigurationError
from resonance.pipeline.worker import supervisor
from resonance.pipeline.worker.supervisor import Supervisor, code_of

from tests.brokers.jvm import free_port
from tests.pipeline.streams import settings


@pytest.mark.parametrize(
    ("ended", "code"), [(0, 0), (70, 70), (-signal.SIGTERM, 0), (-signal.SIGKILL, 137), (-signal.SIGSEGV, 139)]
)
def test_a_worker_that_a_signal_ended_did_not_end_well(ended, code):
    assert code_of(ended) == code


class Process:
    """What Python has of a process."""

    def __init__(self, exitcode=None):
        self.exitcode = exitcode

    def is_alive(self):
        return self.exitcode is None

    def terminate(self):
        if self.exitcode is None:
            self.exitcode = 0

    kill = terminate

    def join(self):
        pass


def supervised(**worker):
    given = {"web_port": free_port(), "processes": 2, **worker}
    return Supervisor(settings(**{f"worker__{name}": value for name, value in given.items()}))


def test_no_worker_has_a_port_that_there_is_not(monkeypatch):
    monkeypatch.setattr(supervisor, "cores", lambda: 3)
    with pytest.raises(ConfigurationError, match=r"worker.web_port = 65534: must be at most 65532, for each of 3"):
        supervised(web_port=65534, processes="auto")


async def test_a_worker_that_cannot_start_leaves_the_others_alone(monkeypatch, caplog):
    made = supervised()
    monkeypatch.setattr(made, "_first_has_joined", lambda: asyncio.sleep(0, True))
    monkeypatch.setattr(supervisor, "FIRST_PAUSE", 0.0)
    monkeypatch.setattr(supervisor, "LOOK_SECONDS", 0.01)
    first, second = made._workers
    first._process, second._pause = Process(), 0.1
    failures = [OSError(24, "Too many open files")]

    def start(now):
        if failures:
            raise failures.pop()
        second._process = Process()

    monkeypatch.setattr(second, "_start", start)

    watching = asyncio.ensure_future(made._watch())
    await asyncio.sleep(0.05)
    assert "it has no process" in made._pages.absent["2"]
    assert set(made._pages.running) == {"1"}
    await asyncio.sleep(0.3)
    assert set(made._pages.running) == {"1", "2"}
    assert first.is_alive
    made._stop_requested.set()
    assert await watching == 0
    assert "worker 2 cannot start ([Errno 24] Too many open files); it starts again in 0.1 s" in caplog.text


def test_an_error_of_the_supervisor_lets_workers_stop_in_order(monkeypatch):
    made = supervised()
    stopped = []

    class Noting(Process):
        def terminate(self):
            stopped.append("asked to stop")
            super().terminate()

        def kill(self):
            stopped.append("killed")

    for each in made._workers:
        each._process = Noting()

    async def fails():
        raise RuntimeError("an error of the program")

    monkeypatch.setattr(made, "_watch", fails)
    with pytest.raises(RuntimeError):
        asyncio.run(made.run())
    assert stopped == ["asked to stop"] * 2


def test_the_first_one_that_a_signal_ends_is_no_success(caplog):
    made = supervised()
    made._workers[0]._process = Process(-signal.SIGKILL)
    assert asyncio.run(made.run()) == 137
    assert "all workers end: signal 9 ended worker 1 before it worked" in caplog.text


def test_no_ctrl_c_is_lost_while_a_worker_starts():
    seen = []
    before = signal.signal(signal.SIGINT, lambda *_: seen.append("Ctrl-C"))
    try:
        with supervisor._ctrl_c_blocked():
            os.kill(os.getpid(), signal.SIGINT)
        time.sleep(0.01)
    finally:
        signal.signal(signal.SIGINT, before)
    assert seen == ["Ctrl-C"]


STARTS = """
import multiprocessing, signal, threading, time
from resonance.pipeline.worker import supervisor

def hangs():
    signal.signal(signal.SIGTERM, signal.SIG_IGN)
    supervisor.STOP_SECONDS, supervisor.STOP_MARGIN = 0.3, 0.0
    threading.Thread(target=supervisor._end_with_parent, daemon=True).start()
    time.sleep(60)

child = multiprocessing.get_context("fork").Process(target=hangs)
child.start()
print(child.pid, flush=True)
child.join()
"""


def test_a_worker_that_hangs_does_not_outlive_the_one_that_started_it():
    with subprocess.Popen([sys.executable, "-c", STARTS], stdout=subprocess.PIPE, text=True) as parent:
        child = Path("/proc") / parent.stdout.readline().strip()
        parent.kill()
    end = time.monotonic() + 30
    while child.exists() and "\nState:\tZ" not in (child / "status").read_text():
        assert time.monotonic() < end, "it is still there"
        time.sleep(0.05)
