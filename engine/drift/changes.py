"""The changes that a watch reports: what changed in a unit, and from when on."""

from dataclasses import dataclass, replace
from typing import Final, Literal

import numpy as np
from resonance.engine.base import FloatArray
from resonance.engine.drift import layout
from resonance.engine.drift.layout import Rules, WatchState
from resonance.engine.drift.relations import relation_unit
from resonance.engine.drift.shares import share_after
from resonance.engine.drift.steps import step_change, step_evidence, step_ratio, steps_since

ChangeKind = Literal["drift", "settled", "recovered"]
FeatureChange = Literal["moved", "widened", "narrowed"]

MOST: Final = 5
"""Most channels of a unit that are reported."""
CLEAR: Final = 0.5
"""Evidence from which a channel, or a share, has part in a change."""
BESIDE: Final = -1
"""Number of the unit that is the stream with what is left of its features beside what the others say of them."""
WIDER: Final = 1.33
"""Ratio of spreads from which two baselines differ."""
_REACHES = 112, 960, 7600
"""Records back to which the marks of each level reach."""
_OLDEST = 400
"""Records after which the mean of late holds nothing from before."""


@dataclass(frozen=True, slots=True)
class Mark:
    """A record of the stream: its offset, and its time in milliseconds since 1970."""

    offset: int
    time: int


@dataclass(frozen=True, slots=True)
class ChangedChannel:
    """How a feature, or a signed sum of all features, of a unit changed, in prepared units.

    Attributes
    ----------
    channel : int
        Position of the feature; from the number of features on, a sum: the features vary together otherwise.
    change : {"moved", "widened", "narrowed"}
        Its mean, or how much it varies.
    evidence : float
        1 at the threshold; 0 at the end of an episode.
    before, after : float
        Mean before and since.
    spread : float
        Standard deviation before.
    ratio : float
        How many times as much it varies since.
    steps : bool
        Whether that is from record to record, about a wave that may be as it was.
    """

    channel: int
    change: FeatureChange
    evidence: float
    before: float
    after: float
    spread: float
    ratio: float
    steps: bool = False


@dataclass(frozen=True, slots=True, eq=False)
class ChangedUnit:
    """What changed of a cell, or of the stream as a whole.

    Attributes
    ----------
    unit : int
        0: the stream; from 1 on a cell; -1: the stream, with each feature beside what the others say of it.
    cluster, was : int
        Id of the cluster that its records are answered with most, now and when the cell was made; -1 for none.
    features, share : bool
        Whether its features changed, and its share of the stream.
    evidence : float
        The strongest; 0 at the end of an episode.
    share_before, share_after : float
        Share of the stream's records.
    settled, share_settled : bool
        At the end of an episode, whether its features have a new baseline, and its share.
    since : Mark or None
        From which record on; None at the end of an episode.
    channels : tuple of ChangedChannel
        At most five, the strongest first.
    before, after, spread : ndarray of shape (d,)
        Means of all features before and since, and spreads before, in prepared units; zeros where there is no baseline.
    """

    unit: int
    cluster: int
    was: int
    features: bool
    share: bool
    evidence: float
    share_before: float
    share_after: float
    settled: bool
    share_settled: bool
    since: Mark | None
    channels: tuple[ChangedChannel, ...]
    before: FloatArray
    after: FloatArray
    spread: FloatArray


@dataclass(frozen=True, slots=True, eq=False)
class DriftChange:
    """An event of a watch: an episode begins, or it ends.

    Attributes
    ----------
    index : int
        Record of the batch.
    record : int
        Number of the record among those that were watched.
    kind : {"drift", "settled", "recovered"}
        ``drift``: an episode begins. ``settled``: it ends with other baselines. ``recovered``: with those of before.
    cells : int
        Cells of the watch.
    evidence, threshold : float
        The strongest evidence, and the one from which it is a change.
    units : tuple of ChangedUnit
        The strongest first.
    """

    index: int
    record: int
    kind: ChangeKind
    cells: int
    evidence: float
    threshold: float
    units: tuple[ChangedUnit, ...]


