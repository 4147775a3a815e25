"""Five days of readings of 40 machines: unequal scales, a lognormal tail, a constant, a category and a rare count.

From day 3 on the machines of one site report their first feature in another unit; machine 17 breaks on day 2.4; from
day 4 on six machines are of kinds that were not there before. The classes are kind and mode, other ones in the other
unit: a machine that breaks stays of its class.
"""

import numpy as np
from numpy.typing import NDArray

from bench.gallery.endless import Labelled, Maker
from bench.streams import Classes

RECORDS = 60_000
MACHINES = 40
MODES = 3
KINDS = 8
SCALES = np.array([10, 1, 300, 5, 0.5, 40, 2, 8, 100])
SPREADS = np.array([2, 0.2, 60, 1, 0.1, 8, 0.4, 1.6, 20])


def sensors(n: int, seed: int) -> Labelled:
    """Return the readings in order of time."""
    rng = np.random.default_rng(seed)
    machine = rng.integers(MACHINES, size=n)
    day = np.sort(rng.random(n) * 5)
    kind = machine % 4 + np.where((machine >= 34) & (day > 4), 4, 0)
    mode = rng.integers(MODES, size=n)
    base = np.random.default_rng(seed + 1).random((KINDS, MODES, len(SCALES))) * 4
    readings = base[kind, mode] * SCALES + rng.normal(size=(n, len(SCALES))) * SPREADS
    readings[:, 8] = np.exp(readings[:, 8] / 150)
    other_unit = (machine % 2 == 1) & (day > 3)
    readings[other_unit, 0] = readings[other_unit, 0] * 1.8 + 32
    broken = (machine == 17) & (day > 2.4)
    readings[broken, 4] *= 12
    readings[broken, 7] *= 0.15
    X = np.column_stack([readings, np.full(n, 24.0), mode, rng.poisson(0.02, size=n)])
    return X, kind * MODES + mode + KINDS * MODES * other_unit


def novelties(y: Classes) -> dict[str, NDArray[np.bool_]]:
    """Return which records are of what the stream did not begin with: the other unit, and the later kinds."""
    return {"unit change": y >= KINDS * MODES, "new kind": y % (KINDS * MODES) // MODES >= 4}


MAKERS: dict[str, Maker] = {"sensors": sensors}
