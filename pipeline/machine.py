"""Cores and threads of the machine, and garbage collection in the process."""

import gc
import os
import threading
from typing import Final

from resonance.pipeline.errors import named

YOUNG = 100_000
"""New objects before the collector looks at them: some ten thousand records."""
MIDDLE, OLD = 50, 100


def cores() -> int:
    """Return how many processes can run at once; a container may have fewer cores than its machine."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def collect_rarely() -> None:
    """Exclude everything that is loaded by now from garbage collection, and collect rarely."""
    # A chunk of records becomes thousands of tuples and lists without a single cycle. At Python's defaults the
    # collector walks through the waiting ones every 700 new objects: a third of the worker's time (measured).
    gc.collect()
    gc.freeze()
    gc.set_threshold(YOUNG, MIDDLE, OLD)


CLIENT_THREADS: Final = 8
"""Threads that a Kafka client needs, and some to spare: one for itself, and one for each broker that it talks to."""


def require_threads(count: int = CLIENT_THREADS) -> None:
    """Raise `ResourceError` where the machine does not give so many threads more, or no memory for their stacks.

    librdkafka itself hangs there, with the interpreter locked, or aborts the process.
    """
    enough = threading.Event()
    try:
        for _ in range(count):
            threading.Thread(target=enough.wait, name="probe", daemon=True).start()
    except (RuntimeError, MemoryError) as error:
        raise named(error) or error from error
    finally:
        enough.set()