def change_of(
    kind: ChangeKind, index: int, record: int, cells: int, threshold: float, units: list[ChangedUnit]
) -> DriftChange:
    """Return an event with its units, the strongest first."""
    # Sorting is stable: of equally strong ones the first unit comes first.
    ordered = tuple(sorted(units, key=lambda unit: -(unit.evidence or _largest(unit))))
    strongest = max((unit.evidence for unit in units), default=0.0)
    return DriftChange(index, record, kind, cells, strongest * threshold, threshold, ordered)


def _largest(unit: ChangedUnit) -> float:
    """Return by how many spreads a unit moved at most."""
    shifts = [abs(each.after - each.before) / each.spread for each in unit.channels if each.spread > 0.0]
    return max(shifts, default=0.0)


def means_of(state: WatchState, k: int) -> FloatArray:
    """Return the means of a unit's baselines in prepared units."""
    means: FloatArray = state.middle[k] + state.mean[k] / state.gain[k]
    return means


def spreads_of(state: WatchState, k: int) -> FloatArray:
    """Return the spreads of a unit's baselines in prepared units."""
    spreads: FloatArray = 1.0 / (state.inverse_spread[k] * state.gain[k])
    return spreads


def strengths(state: WatchState, k: int) -> FloatArray:
    """Return the evidence of both cumulative sums of each channel of a unit, and of its steps, 1 at the threshold."""
    if not state.watched[k]:
        return np.zeros((state.mean.shape[1], 3))
    q = state.size_cusum[k] / state.size_threshold[k]
    sizes = np.where(q >= 0.0, q, -q / layout.DOWN)
    limits = state.threshold[k] * np.where(state.cusum[k] * state.back[k] > 0.0, np.abs(state.back[k]), 1.0)
    return np.stack((np.abs(state.cusum[k]) / limits, sizes, step_evidence(state, k)), axis=1)


def known_inflation(state: WatchState, k: int, rules: Rules) -> tuple[FloatArray, FloatArray]:
    """Return the inflation of each channel of a unit, of values and of absolute ones, as far as it is known; or 0."""
    if not state.watched[k]:
        return state.inflation[k].copy(), state.size_inflation[k].copy()
    limits = (state.threshold[k], rules.theta), (state.size_threshold[k], rules.theta_q)
    one, other = (np.where(limit < np.inf, limit * theta / rules.threshold, 0.0) for limit, theta in limits)
    return one, other


def _marked(state: WatchState, k: int, onset: int) -> Mark:
    """Return the mark at or before a record of the unit."""
    seen, level = int(state.seen[k]), 0
    while level < layout.LEVELS - 1 and seen - onset > _REACHES[level]:
        level += 1
    # Of what lies further back the oldest mark is left.
    at = max(onset >> 3 * (level + 1), ((seen - 1) >> 9) - 15 if seen - onset > _REACHES[level] else 0)
    place = k, level, at & (layout.KEPT - 1)
    return Mark(int(state.mark[place]), int(state.mark_time[place]))


def _records_since(state: WatchState, one: tuple[int, int], onset: int) -> int:
    """Return how many records of a unit since an onset have a channel: about the share that has had it."""
    seen, lacked = int(state.seen[one[0]]), float(state.lacked[one])
    return int((seen - onset) * (1.0 - lacked / seen)) if lacked else seen - onset


def _mean_since(state: WatchState, one: tuple[int, int], onset: int) -> float:
    """Return the mean of late of a channel, freed of what it still holds from before a change."""
    left = 1.0
    for _ in range(min(_records_since(state, one, onset), _OLDEST)):
        left *= 0.9375
    mu = float(state.mean[one])
    late = mu if left == 1.0 else mu + (float(state.late[one]) - mu) / (1.0 - left)
    return float(state.middle[one]) + late / float(state.gain[one])


