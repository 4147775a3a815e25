"""What the machine has, and how a process uses it."""

import gc
import os

YOUNG = 100_000
"""New objects after which the collector looks at them: some ten thousand records."""
MIDDLE, OLD = 50, 100


def cores() -> int:
    """Return how many processes can run at once; a container may have fewer cores than its machine."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def collect_rarely() -> None:
    """Leave what is loaded by now out of collections, and let these come rarely.

    A chunk of records becomes thousands of tuples and lists without a single cycle. At Python's defaults the collector
    walks through those that wait every 700 new objects: that took a third of the worker's time (measured).
    """
    gc.collect()
    gc.freeze()
    gc.set_threshold(YOUNG, MIDDLE, OLD)
