"""The share of the stream that a cell has: likelihood ratios of blocks of 64 records."""

import numpy as np
from resonance.engine.drift.layout import SHARE_BLOCK, WatchState
from resonance.kernels.arithmetic import correlation_time, jit, log

_ODDS = 2.0
"""How many times the odds of a record of the cell are as large after the change that is watched for."""
_FEWEST = 32.0
"""Records in the cell, and outside, that a baseline needs."""
_FEWEST_BLOCKS = 16.0
_ERRORS = 3.0
"""Standard errors of the baseline beyond which the odds are counted."""


@jit
def close_share_block(state, k, rules, offset, time):
    """End a block of a cell, and return whether its share is beyond the threshold."""
    c = float(state.count[k])
    state.count[k] = 0
    state.inside[k] += c
    state.inside_squares[k] += c * c
    if state.blocks[k] > 0:
        state.inside_products[k] += c * state.inside_before[k]
    state.inside_before[k] = c
    state.blocks[k] += 1
    alarm = False
    if state.share_threshold[k] < np.inf:
        others = SHARE_BLOCK - c
        state.rise[k] = max(state.rise[k] + (c * state.hit_up[k] + others * state.miss_up[k]), 0.0)
        state.rise_blocks[k] += 1.0
        if state.rise[k] == 0.0:
            state.rise_offset[k], state.rise_blocks[k], state.share_time[k, 0] = offset, 0.0, time
        state.fall[k] = max(state.fall[k] + (c * state.hit_down[k] + others * state.miss_down[k]), 0.0)
        state.fall_blocks[k] += 1.0
        if state.fall[k] == 0.0:
            state.fall_offset[k], state.fall_blocks[k], state.share_time[k, 1] = offset, 0.0, time
        alarm = state.rise[k] >= state.share_threshold[k] or state.fall[k] >= state.share_threshold[k]
    if state.blocks[k] == state.share_check[k]:
        limit = 0.25 * state.share_threshold[k]
        if state.share_threshold[k] == np.inf or (state.rise[k] < limit and state.fall[k] < limit):
            _take_share_baseline(state, k, rules, offset, time)
        state.share_check[k] *= 2
    return alarm


@jit
def _take_share_baseline(state, k, rules, offset, time):
    """Take the share of the blocks since the restart as the baseline, if they are enough."""
    blocks = state.blocks[k]
    records = float(blocks * SHARE_BLOCK)
    mean = state.inside[k] / blocks
    q = mean / SHARE_BLOCK
    variance = SHARE_BLOCK * q * (1.0 - q)
    t = 1.0
    if variance > 0.0:
        of_blocks = state.inside_squares[k] / blocks - mean * mean
        if of_blocks > 0.0:
            lasts = correlation_time(of_blocks, state.inside_products[k] / (blocks - 1) - mean * mean, 0.9)
            t = max((of_blocks / variance) * lasts, 1.0)
    outside = records - state.inside[k]
    if state.inside[k] < _FEWEST * t or outside < _FEWEST * t or blocks < _FEWEST_BLOCKS * t:
        state.share_threshold[k] = np.inf
        return
    if state.share_threshold[k] == np.inf:
        if state.share_bases[k] == 0:
            state.lowest_share[k] = state.highest_share[k] = q
        else:
            if 0.8 * state.lowest_share[k] <= q <= 1.25 * state.highest_share[k]:
                state.share_returns[k] += 1
            state.lowest_share[k] = min(state.lowest_share[k], q)
            state.highest_share[k] = max(state.highest_share[k], q)
        state.share_bases[k] += 1
        state.rise[k] = state.fall[k] = state.rise_blocks[k] = state.fall_blocks[k] = 0.0
        state.rise_offset[k] = state.fall_offset[k] = offset
        state.share_time[k] = time
    state.share[k] = q
    error = _ERRORS * np.sqrt(q * (1.0 - q) * t / records)
    high, low = q + error, q - error
    if state.share_returns[k] >= rules.ordinary:
        high, low = max(high, state.highest_share[k]), min(low, state.lowest_share[k])
    high, low = min(high, 0.999), max(low, 1e-6)
    up = _ODDS * high / (1.0 - high + _ODDS * high)
    down = low / (_ODDS * (1.0 - low) + low)
    state.hit_up[k], state.miss_up[k] = log(up / high), log((1.0 - up) / (1.0 - high))
    state.hit_down[k], state.miss_down[k] = log(down / low), log((1.0 - down) / (1.0 - low))
    state.share_threshold[k] = rules.threshold * t


def share_evidence(state: WatchState, k: int) -> float:
    """Return the evidence that the share of a unit has changed, 1 at the threshold."""
    limit = float(state.share_threshold[k])
    return float(max(state.rise[k], state.fall[k])) / limit if limit < np.inf else 0.0


def share_after(state: WatchState, k: int) -> float:
    """Return the share of a unit since it began to change."""
    if state.rise[k] >= state.fall[k]:
        value, blocks = state.rise[k], state.rise_blocks[k]
        hit, miss = state.hit_up[k], state.miss_up[k]
    else:
        value, blocks = state.fall[k], state.fall_blocks[k]
        hit, miss = state.hit_down[k], state.miss_down[k]
    if blocks > 0.0 and share_evidence(state, k) > 0.0:
        return float((value - SHARE_BLOCK * blocks * miss) / (hit - miss) / (SHARE_BLOCK * blocks))
    return float(state.share[k])
