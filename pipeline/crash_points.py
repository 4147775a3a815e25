"""Fault points at which the kill test ends the process as a machine crash would.

The environment variable ``RESONANCE_FAULT_POINT`` names one of `FAULT_POINTS`, optionally followed by ``:<count>``:
``after-produce:3`` kills the process at the third arrival. Without the variable `reach` costs one comparison.
"""

import os
import signal
from typing import Final

VARIABLE: Final = "RESONANCE_FAULT_POINT"
FAULT_POINTS: Final = (
    "after-begin",
    "after-produce",
    "after-offsets",
    "during-commit",
    "during-restore",
    "between-snapshot-chunks",
    "in-revoke",
)


def _armed(text: str) -> tuple[str, int]:
    """Return the fault point and the number of arrivals that `text`, the value of the variable, names."""
    name, _, count = text.partition(":")
    if name not in FAULT_POINTS or not (count or "1").isdecimal():
        message = f"{VARIABLE} = {text!r}: must be one of {', '.join(FAULT_POINTS)}, with :<count> behind it or not"
        raise ValueError(message)
    return name, int(count or "1")


_name, _left = _armed(text) if (text := os.environ.get(VARIABLE, "")) else ("", 0)


def armed(name: str) -> bool:
    """Return whether the next arrival at `name` is the last, for fault points that need preparation."""
    return name == _name and _left <= 1


def reach(name: str) -> None:
    """Kill this process with SIGKILL if the variable selects this arrival at `name`; otherwise do nothing."""
    global _left  # noqa: PLW0603 - one process, one point
    if name != _name:
        return
    _left -= 1
    if _left <= 0:
        os.kill(os.getpid(), signal.SIGKILL)
