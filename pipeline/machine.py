"""Cores and memory of the machine, and garbage collection in the process."""

import gc
import math
import os
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

YOUNG = 400_000
"""New objects before the collector looks at them: more than a worker at its limit holds at a time."""
MIDDLE, OLD = 50, 100

MEMBERSHIP, GROUPS = Path("/proc/self/cgroup"), Path("/sys/fs/cgroup")
"""Where Linux says of which control groups the process is, and what these may use."""

RESIDENT = Path("/proc/self/statm")
"""Where Linux says what a process takes."""


def cores() -> int:
    """Return how many processes can run at once; a container or a service may have fewer cores than its machine."""
    count = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    # Part of a core is a core: what is left of it would have no process that uses it.
    return min([count, *map(math.ceil, _quotas())])


def _quotas() -> Iterator[float]:
    """Yield the processor time, in cores, that the control groups of this process may use, with those around them."""
    for group in _groups():
        with suppress(OSError, ValueError):
            yield _quota(*(group / "cpu.max").read_text().split())


def memory() -> int:
    """Return the bytes of memory that this process may use; a container or a service may have less than its machine."""
    most = [os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")]
    for group in _groups():
        with suppress(OSError, ValueError):
            most.append(int((group / "memory.max").read_text()))
    return min(most)


def resident() -> int:
    """Return the bytes of memory that this process takes now; 0 where the system does not say it."""
    with suppress(OSError):
        return int(RESIDENT.read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE")
    return 0


def _groups() -> Iterator[Path]:
    """Yield the control groups of this process, and those around them, of version 2."""
    with suppress(OSError):
        for line in MEMBERSHIP.read_text().splitlines():
            _, controllers, path = line.split(":", 2)
            if not controllers:
                # A container may see the path of its group on the machine, but its own group as the top.
                inner = GROUPS / path.lstrip("/")
                yield from (group for group in (inner, *inner.parents) if group.is_relative_to(GROUPS))


def _quota(quota: str, period: str) -> float:
    """Return microseconds of each period as cores; ValueError where there is no limit."""
    if (share := int(quota) / int(period)) > 0:
        return share
    raise ValueError(quota)


def collect_rarely() -> None:
    """Exclude everything that is loaded by now from garbage collection, and collect rarely."""
    # A chunk of records becomes thousands of tuples and lists without a single cycle. At Python's defaults the
    # collector walks through the waiting ones every 700 new objects: a third of the worker's time (measured).
    gc.collect()
    gc.freeze()
    gc.set_threshold(YOUNG, MIDDLE, OLD)
