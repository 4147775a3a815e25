"""Changes that are made in real data, and how many a detector finds in time: F1 and the normalized delay.

Monte Carlo trials after V. Cerqueira, H. M. Gomes, M. Heyden, B. Pfahringer and A. Bifet, "A Framework for Evaluating
and Benchmarking Concept Drift Detection Methods", 2026 (arXiv 2606.07789): records of a data set are drawn at random,
and from one record on features are permuted, or a class has another share.
"""

import statistics
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Final

import numpy as np

from bench.drift.detectors import Alarm, alarms
from bench.streams import Array, load

SETS: Final = ("statlog", "wdbc", "yeast")
CHANGES: Final = ("permuted", "share")
AT, AFTER = 6_000, 3_000
"""Records before a change, and from there to the end of a stream."""
IN_TIME: Final = 2_000
"""Records after a change within which an alarm finds it."""
GRADUAL: Final = 1_000
"""Records in the course of which a gradual change takes hold of all records."""
LARGER: Final = 3.0
"""How many times as likely the class with another share is."""


@dataclass(frozen=True, slots=True)
class Score:
    """What a detector found of one change in many streams of a data set.

    Attributes
    ----------
    precision, recall, f1 : float
        Of alarms: the first one in time is right, all others but those that follow it in time are wrong.
    delay : float
        Mean records from the change to the alarm that finds it, divided by `IN_TIME`; 1 where none does.
    """

    data: str
    change: str
    detector: str
    streams: int
    precision: float
    recall: float
    f1: float
    delay: float


def stream(X: Array, y: Any, change: str, seed: int, *, gradual: bool) -> Array:
    """Return rows of a data set in random order, with replacement, that change at record `AT`.

    permuted: half of the features, at least two, change places. share: a class is three times as likely.
    """
    rng = np.random.default_rng([seed, *change.encode()])
    t = np.arange(AT + AFTER)
    share = (t - AT) / GRADUAL if gradual else (t >= AT).astype(np.float64)
    changed = rng.random(len(t)) < share
    before = rng.integers(len(X), size=len(t))
    if change == "share":
        odds = np.where(y == rng.choice(y), LARGER, 1.0)
        return X[np.where(changed, rng.choice(len(X), len(t), p=odds / odds.sum()), before)]
    rows = X[before]
    own = rng.permutation(X.shape[1])[: max(2, X.shape[1] // 2)]
    rows[np.ix_(changed, own)] = rows[np.ix_(changed, np.roll(own, 1))]
    return rows


def score(found: Sequence[Sequence[Alarm]]) -> tuple[float, float, float, float]:
    """Return precision, recall, F1 and normalized delay of the alarms in some streams."""
    right = wrong = 0
    delays = []
    for own in found:
        in_time = [alarm.record for alarm in own if AT <= alarm.record < AT + IN_TIME]
        right += bool(in_time)
        wrong += len(own) - len(in_time)
        delays.append((in_time[0] - AT) / IN_TIME if in_time else 1.0)
    precision = right / (right + wrong) if right + wrong else 0.0
    recall = right / len(found)
    f1 = 2.0 * precision * recall / (precision + recall) if right else 0.0
    return precision, recall, f1, statistics.mean(delays)


def of_real(name: str, change: str, gradual: bool, seeds: int, detector: str, engine: str) -> Score | None:
    """Run streams of a data set through a detector; None where the data set is not at hand."""
    given = load(name)
    if given is None:
        return None
    X, y = given
    found = [alarms(stream(X, y, change, seed, gradual=gradual), detector, engine) for seed in range(seeds)]
    kind = f"{change}, gradual" if gradual else change
    return Score(name, kind, detector, seeds, *score(found))
