"""What the alarms of many streams amount to, beside the bars."""

import math
import statistics
from dataclasses import dataclass
from typing import Final

import numpy as np

from bench.drift.detectors import Alarm, alarms
from bench.drift.streams import MOVES, changed, unchanging

AT, AFTER = 6_000, 4_500
"""Record with which a stream changes, and records from there to its end."""
SETTLED = 100_000
"""Records after which a rhythm is to be ordinary."""
SLOWLY: Final = {"gradual": 1_500, "incremental": 1_500, "widened": 1_000, "share": 1_000, "vanished": 1_000}
"""Records within which a change is to be found; any other within 500."""
FOUND, RIGHT_CELL, RIGHT_FEATURE = 0.95, 0.95, 0.98
FALSE_PER_MILLION = 0.1


@dataclass(frozen=True, slots=True)
class Line:
    """Some streams of a kind and shape with one detector; a figure that there is none of is None.

    Of changes: the share found `in_time`, the median `delay`, the shares that name the right `cell` and `feature`,
    alarms `before`. Of streams without one: `false` alarms, and of rhythms the `late` ones. `misses`: bars missed.
    """

    kind: str
    shape: str
    detector: str
    streams: int
    records: int
    in_time: float | None = None
    delay: float | None = None
    cell: float | None = None
    feature: float | None = None
    before: int | None = None
    false: int | None = None
    late: int | None = None
    misses: tuple[str, ...] = ()


def limit(kind: str) -> int:
    """Return the records within which a change is to be found."""
    return SLOWLY.get(kind, 500)


def _is_right(kind: str, alarm: Alarm) -> bool:
    if kind == "all":
        return 0 in alarm.cells or 2 * len(alarm.cells) >= alarm.of
    return not alarm.cells.isdisjoint(alarm.touched)


def of_changes(kind: str, d: int, kinds: int, seeds: int, detector: str, engine: str) -> Line:
    """Run streams with a change through a detector."""
    delays, before, cells, features = [], 0, [], []
    for seed in range(seeds):
        stream = changed(kind, d, kinds, seed, AT + AFTER, AT)
        found = alarms(stream.X, detector, engine, stream.own)
        later = [alarm for alarm in found if alarm.record >= AT]
        before += len(found) - len(later)
        delays.append(float(later[0].record - AT) if later else math.inf)
        if later:
            if later[0].cells:
                cells.append(_is_right(kind, later[0]))
            if later[0].feature is not None and kind in MOVES:
                features.append(bool(stream.moving[later[0].feature]))
    in_time = statistics.mean(delay <= limit(kind) for delay in delays)
    cell, feature = (statistics.mean(right) if right else None for right in (cells, features))
    bars = {
        f"within {limit(kind):,}": in_time < FOUND,
        "cell": cell is not None and cell < RIGHT_CELL and d >= 4,
        "feature": feature is not None and feature < RIGHT_FEATURE,
        "before": before > 0,
    }
    delay = float(np.median(delays))
    return Line(
        kind, f"{d}x{kinds}", detector, seeds, seeds * AT, in_time, delay if math.isfinite(delay) else None, cell,
        feature, before, misses=tuple(name for name, missed in bars.items() if missed),
    )  # fmt: skip


def of_unchanging(
    kind: str, d: int, kinds: int, records: int, seeds: int, detector: str, engine: str, rhythm: bool
) -> Line:
    """Run streams without a change, or with a rhythm, through a detector."""
    false = late = 0
    for seed in range(100, 100 + seeds):
        found = alarms(unchanging(kind, d, kinds, seed, records), detector, engine)
        false += len(found)
        late += sum(alarm.record >= SETTLED for alarm in found)
    total = seeds * records
    if rhythm:
        # Of two features a swing carries records over the borders of cells: no bar.
        missed = ("late",) if late and (kind != "daily" or d >= 4) else ()
    else:
        missed = ("false",) if false > max(1.0, FALSE_PER_MILLION * total / 1e6) else ()
    shape = f"{d}x{kinds}"
    return Line(kind, shape, detector, seeds, total, false=false, late=late if rhythm else None, misses=missed)
