"""Devices of which one breaks, the alerts of the task that learns them, and a drift as its watch says it."""

from types import SimpleNamespace
from typing import Any

import numpy as np
from resonance.pipeline.records import Record

from tests.pipeline.streams import STAMP, TOPIC, payloads, settings, task, value_of

CAREFUL: dict[str, Any] = {"engine__landmarks": None, "engine__memory": None, "engine__expire_records": None}
"""The engine's own defaults in place of `FORGETFUL`."""


def given(**changed):
    return settings(**{"stream": "key", **CAREFUL, **changed})


def devices(count=5, rounds=650, broken=350, seed=0, factor=12.0, gap=1_000, turns=100):
    """Records of some devices in turn; one breaks and is mended, one sends nothing for a while, some are no use."""
    rng = np.random.default_rng(seed)
    centres = rng.uniform(1.0, 9.0, (count, 3, 3))
    log = []
    for turn in range(rounds):
        for device in rng.permutation(count).tolist():
            offset = len(log) + len(log) // 60
            row = centres[device, rng.integers(3)] * (1.0 + 0.05 * rng.normal(size=3))
            if device == 3 and broken <= turn < broken + turns:
                row = row * factor * np.exp(0.5 * rng.normal(size=3))
            key = b"d%d" % device
            if device == 1 and 200 <= turn < 300:
                key = b"d0"
            value = b"{" if 260 <= turn < 280 else value_of(row.tolist(), id=f"r{offset}")
            log.append(Record(TOPIC, 0, offset, STAMP + gap * turn, key, value))
    return log


LOG = devices()


CUT = next(i for i, record in enumerate(LOG) if record.timestamp == STAMP + 420_000)
"""The third device is broken there, and its alert is open."""


def alerts_of(outputs):
    return [(alert["kind"], alert["rule"], alert["stream"]) for alert in payloads(outputs.alerts)]


def go_on(held, count, **changed):
    """Let a task go on behind the first records of the log, with settings that may have changed."""
    held.read = count
    held.write(held.task.models.pending(everything=True), LOG[count - 1].offset + 1)
    held.restore(task(given(**changed)), LOG)


def change(kind, *units):
    names = ("unit", "cluster", "share", "share_before", "share_after")
    return SimpleNamespace(kind=kind, units=[SimpleNamespace(**dict(zip(names, own, strict=True))) for own in units])


DRIFT = change("drift", (0, -1, False, 1, 1), (1, 2, True, 0.1, 0.2), (2, 3, True, 0.1, 0.01), (3, 4, True, 0.1, 0.15))
