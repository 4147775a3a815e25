"""A machine that gives no more threads."""

import subprocess
import sys
from pathlib import Path

import pytest
from resonance.pipeline.errors import named

SHORT = """
import resource
from resonance.pipeline.errors import ResourceError
from resonance.pipeline.kafka.log_reader import LogReader
from resonance.pipeline.kafka.producer import Outlet
used = int(open("/proc/self/statm").read().split()[0]) * resource.getpagesize()
resource.setrlimit(resource.RLIMIT_AS, (used + 10_000_000, -1))
client = {"bootstrap.servers": "127.0.0.1:9"}
for make in (lambda: LogReader(client, "g", 1.0), lambda: Outlet(client, 1.0, reports=True)):
    try:
        make()
    except ResourceError as error:
        print(error.exit_code, error)
"""


@pytest.mark.skipif(not Path("/proc/self/statm").exists(), reason="the limit needs Linux")
def test_without_room_for_threads_no_client_is_made_which_would_hang_or_abort():
    ended = subprocess.run([sys.executable, "-c", SHORT], capture_output=True, text=True, timeout=120, check=True)
    first, second = ended.stdout.splitlines()
    assert first == second
    assert first.startswith("71 the machine gives no thread any more; raise the limit of the process")


def test_an_error_of_the_program_stays_one():
    assert named(RuntimeError("no")) is None
    assert named(FileNotFoundError(2, "No such file")) is None
    assert named(MemoryError()).exit_code == 71
