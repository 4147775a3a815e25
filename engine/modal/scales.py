"""Densities averaged over neighbours, and the records that such an average is of."""

import numpy as np
from resonance.engine.arithmetic import exp_minus, jit
from resonance.engine.modal.layout import HITS, LANDMARKS

SCALES = 3
"""Densities as counted, and averaged over a landmark's neighbours once and twice: wide, shallow valleys are seen in
the latter, narrow ones in the former."""
_GAIN = 3.0
"""The most records that an average is of, in those of one ball, in two dimensions; the fewer, the more dimensions."""
_SAMPLED = 32
"""Landmarks by which the overlap of balls is measured."""


@jit
def _measured_gains(model, inside, large):
    """Return, by scale, how many times as many records an average is of as the one at the scale before.

    By the overlap of the balls that are averaged, as the size of a weighted sample: (sum w)^2 / sum w^2.
    """
    count = model.head[LANDMARKS]
    gains = np.ones(SCALES)
    weight, size = np.zeros((SCALES, count)), np.zeros(SCALES)
    reached = np.empty(count, dtype=np.int64)
    for i in range(0, count, max(1, count // _SAMPLED)):
        if not large[i]:
            continue
        # Those with a weight at some scale are those at the next one's beginning; weights are whole numbers.
        length = 0
        for a in range(-1, inside[i]):
            j = i if a < 0 else model.listed[i, a]
            weight[0, j] = 1.0
            reached[length] = j
            length += 1
        for scale in range(1, SCALES):
            for at in range(length):
                j = reached[at]
                w = weight[scale - 1, j]
                for a in range(-1, inside[j]):
                    other = j if a < 0 else model.listed[j, a]
                    if weight[scale - 1, other] == 0.0 and weight[scale, other] == 0.0:
                        reached[length] = other
                        length += 1
                    weight[scale, other] += w
        for scale in range(SCALES):
            total, square = 0.0, 0.0
            for at in range(length):
                w = weight[scale, reached[at]]
                total += w
                square += w * w
            size[scale] += total * total / square
        for at in range(length):
            weight[:, reached[at]] = 0.0
    if size[0] > 0.0:
        for scale in range(1, SCALES):
            gains[scale] = size[scale] / size[scale - 1]
    return gains


@jit
def measure_scales(model, dimension, logs, inside, large, density, records):
    """Write densities, relative to the largest, and the records they are of, at every scale."""
    count = model.head[LANDMARKS]
    top = -np.inf
    for i in range(count):
        top = max(top, logs[i])
    for i in range(count):
        density[0, i] = exp_minus(top - logs[i])
        records[0, i] = model.real[HITS, i]
    most = 1.0 + (_GAIN - 1.0) * 2.0 / max(dimension, 2.0)
    gains = _measured_gains(model, inside, large)
    for scale in range(1, SCALES):
        for i in range(count):
            total, hits, terms = density[scale - 1, i], records[scale - 1, i], 1.0
            if large[i]:
                for a in range(inside[i]):
                    j = model.listed[i, a]
                    if large[j]:
                        total += density[scale - 1, j]
                        hits += records[scale - 1, j]
                        terms += 1.0
            density[scale, i] = total / terms
            records[scale, i] = hits / terms * min(terms, most, gains[scale])
