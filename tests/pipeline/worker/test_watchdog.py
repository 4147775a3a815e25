"""What of a processor hangs, and for how long; the end of a process whose thread hangs in a library."""

import functools
import queue
import subprocess
import sys

import pytest
from resonance.pipeline.worker.watchdog import Deadline, Watchdog

from tests.pipeline.worker.processor_bench import P0, Bench, chunk

HANGING = """
import threading
from resonance.pipeline import logs
from resonance.pipeline.worker.watchdog import Deadline, Watchdog
logs.configure("info")
calls = Watchdog()
Deadline(calls, "transactional id a: ").start()
with calls.around("commit_transaction has not returned", 0.1):
    threading.Event().wait()
"""


def test_a_call_that_does_not_return_ends_the_process_and_is_named():
    ended = subprocess.run([sys.executable, "-c", HANGING], capture_output=True, text=True, timeout=60, check=False)
    assert ended.returncode == 70
    assert "exit code 70: transactional id a: commit_transaction has not returned for " in ended.stderr
    assert "a call of the Kafka client hangs" in ended.stderr


def test_a_call_that_returns_ends_nothing():
    now, ended = [0.0], queue.SimpleQueue()
    calls = Watchdog(lambda: now[0])
    deadline = Deadline(calls, "", ended.put)
    deadline.start()
    deadline.start()
    with calls.around("one", 5):
        now[0] += 4
    now[0] += 100
    with calls.around("another", 5):
        assert ended.empty()
        now[0] += 6
        assert ended.get(timeout=30).startswith("another for 6 s (at most 5 s are fine)")


@pytest.fixture
def clock(monkeypatch):
    """Return the seconds that the watch over the processor's threads reads; a test moves them."""
    now = [1000.0]
    watch = functools.partial(Watchdog, lambda: now[0])
    monkeypatch.setattr("resonance.pipeline.worker.commits.Watchdog", watch)
    return now


def test_a_kernel_that_never_returns_is_a_hang_and_a_thread_without_work_is_none(clock):
    bench = Bench()
    bench.open()
    task = bench.hold(chunk(P0, 7, 3, position=0))
    clock[0] += 60
    assert bench.processor.hang() == ""
    clock[0] += 1
    assert bench.processor.hang() == "in[0]@7 has been learned for 61 s (at most 60 s are fine)"
    task.gate.set()
    bench.close()
    clock[0] += 10_000
    bench.wait(lambda: not bench.processor.hang())


def test_a_commit_that_waits_for_the_broker_is_a_hang_only_when_it_should_have_given_up(clock):
    bench = Bench(interval=0)
    bench.open()
    bench.diary.gate.clear()
    bench.processor.submit(chunk(P0, 0, 1))
    bench.wait(bench.diary.committing.is_set)
    # The processor's own thread still has to come to rest.
    bench.wait(lambda: bench.processor._activity._step is None)
    # A commit is given up after 60 s, for the outputs and for the offsets each: 120 s are waiting.
    clock[0] += 9
    assert bench.processor.overdue() == ""
    clock[0] += 2
    assert bench.processor.hang() == ""
    assert bench.processor.overdue() == "a commit has gone on for 11 s; look at the brokers"
    clock[0] += 170
    assert bench.processor.hang() == "a commit has gone on for 181 s (at most 180 s are fine)"
    bench.diary.gate.set()
    bench.close()
    bench.wait(lambda: not bench.processor.hang())
