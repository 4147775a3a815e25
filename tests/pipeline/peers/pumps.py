"""Pumps that alternate between kinds of work, of which one wears out over days."""

from typing import NamedTuple

import numpy as np

FEATURES = ["rpm", "vibration", "current", "temp", "pressure", "ambient"]
WORN, SELDOM, RESTING = 6, 11, 17
"""The pump that wears out; one that runs for less of its time; one that does not run in its last days."""

DAY = 288
"""Records of a pump in a day."""


class Fleet(NamedTuple):
    """Records of all pumps in the order of time."""

    rows: np.ndarray
    stream: np.ndarray
    day: np.ndarray


def fleet(seed, pumps=24, days=16, wears=(5.0, 8.0), third=11.0, factor=4.0, ramp=False, idle=False, stretch=40):
    """Return records of pumps, whose `third` kind of work begins on a day; the worn one's `factor` is reached slowly.

    With `ramp` the days are warm and the nights are cold, which moves two features without a step.
    """
    parts = []
    for pump in range(pumps):
        rng = np.random.default_rng([seed, pump])
        # Some are there later than the others.
        begin = rng.integers(4) if pump % 5 == 2 else 0
        number = np.arange(begin * DAY, days * DAY)
        day = number / DAY
        work = _works(rng, day, 0.3 if pump == SELDOM else 0.6, third, stretch)
        if pump == RESTING:
            work[day > days - 4] = 0
        parts.append((number * pumps + pump, np.full(len(number), pump), day, _rows(rng, work, day, ramp)))
        if pump == WORN:
            worn = np.interp(day, wears, (1.0, factor))
            if not idle:
                worn[work == 0] = 1.0
            # Vibration, current and pressure drift apart in each kind of work.
            parts[-1][3][:, [1, 2, 4]] *= np.column_stack([worn, worn, 1 / worn])
    order = np.argsort(np.concatenate([part[0] for part in parts]))
    stream, day, rows = (np.concatenate([part[place] for part in parts])[order] for place in (1, 2, 3))
    rows[np.random.default_rng(seed).random(rows.shape) < 0.02] = np.nan
    return Fleet(rows, stream, day)


def _works(rng, day, running, third, stretch):
    """Return the kinds of work, in stretches of hours: 0 idle, 1 running, and from a day on 2."""
    work = np.zeros(len(day), np.int64)
    at = 0
    while at < len(day):
        until = at + 5 + rng.geometric(1 / stretch)
        kinds = [1 - running, running, 0.0] if day[at] < third else [1 - running, 0.6 * running, 0.4 * running]
        work[at:until] = rng.choice(3, p=kinds)
        at = until
    return work


def _rows(rng, work, day, ramp):
    """Return the records of healthy pump; its levels are its own by some percent."""
    levels = np.array(
        [
            # rpm, vibration, current, temp, pressure
            [0.0, 0.1, 0.5, 30.0, 1.0],
            [1450.0, 2.0, 12.0, 55.0, 6.0],
            [2900.0, 5.0, 30.0, 70.0, 9.0],
        ]
    )
    own = 1 + 0.08 * rng.normal(size=5)
    noise = np.array([0.02, 0.15, 0.08, 0.03, 0.05])
    rows = levels[work] * own * (1 + noise * rng.normal(size=(len(work), 5)))
    rows[:, 0] += 2 * rng.normal(size=len(work))
    ambient = 15 + 8 * np.sin(2 * np.pi * day) * ramp + 1.5 * rng.normal(size=len(work))
    rows[:, 3] += (ambient - 15) * ramp
    return np.column_stack([rows, ambient])


def until(pumps, day, kept):
    """Return the last `kept` records before a day, for each pump as many, and their pumps."""
    seen = np.flatnonzero(pumps.day < day)[-kept * (pumps.stream.max() + 1) :]
    return pumps.rows[seen], pumps.stream[seen]
