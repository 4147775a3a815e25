"""What the machine has."""

import os


def cores() -> int:
    """Return how many processes can run at once; a container may have fewer cores than its machine."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
