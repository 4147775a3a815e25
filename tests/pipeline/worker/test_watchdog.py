"""The end of a process whose thread hangs in a library; what hangs and for how long is tested with the processor."""

import queue
import subprocess
import sys

from resonance.pipeline.worker.watchdog import Deadline, Watchdog

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
