"""Alarms and episodes: one change is one event, and one more when the units concerned have new baselines."""

import numpy as np
from resonance.engine.arithmetic import jit
from resonance.engine.drift import layout
from resonance.engine.drift.report import (
    CLEAR,
    DRIFT,
    RECOVERED,
    SETTLED,
    WIDER,
    describe_ended,
    describe_unit,
    evidence,
    mean_of,
    spread_of,
    write_event,
)
from resonance.engine.drift.shares import share_evidence

_LONGEST = 8
"""Holds after which an episode ends, settled or not."""
_SILENT = 0.1
"""Part of a share below which its cell has gone."""


@jit
def _restart_features(channel, number, rules, base):
    """Keep what a unit was like, and begin to learn what it is like now."""
    for i in range(channel.shape[1]):
        channel[layout.PREVIOUS, i] = channel[layout.OLD, i]
        channel[layout.PREVIOUS_SPREAD, i] = channel[layout.OLD_SPREAD, i]
        high, high_q = channel[layout.HS, i], channel[layout.HQ, i]
        channel[layout.TAU_S, i] = high * rules.theta / rules.threshold if high < np.inf else 0.0
        channel[layout.TAU_Q, i] = high_q * rules.theta_q / rules.threshold if high_q < np.inf else 0.0
        channel[layout.OLD, i], channel[layout.OLD_SPREAD, i] = mean_of(channel, i), spread_of(channel, i)
    channel[: layout.CLEARED] = 0.0
    number[layout.SEEN] = number[layout.WATCHED] = 0
    number[layout.CHECK], number[layout.FLAG] = base, 1


@jit
def _restart_share(share, times, number):
    """Keep what a share was, and begin to learn what it is now."""
    share[layout.PREVIOUS_SHARE] = share[layout.OLD_SHARE]
    share[layout.OLD_SHARE] = share[layout.P0]
    share[: layout.SHARE_CLEARED] = 0.0
    share[layout.HR] = np.inf
    times[:] = 0
    number[layout.BLOCKS], number[layout.SHARE_CHECK], number[layout.COUNT] = 0, 16, 0
    number[layout.SHARE_FLAG] = 1


@jit
def raise_alarm(state, rules, units, now, offset, log, rows, vectors):
    """Open an episode, or let further units join it."""
    head = state.head
    features, shares, concerned = np.empty(units), np.empty(units), 0
    for k in range(units):
        features[k], shares[k] = evidence(state.channel[k], state.number[k]), share_evidence(state.share[k])
        concerned += (features[k] >= CLEAR) | (shares[k] >= CLEAR)
    joined = float(head[layout.OPEN])
    if head[layout.OPEN] == 0:
        head[layout.OPEN], head[layout.START] = 1, now
        head[layout.MOVED_CELLS] = head[layout.SHARES] = head[layout.GONE] = 0
        write_event(log, rows, now, DRIFT, head, concerned, offset)
    for k in range(units):
        if features[k] < CLEAR and shares[k] < CLEAR:
            continue
        describe_unit(state, k, features[k], shares[k], now, joined, log, rows, vectors)
        if features[k] >= CLEAR:
            base = layout.BASE if k else layout.STREAM_BASE
            _restart_features(state.channel[k], state.number[k], rules, base)
            head[layout.MOVED_CELLS] += k > 0
        if shares[k] >= CLEAR:
            _restart_share(state.share[k], state.share_time[k], state.number[k])
            head[layout.SHARES] += 1


@jit
def _features_are_back(channel, number, rules):
    """Whether a unit's new baseline is the one before the change, or the one before that."""
    if not number[layout.WATCHED]:
        return False
    same, again = True, number[layout.BASES] >= 3
    for i in range(channel.shape[1]):
        at, spread = mean_of(channel, i), spread_of(channel, i)
        margin = rules.step * channel[layout.OLD_SPREAD, i]
        for which in range(2):
            place, width = channel[layout.OLD + 2 * which, i], channel[layout.OLD_SPREAD + 2 * which, i]
            differs = abs(at - place) > margin or spread > WIDER * width or width > WIDER * spread
            if differs and which == 0:
                same = False
            elif differs:
                again = False
    return same or again


@jit
def _share_is_back(share, number):
    """Whether a cell's new share is the one before the change, or the one before that."""
    if not share[layout.HR] < np.inf:
        return False
    q, old, previous = share[layout.P0], share[layout.OLD_SHARE], share[layout.PREVIOUS_SHARE]
    again = number[layout.SHARE_BASES] >= 3 and 0.8 * previous <= q <= 1.25 * previous
    return 0.8 * old <= q <= 1.25 * old or again


@jit
def end_episode(state, rules, units, now, offset, log, rows, vectors):
    """End the open episode if every unit concerned has its new baseline, or if it has lasted for long."""
    head, done = state.head, True
    for k in range(units):
        number = state.number[k]
        if number[layout.FLAG] and not number[layout.WATCHED]:
            done = False
        if number[layout.SHARE_FLAG] and not state.share[k, layout.HR] < np.inf:
            done = False
    if not done and now - head[layout.START] < _LONGEST * rules.hold:
        return
    head[layout.OPEN] = 0
    back, concerned = True, 0
    for k in range(units):
        number, share = state.number[k], state.share[k]
        if not (number[layout.FLAG] or number[layout.SHARE_FLAG]):
            continue
        concerned += 1
        if number[layout.FLAG] and not _features_are_back(state.channel[k], number, rules):
            back = False
        if number[layout.SHARE_FLAG]:
            records = layout.SHARE_BLOCK * number[layout.BLOCKS]
            head[layout.GONE] += share[layout.SN] < _SILENT * share[layout.OLD_SHARE] * records
            if not _share_is_back(share, number):
                back = False
    write_event(log, rows, now, RECOVERED if back and concerned else SETTLED, head, concerned, offset)
    for k in range(units):
        number = state.number[k]
        if number[layout.FLAG] or number[layout.SHARE_FLAG]:
            describe_ended(state, rules, k, now, log, rows, vectors)
            number[layout.FLAG] = number[layout.SHARE_FLAG] = 0
    if head[layout.GONE] > 0 or (head[layout.MOVED_CELLS] > 0 and head[layout.SHARES] > 0):
        head[layout.REBUILD] = 1
