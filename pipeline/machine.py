"""Cores of the machine, and garbage collection in the process."""

import gc
import os

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
