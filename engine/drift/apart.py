"""Features that are apart from what the others say: suspected soon, and reported where they still are a while later.

A machine that starts is apart for some records, as each of its values follows in its own time. What is left of a
feature varies so little that this alone would be an alarm.
"""

from collections.abc import Sequence
from dataclasses import replace

import numpy as np
from resonance.engine.base import FloatArray
from resonance.engine.drift import layout
from resonance.engine.drift.changes import (
    ChangedChannel,
    ChangedUnit,
    changed_unit,
    known_inflation,
    ratio_since,
    spreads_of,
    strengths,
)
from resonance.engine.drift.episode import begin_episode, restart_features
from resonance.engine.drift.layout import Rules, WatchState
from resonance.engine.drift.learn import is_quiet
from resonance.engine.drift.ranges import begin_channel
from resonance.engine.drift.relations import fit_relations, forget_pairs, is_due, relation_unit
from resonance.kernels.table import stored_fields

_LONGEST = 2_048
"""Records after which a feature is still apart that has changed, at most."""
_MOVED, _WIDER = 2.0, 3.0
"""Spreads of what is left of it by which that has moved since, in the mean, and how many times as much it varies."""
_LONG = 8.0
"""Inflation from which on a feature has to be farther off."""
_ALIKE = 0.7
"""Part of how far the farthest feature is off from which another one is off alike."""
_LEAST = 0.25
"""Spreads of the feature itself by which that has moved, or varies, at least: what is less is of no consequence."""


def look_at_relations(state: WatchState, rules: Rules) -> tuple[bool, ChangedUnit | None]:
    """Follow what is left of the features; return whether an episode opens, and what has changed, if it has."""
    k = relation_unit(state)
    if state.apart == 0 and strengths(state, k).max() >= 1.0:
        state.apart = int(state.seen[k]) + state.still
        state.paired_before, state.sums_before[:] = state.paired, state.sums
    elif 0 < state.apart <= state.seen[k]:
        state.apart = 0
        unit = changed_unit(state, rules, k, _still_apart(state, rules, k), 0.0)
        channels = [each for each in unit.channels if _is_large(state, each)]
        if channels:
            restart_features(state, k, rules, layout.BASE)
            forget_pairs(state)
            first = _clearest(channels)
            state.named = first.channel + 1
            return begin_episode(state), replace(unit, channels=(first,))
        # What was apart for as long before is no news; the other features keep their evidence.
        state.still = min(2 * state.still, _LONGEST)
        seen = int(state.seen[k])
        state.check[k] = seen - layout.RANGE + max(int(state.kept[k]), layout.BASE)
        for c in np.flatnonzero(strengths(state, k).max(axis=1) >= 1.0).tolist():
            begin_channel(state, k, c, seen)
    elif is_due(state):
        state.refit = 2 * state.paired
        # While what is left is suspicious a change may be on its way, and the relations stay as they are.
        if (not state.watched[k] or is_quiet(state, k)) and fit_relations(state):
            _begin_left(state, rules, k)
    return False, None


def _begin_left(state: WatchState, rules: Rules, k: int) -> None:
    """Let the watch of what is left begin; for how long that depends on itself is known from before."""
    known = known_inflation(state, k, rules)
    for name in ("channel", "plain", "number", "return", "mark", "mark_time"):
        for field, _ in stored_fields(WatchState)[name]:
            getattr(state, field)[k] = 0
    state.inflation[k], state.size_inflation[k] = known
    state.check[k], state.share_check[k] = layout.BASE, layout.FIRST_SHARE
    state.still = layout.STILL


def _clearest(channels: Sequence[ChangedChannel]) -> ChangedChannel:
    """Return the one that changed by most of its spreads, in its mean or in how it varies."""
    sizes = [abs(each.after - each.before) / each.spread + each.ratio for each in channels]
    return channels[sizes.index(max(sizes))]


def _is_large(state: WatchState, channel: ChangedChannel) -> bool:
    """Whether a feature is off, or varies, by enough of what it goes by as a whole."""
    c = channel.channel
    spread = (spreads_of(state, 0) if state.watched[0] else state.old_spread[0])[c]
    off = abs(channel.after - channel.before) if channel.change == "moved" else channel.ratio * channel.spread
    return bool(off >= _LEAST * spread)


def _still_apart(state: WatchState, rules: Rules, k: int) -> FloatArray:
    """Return the evidence of the features that have been apart since it began, 0 of the others.

    Of those that have moved it is that of the farthest one: what it says of others is seen in these, too.
    """
    found, (inflation, _) = strengths(state, k), known_inflation(state, k, rules)
    for c in range(rules.d):
        s, records = state.cusum[k, c], state.seen[k] - np.array([state.onset[k, c], state.size_onset[k, c]])
        way = abs(s) / max(records[0], 1.0) + (state.allowed_up if s > 0.0 else state.allowed_down)[k, c]
        lasts = (found[c, :2] >= 1.0) & (records >= state.still)
        widened = lasts[1] & (ratio_since(state, (k, c)) >= _WIDER)
        # What depends on itself for long strays for long, too.
        moved = lasts[0] & (way >= _MOVED * (1.0 if widened else max(inflation[c] / _LONG, 1.0)))
        found[c, :2] *= moved, widened
    if (most := found[:, 0].max()) > 0.0:
        found[:] = 0.0
        found[_farthest(state, rules, k), 0] = most
    return found


def _farthest(state: WatchState, rules: Rules, k: int) -> int:
    """Return the feature that is farthest off; of some that are about as far, that which is elsewhere as a whole.

    Two that say each other are off alike, whichever it comes from.
    """
    off = ((state.late[k] - state.mean[k]) * state.inverse_spread[k])[: rules.d]
    off = np.where(np.diagonal(state.weight)[: rules.d] > 0.0, off, 0.0)
    records, d = state.paired - state.paired_before, rules.d
    way = np.zeros(d)
    if state.paired_before > 0 and records > 0:
        now = state.at[:d] + (state.sums - state.sums_before)[:d] / records / state.scale[:d]
        way = np.maximum(np.sign(off) * (now - 0.5 * (state.low + state.high)[:d]) * state.scale[:d], 0.0)
    alike = np.abs(off) >= _ALIKE * np.abs(off).max()
    return int(np.where(alike, way + 1e-6 * np.abs(off), -1.0).argmax())