def _bounded(state: WatchState, one: tuple[int, int], moved: bool, after: float) -> float:
    """Return the estimate `after` of the mean since a change, or a mean of what was seen where that contradicts it.

    The estimate assumes that the values before the change were at the baseline. But that is a mean of clipped values,
    so they can have been far beyond: then it is on the wrong side, or too far out. A cumulative sum that left 0 gives
    the exact mean of the clipped values since.
    """
    mu, width = float(state.mean[one]), 1.0 / float(state.inverse_spread[one])
    estimate = (after - float(state.middle[one])) * float(state.gain[one]) - mu
    late = float(state.late[one]) - mu
    s, records = float(state.cusum[one]), _records_since(state, one, int(float(state.onset[one])))
    if moved and records > 0 and s != 0.0:
        side = 1.0 if s > 0.0 else -1.0
        excess = abs(s) / records + (float(state.allowed_up[one]) if s > 0.0 else float(state.allowed_down[one]))
        # The baseline may have been taken anew since, so that the sum is of two of them.
        mean = min(max(mu + side * excess * width, -layout.CLIP), layout.CLIP)
        far, distance = side * estimate, side * (mean - mu)
        # Of many records the sum knows more than the mean of late, such as of a flag that is seldom set.
        if records > _OLDEST and side * mean < 0.5 * layout.CLIP and distance > 0.0:
            return float(state.middle[one]) + mean / float(state.gain[one])
        # Where half of the values were clipped, their mean lies further out.
        if 0.0 < far <= distance + width or (far > 0.0 and side * mean >= 0.5 * layout.CLIP):
            return after
        shift = side * (max(distance, side * late) if far > 0.0 else distance)
    elif abs(estimate - late) <= width:
        return after
    else:
        shift = late
    return float(state.middle[one]) + (mu + shift) / float(state.gain[one])


def _onset_of_steps(state: WatchState, k: int, c: int) -> int:
    """Return the record of a unit since which a feature is stuck or noisy; it may have begun anew meanwhile."""
    return max(int(state.seen[k]) - state.records + steps_since(state, c), 0)


def ratio_since(state: WatchState, one: tuple[int, int]) -> float:
    """Return how many times as much a channel varies since it began to vary otherwise."""
    records = _records_since(state, one, int(float(state.size_onset[one])))
    q, al = float(state.size_cusum[one]), float(state.size[one])
    if records == 0 or q == 0.0 or al == 0.0:
        return 1.0
    excess = q / records + (float(state.size_allowed[one]) if q > 0.0 else -float(state.size_allowed[one]))
    return max((al + excess / float(state.size_inverse_spread[one])) / al, 0.0)


def _beside(state: WatchState, unit: ChangedUnit) -> ChangedUnit:
    """Return what changed beside what the other features say, where these are as usual as its relations are old."""
    usual = 0.5 * (state.low + state.high)[: len(unit.before)]
    way = usual - unit.before
    channels = tuple(
        replace(each, before=each.before + float(way[each.channel]), after=each.after + float(way[each.channel]))
        for each in unit.channels
    )
    after = unit.after + way
    return replace(unit, unit=BESIDE, cluster=-1, was=-1, channels=channels, before=usual, after=after)


