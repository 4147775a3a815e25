"""What the alarms of many streams amount to, beside the bars."""

import math
import statistics
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np

from bench.drift.detectors import Alarm, alarms, prepared
from bench.drift.streams import MOVES, changed, unchanging

AT = 6_000
"""Record with which a stream changes."""
AFTER = 4_500
"""Records from there to its end."""
WITHIN = (500, 1_000, 1_500)
SETTLED = 100_000
"""Records after which a rhythm is to be ordinary."""
FOUND, RIGHT_CELL, RIGHT_FEATURE = 0.95, 0.95, 0.98
FALSE_PER_MILLION = 0.1


def limit(kind: str) -> int:
    """Return the records within which a change is to be found."""
    return {"gradual": 1_500, "incremental": 1_500, "widened": 1_000, "share": 1_000, "vanished": 1_000}.get(kind, 500)


@dataclass(frozen=True, slots=True)
class Line:
    """Some streams of a kind and shape with one detector; a figure that there is none of is None."""

    kind: str
    shape: str
    detector: str
    streams: int
    records: int
    within: tuple[float, ...] | None
    delay: float | None
    cell: float | None
    feature: float | None
    before: int | None
    false: int | None
    late: int | None
    misses: tuple[str, ...]

    def as_dict(self) -> dict[str, Any]:
        """Return the line as ``--json`` writes it."""
        return asdict(self)


def _is_right(kind: str, alarm: Alarm) -> bool:
    if kind == "all":
        return 0 in alarm.cells or 2 * len(alarm.cells) >= alarm.of
    return not alarm.cells.isdisjoint(alarm.touched)


def _share(found: Sequence[bool]) -> float | None:
    return statistics.mean(found) if found else None


def of_changes(kind: str, d: int, kinds: int, seeds: int, detector: str, engine: str) -> Line:
    """Run streams with a change through a detector."""
    delays, before, cells, features = [], 0, [], []
    for seed in range(seeds):
        stream = changed(kind, d, kinds, seed, AT + AFTER, AT)
        found = alarms(prepared(stream.X), detector, engine, stream.own)
        later = [alarm for alarm in found if alarm.record >= AT]
        before += len(found) - len(later)
        delays.append(float(later[0].record - AT) if later else math.inf)
        if later:
            if later[0].cells:
                cells.append(_is_right(kind, later[0]))
            if later[0].feature is not None and kind in MOVES:
                features.append(bool(stream.moving[later[0].feature]))
    within = tuple(float(np.mean(np.array(delays) <= bound)) for bound in WITHIN)
    delay, cell, feature = float(np.median(delays)), _share(cells), _share(features)
    misses = []
    if within[WITHIN.index(limit(kind))] < FOUND:
        misses.append(f"within {limit(kind):,}")
    if cell is not None and cell < RIGHT_CELL and d >= 4:
        misses.append("cell")
    if feature is not None and feature < RIGHT_FEATURE:
        misses.append("feature")
    if before:
        misses.append("before")
    delay_found = delay if math.isfinite(delay) else None
    shape, records = f"{d}x{kinds}", seeds * AT
    return Line(
        kind, shape, detector, seeds, records, within, delay_found, cell, feature, before, None, None, tuple(misses)
    )


def of_unchanging(
    kind: str, d: int, kinds: int, records: int, seeds: int, detector: str, engine: str, rhythm: bool
) -> Line:
    """Run streams without a change, or with a rhythm, through a detector."""
    false = late = 0
    for seed in range(100, 100 + seeds):
        found = alarms(prepared(unchanging(kind, d, kinds, seed, records)), detector, engine)
        false += len(found)
        late += sum(alarm.record >= SETTLED for alarm in found)
    total = seeds * records
    if rhythm:
        # Of two features a swing carries records over the borders of cells: no bar.
        missed = ("late",) if late and (kind != "daily" or d >= 4) else ()
    else:
        missed = ("false",) if false > max(1.0, FALSE_PER_MILLION * total / 1e6) else ()
    shape = f"{d}x{kinds}"
    known = late if rhythm else None
    return Line(kind, shape, detector, seeds, total, None, None, None, None, None, false, known, missed)
