"""Life events and drift events compared with the true changes that the records mark."""

from collections import defaultdict, deque
from collections.abc import Mapping, Sequence
from statistics import median
from typing import Any, Final

import numpy as np
from resonance.pipeline.evaluate.dataset import MARKS, Mark
from resonance.pipeline.evaluate.run import Run

WITHIN: Final = 2_000
"""Most records of its stream by which an event may come after the change."""

KINDS: Final[Mapping[str, str]] = {
    "emerged": "birth",
    "vanished": "death",
    "split": "split",
    "absorbed": "merge",
    "drift": "drift",
}
"""Kind of an event -> kind of the change that it reports."""


def compare(marks: Sequence[Mark], run: Run, within: int = WITHIN) -> dict[str, dict[str, Any]]:
    """Compare the events of a run with the marked changes, by kind.

    A change is found by the first event of its kind in its stream, at its record or at most `within` records of the
    stream later, that no earlier change was found by. The delay is counted in these records.
    """
    number = _numbers(run)
    reported: defaultdict[tuple[str, int], deque[int]] = defaultdict(deque)
    for at, event in sorted((*run.events, *run.drifts), key=lambda each: each[0]):
        if event["kind"] in KINDS:
            reported[KINDS[event["kind"]], int(run.stream[at])].append(int(number[at]))
    totals = {kind: sum(len(events) for (own, _), events in reported.items() if own == kind) for kind in MARKS}
    delays: dict[str, list[int]] = {kind: [] for kind in MARKS}
    for at, kind in sorted(marks):
        events, own = reported[kind, int(run.stream[at])], int(number[at])
        while events and events[0] < own:
            # It came before this change, and no earlier one was left for it.
            events.popleft()
        if events and events[0] <= own + within:
            delays[kind].append(events.popleft() - own)
    found = {}
    for kind in MARKS:
        true = sum(mark.kind == kind for mark in marks)
        if true or totals[kind]:
            found[kind] = _row(true, totals[kind], delays[kind])
    return found


def _numbers(run: Run) -> Any:
    """Return the number of each record in its stream."""
    number = np.zeros(len(run.stream), dtype=np.int64)
    for stream in np.unique(run.stream):
        mine = run.stream == stream
        number[mine] = np.arange(mine.sum())
    return number


def _row(true: int, reported: int, delays: Sequence[int]) -> dict[str, Any]:
    return {
        "true": true,
        "reported": reported,
        "found": len(delays),
        "precision": len(delays) / reported if reported else None,
        "recall": len(delays) / true if true else None,
        "delay": {"median": median(delays), "most": max(delays)} if delays else None,
    }