def changed_unit(state: WatchState, rules: Rules, k: int, each: FloatArray, share: float) -> ChangedUnit:
    """Return what has changed in a unit, by the evidence of each channel (`strengths`) and of its share."""
    d, features = len(state.sign), float(each.max())
    side = 0 if state.rise[k] >= state.fall[k] else 1
    since = Mark(int((state.fall_offset if side else state.rise_offset)[k]), int(state.share_time[k, side]))
    means, clipped, spreads = np.zeros((3, state.mean.shape[1]))
    if state.watched[k]:
        clipped, spreads = means_of(state, k), spreads_of(state, k)
        means = state.usual[k].copy() if rules.leaps else clipped
    after, channels = means.copy(), list[ChangedChannel]()
    if features >= CLEAR:
        c, which = divmod(int(each.argmax()), each.shape[1])
        onset = float((state.onset, state.size_onset)[which][k, c]) if which < 2 else _onset_of_steps(state, k, c)
        since = _marked(state, k, int(onset))
        strongest = each.max(axis=1)
        change: FeatureChange
        for c in np.argsort(-strongest, kind="stable")[:MOST].tolist():
            if strongest[c] < CLEAR:
                break
            one, (s, q, rough) = (k, c), each[c].tolist()
            steps = step_change(state, c) if rough >= CLEAR else ""
            if steps == "stuck" or (steps and rough >= max(s, q)):
                ratio = step_ratio(state, c)
                now = state.last[c] if ratio < 1.0 else _mean_since(state, one, _onset_of_steps(state, k, c))
                # A wave goes less far by itself.
                is_far = steps != "noisy" or abs(now - means[c]) > layout.CLIP * spreads[c]
                after[c] = now if is_far else means[c]
                change = "moved" if steps == "far" else "widened" if steps == "noisy" else "narrowed"
                found = float(means[c]), float(after[c]), float(spreads[c]), ratio
                channels.append(ChangedChannel(c, change, rough, *found, steps == "noisy"))
                continue
            moved = s >= CLEAR or s >= q
            change = "moved" if moved else "widened" if state.size_cusum[one] > 0.0 else "narrowed"
            after[c] = _mean_since(state, one, int((state.onset if moved else state.size_onset)[one]))
            # Sums of all features have no bounds.
            after[c] = _bounded(state, one, moved, float(after[c])) if c < d else after[c]
            # Few values far out can make the mean another one than what the sums begin at.
            after[c] += means[c] - clipped[c]
            found = float(means[c]), float(after[c]), float(spreads[c]), ratio_since(state, one)
            channels.append(ChangedChannel(c, change, max(s, q), *found))
    unit = ChangedUnit(
        unit=k,
        cluster=int(state.name[k]) if k else -1,
        was=int(state.names[k]) if k else -1,
        features=features >= CLEAR,
        share=share >= CLEAR,
        evidence=max(features, share),
        share_before=float(state.share[k]),
        share_after=share_after(state, k),
        settled=False,
        share_settled=False,
        since=since,
        channels=tuple(channels),
        before=means[:d],
        after=after[:d],
        spread=spreads[:d],
    )
    return _beside(state, unit) if k == relation_unit(state) else unit


def ended_unit(state: WatchState, rules: Rules, k: int) -> ChangedUnit:
    """Return what a unit of an episode is like at its end, beside what it was like before."""
    d, channels = len(state.sign), list[ChangedChannel]()
    before, after, spread = np.zeros((3, d))
    if state.flag[k] and state.watched[k]:
        old, means, width = state.old[k], means_of(state, k), state.old_spread[k]
        ratio, shift = spreads_of(state, k) / width, np.abs(means - old) / width
        shift = np.where(shift >= rules.step, shift, 0.0)
        differs = (shift > 0.0) | (ratio > WIDER) | (ratio * WIDER < 1.0)
        if rules.leaps:
            way, old, means = means - old, state.old_usual[k], state.usual[k].copy()
            # How many values are far out is by chance.
            means = np.where((shift > 0.0) & (way * (means - old) < 0.0), old + way, means)
        for c in [c for c in np.argsort(-shift, kind="stable").tolist() if differs[c]][:MOST]:
            change: FeatureChange = "moved" if shift[c] > 0.0 else "widened" if ratio[c] > 1.0 else "narrowed"
            found = float(old[c]), float(means[c]), float(width[c]), float(ratio[c])
            channels.append(ChangedChannel(c, change, 0.0, *found))
        before, after, spread = old[:d].copy(), means[:d], width[:d].copy()
    unit = ChangedUnit(
        unit=k,
        cluster=int(state.name[k]) if k else -1,
        was=int(state.names[k]) if k else -1,
        features=bool(state.flag[k]),
        share=bool(state.share_flag[k]),
        evidence=0.0,
        share_before=float(state.old_share[k]),
        share_after=float(state.share[k]),
        settled=bool(state.watched[k]),
        share_settled=bool(state.share_threshold[k] < np.inf),
        since=None,
        channels=tuple(channels),
        before=before,
        after=after,
        spread=spread,
    )
    if k != relation_unit(state):
        return unit
    return _beside(state, replace(unit, channels=tuple(each for each in channels if each.channel == state.named - 1)))
