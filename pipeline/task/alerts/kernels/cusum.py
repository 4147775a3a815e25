"""A watch of records that are unlike: a CUSUM of log likelihood ratios, of the stream's share against a far higher one.

Records that lack a feature are watched by the same. Such records come in bursts, so that the threshold is inflated by
the ratio of long-run variance to variance, measured on blocks of the stream.
"""

import numpy as np
from resonance.kernels.arithmetic import correlation_time, jit, log

# Integers of a watch.
IN_BLOCK = 0  # answers of the present block
UNLIKE = 1  # unlike records of the present block
BLOCKS = 2  # blocks of the baseline
LAST = 3  # unlike records of the last block of the baseline
RUN = 4  # answers since the CUSUM left 0
RUN_UNLIKE = 5  # unlike records among them
BEGAN = 6  # time at which what the run is about began, in milliseconds since 1970
OF_COUNTS = 7

# Floats of a watch.
W = 0  # the CUSUM
MEAN = 1  # mean of the unlike records of a block
SQUARE = 2  # mean of their square
CROSS = 3  # mean of the product of two blocks in a row
HIT = 4  # log likelihood ratio of an unlike record
MISS = 5  # of another record
HOLD = 6  # threshold of the CUSUM; 0 while it is not watched
FAR_HIT = 7  # log likelihood ratio of a far record
OF_WEIGHTS = 8

BLOCK = 32
"""Records of a block."""

BURST = 2.0
"""Unlike records of a block that count at most, beside twice the mean."""

LASTS = 1024
"""Records that are not unlike among suspicious ones, after which these become usual."""

FIRST_BLOCKS = 4
"""Blocks from which on a stream has a baseline."""

MEMORY = 256
"""Blocks that a baseline averages."""

RARE = 0.01
"""A stream counts as having at least this share of unlike records."""

FAR_RARE = 0.002
"""The same of far ones, which are no more than all."""

AFRESH = 0.5
"""Part of what an unlike record says: where less of a single one is left, the run is about what the next one begins."""

COMMON = 0.4
"""Beyond this usual share nothing is far beyond it: the rule rests."""


@jit
def _rebase(counts, weights, rule, alike):
    """Derive the likelihood ratios and the threshold from the baseline.

    `rule` is the evidence that is needed, how many records, all unlike, reach the threshold, and the share that is
    watched for: the least one, and how many times its odds are the usual ones. So many records `alike` say as much as
    one.
    """
    evidence, most, least, times = rule
    blocks = min(counts[BLOCKS], MEMORY)
    n = blocks * BLOCK
    share = weights[MEAN] / BLOCK
    # Of a few records alone no dependence shows.
    variance = BLOCK * max(share * (1.0 - share), FAR_RARE)
    # A young baseline has seen few bursts, or none.
    inflation = max(1.0 + 32.0 / blocks, alike)
    between = weights[SQUARE] - weights[MEAN] * weights[MEAN]
    if between > 0.0:
        lasts = correlation_time(between, weights[CROSS] - weights[MEAN] * weights[MEAN], 0.9)
        inflation = max(between / variance * lasts, inflation)
    usual = share + 3.0 * np.sqrt(inflation * share * (1.0 - share) / n) + 1.0 / n
    if usual > COMMON:
        weights[HOLD] = weights[W] = 0.0
        return
    far = log(0.5 / max(usual, FAR_RARE))
    usual = max(usual, RARE)
    high = max(least, times * usual / (1.0 - usual + times * usual))
    weights[HIT] = log(high / usual)
    weights[MISS] = log((1.0 - high) / (1.0 - usual))
    weights[FAR_HIT] = max(far, weights[HIT])
    weights[HOLD] = max(evidence, min(evidence * inflation, most * weights[HIT]))


@jit
def end_block(counts, weights, unlike, rule, alike):
    """Add a block with so many unlike records to the baseline."""
    # A burst, in the first blocks say, is not what bursts usually are.
    unlike = min(unlike, np.int64(BURST + 2.0 * weights[MEAN]))
    counts[BLOCKS] += 1
    blocks = counts[BLOCKS]
    weight = 1.0 / min(blocks, MEMORY)
    weights[MEAN] += (unlike - weights[MEAN]) * weight
    weights[SQUARE] += (unlike * unlike - weights[SQUARE]) * weight
    if blocks > 1:
        weights[CROSS] += (unlike * counts[LAST] - weights[CROSS]) * (1.0 / min(blocks - 1, MEMORY))
    counts[LAST] = unlike
    if blocks >= FIRST_BLOCKS and (blocks < 64 or blocks % 16 == 0):
        _rebase(counts, weights, rule, alike)


@jit
def advance(counts, weights, unlike, far, time, is_open):
    """Add a record to the CUSUM of a watch."""
    if weights[HOLD] == 0.0 and not is_open:
        return
    w = weights[W]
    if w == 0.0:
        counts[RUN] = counts[RUN_UNLIKE] = 0
    if w == 0.0 or (unlike == 1 and counts[RUN_UNLIKE] == 1 and w < AFRESH * weights[HIT]):
        counts[BEGAN] = time
    counts[RUN] += 1
    counts[RUN_UNLIKE] += unlike
    hit = weights[FAR_HIT] if far else weights[HIT]
    # Without this bound an alert that was open for long would take as long to clear.
    weights[W] = min(max(w + (hit if unlike == 1 else weights[MISS]), 0.0), weights[HOLD])


@jit
def is_reached(weights):
    """Whether a watch is at its threshold."""
    return weights[W] >= weights[HOLD] > 0.0


@jit
def count(counts, weights, unlike, is_open, evidence):
    """Count a record in the present block; return the unlike ones of a block that is full, else -1."""
    counts[UNLIKE] += unlike
    counts[IN_BLOCK] += 1
    is_suspicious = is_open or weights[W] > 0.5 * evidence
    if is_suspicious and counts[RUN] - counts[RUN_UNLIKE] <= LASTS:
        # What is suspicious is no baseline before it has lasted: a block begins anew behind it.
        counts[UNLIKE] = counts[IN_BLOCK] = 0
    if counts[IN_BLOCK] < BLOCK:
        return -1
    full = counts[UNLIKE]
    counts[UNLIKE] = counts[IN_BLOCK] = 0
    return full


@jit
def learn_run(counts, weights, rule):
    """Add the records of a run that is over to the baseline, and begin at 0: what came and went may come again."""
    for _ in range(min(counts[RUN] // BLOCK, MEMORY)):
        end_block(counts, weights, counts[RUN_UNLIKE] * BLOCK // counts[RUN], rule, 1.0)
    weights[W] = 0.0
