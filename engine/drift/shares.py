"""The share of the stream that a cell has: likelihood ratios of blocks of 64 records."""

import numpy as np
from resonance.engine.base import FloatArray
from resonance.engine.drift import layout
from resonance.kernels.arithmetic import jit, log

_ODDS = 2.0
"""How many times the odds of a record of the cell are as large after the change that is watched for."""
_FEWEST = 32.0
"""Records in the cell, and outside, that a baseline needs."""
_FEWEST_BLOCKS = 16.0
_ERRORS = 3.0
"""Standard errors of the baseline beyond which the odds are counted."""


@jit
def close_share_block(share, times, number, rules, offset, time):
    """End a block of a cell, and return whether its share is beyond the threshold."""
    c = float(number[layout.COUNT])
    number[layout.COUNT] = 0
    share[layout.SN] += c
    share[layout.SNN] += c * c
    if number[layout.BLOCKS] > 0:
        share[layout.SNP] += c * share[layout.PN]
    share[layout.PN] = c
    number[layout.BLOCKS] += 1
    alarm = False
    if share[layout.HR] < np.inf:
        others = layout.SHARE_BLOCK - c
        share[layout.WU] = max(share[layout.WU] + (c * share[layout.HIT_UP] + others * share[layout.MISS_UP]), 0.0)
        share[layout.BU] += 1.0
        if share[layout.WU] == 0.0:
            share[layout.OU], share[layout.BU], times[0] = offset, 0.0, time
        share[layout.WD] = max(share[layout.WD] + (c * share[layout.HIT_DOWN] + others * share[layout.MISS_DOWN]), 0.0)
        share[layout.BD] += 1.0
        if share[layout.WD] == 0.0:
            share[layout.OD], share[layout.BD], times[1] = offset, 0.0, time
        alarm = share[layout.WU] >= share[layout.HR] or share[layout.WD] >= share[layout.HR]
    if number[layout.BLOCKS] == number[layout.SHARE_CHECK]:
        limit = 0.25 * share[layout.HR]
        if share[layout.HR] == np.inf or (share[layout.WU] < limit and share[layout.WD] < limit):
            _take_share_baseline(share, times, number, rules, offset, time)
        number[layout.SHARE_CHECK] *= 2
    return alarm


@jit
def _take_share_baseline(share, times, number, rules, offset, time):
    """Take the share of the blocks since the restart as the baseline, if they are enough."""
    blocks = number[layout.BLOCKS]
    records = float(blocks * layout.SHARE_BLOCK)
    mean = share[layout.SN] / blocks
    q = mean / layout.SHARE_BLOCK
    variance = layout.SHARE_BLOCK * q * (1.0 - q)
    t = 1.0
    if variance > 0.0:
        of_blocks = share[layout.SNN] / blocks - mean * mean
        if of_blocks > 0.0:
            r = min(max((share[layout.SNP] / (blocks - 1) - mean * mean) / of_blocks, 0.0), 0.9)
            t = max((of_blocks / variance) * ((1.0 + r) / (1.0 - r)), 1.0)
    outside = records - share[layout.SN]
    if share[layout.SN] < _FEWEST * t or outside < _FEWEST * t or blocks < _FEWEST_BLOCKS * t:
        share[layout.HR] = np.inf
        return
    if share[layout.HR] == np.inf:
        if number[layout.SHARE_BASES] == 0:
            share[layout.LOWEST_SHARE] = share[layout.HIGHEST_SHARE] = q
        else:
            if 0.8 * share[layout.LOWEST_SHARE] <= q <= 1.25 * share[layout.HIGHEST_SHARE]:
                number[layout.SHARE_RETURNS] += 1
            share[layout.LOWEST_SHARE] = min(share[layout.LOWEST_SHARE], q)
            share[layout.HIGHEST_SHARE] = max(share[layout.HIGHEST_SHARE], q)
        number[layout.SHARE_BASES] += 1
        share[layout.WU] = share[layout.WD] = share[layout.BU] = share[layout.BD] = 0.0
        share[layout.OU] = share[layout.OD] = offset
        times[0] = times[1] = time
    share[layout.P0] = q
    error = _ERRORS * np.sqrt(q * (1.0 - q) * t / records)
    high, low = q + error, q - error
    if number[layout.SHARE_RETURNS] >= rules.ordinary:
        high, low = max(high, share[layout.HIGHEST_SHARE]), min(low, share[layout.LOWEST_SHARE])
    high, low = min(high, 0.999), max(low, 1e-6)
    up = _ODDS * high / (1.0 - high + _ODDS * high)
    down = low / (_ODDS * (1.0 - low) + low)
    share[layout.HIT_UP], share[layout.MISS_UP] = log(up / high), log((1.0 - up) / (1.0 - high))
    share[layout.HIT_DOWN], share[layout.MISS_DOWN] = log(down / low), log((1.0 - down) / (1.0 - low))
    share[layout.HR] = rules.threshold * t


def share_evidence(share: FloatArray) -> float:
    """Return the evidence that a share has changed, 1 at the threshold."""
    return float(max(share[layout.WU], share[layout.WD]) / share[layout.HR]) if share[layout.HR] < np.inf else 0.0


def share_after(share: FloatArray) -> float:
    """Return the share since it began to change."""
    if share[layout.WU] >= share[layout.WD]:
        value, blocks = share[layout.WU], share[layout.BU]
        hit, miss = share[layout.HIT_UP], share[layout.MISS_UP]
    else:
        value, blocks = share[layout.WD], share[layout.BD]
        hit, miss = share[layout.HIT_DOWN], share[layout.MISS_DOWN]
    if blocks > 0.0 and share_evidence(share) > 0.0:
        return float((value - layout.SHARE_BLOCK * blocks * miss) / (hit - miss) / (layout.SHARE_BLOCK * blocks))
    return float(share[layout.P0])
