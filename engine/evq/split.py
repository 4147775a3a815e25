"""A cluster whose sample shows two separate modes along a line becomes two.

Along the line the sorted, standardised sample is fitted by normal mixtures, by EM; a BIC and the separation of
neighbours decide. Sections and numbers: equations (23)-(35) of Lughofer and Sayed-Mouchaweh, 2015, as corrected.
"""

import math

import numpy as np
from resonance.engine.events import SPLIT
from resonance.engine.evq import lanes
from resonance.engine.evq.lanes import LANES, MAX_COMPONENTS, PARAMETERS, expect
from resonance.engine.evq.layout import (
    SEPARATION,
    append,
    emit,
    note_further,
    note_shape,
    shapes_of,
    width,
)
from resonance.engine.evq.step import set_inverse
from resonance.engine.matrices import diagonalise
from resonance.kernels.arithmetic import jit, log

_FLAT = 1e-12
"""A sample whose deviation is this share of its largest entry is one value."""
_START_VARIANCE = 1e-5
_MIN_VARIANCE = 1e-6
_MIN_SUPPORT = 1.5
_ALIKE = 1e-9
_FEW = 1000
"""Records times components up to which a product of their densities, each at most `components`, is a float."""
LN_2_PI = math.log(2.0 * math.pi)


@jit
def _best_cut(prefix, start, end):
    """Return where ``start:end`` falls best into two, and by how much the sum of squares falls; -1 for one record."""
    n = end - start
    total = prefix[end] - prefix[start]
    best, where = -1.0, np.int64(-1)
    whole = total * total / n
    for at in range(start + 1, end):
        left = prefix[at] - prefix[start]
        right = total - left
        gain = left * left / (at - start) + right * right / (end - at) - whole
        if gain > best:
            best, where = gain, at
    return best, where


@jit
def _cut_once_more(prefix, segments, bound, gain, where):
    """Cut the segment, of `segments`, where the sum of squares falls most; False where none has two records."""
    chosen = 0
    for s in range(1, segments):
        if gain[s] > gain[chosen]:
            chosen = s
    if where[chosen] < 0:
        return False
    for s in range(segments, chosen, -1):
        bound[s + 1] = bound[s]
        gain[s], where[s] = gain[s - 1], where[s - 1]
    bound[chosen + 1] = where[chosen]
    gain[chosen], where[chosen] = _best_cut(prefix, bound[chosen], bound[chosen + 1])
    gain[chosen + 1], where[chosen + 1] = _best_cut(prefix, bound[chosen + 1], bound[chosen + 2])
    return True


@jit
def _start(z, b, components, bound, share, mean, variance):
    """Take the components of the start from the segments."""
    for q in range(components):
        n = bound[q + 1] - bound[q]
        total = 0.0
        for i in range(bound[q], bound[q + 1]):
            total += z[i]
        share[q], mean[q] = n / b, total / n
        total = 0.0
        for i in range(bound[q], bound[q + 1]):
            total += (z[i] - mean[q]) * (z[i] - mean[q])
        variance[q] = max(total / n, _START_VARIANCE)


@jit
def _expect(components, z, live, b, share, mean, variance, table, out):
    """E-step: the sums of `lanes.expect`; return the log-likelihood of the mixture, and of the likeliest components."""
    for q in range(components):
        table[q, lanes.MEAN] = mean[q]
        table[q, lanes.HALF] = 0.5 / variance[q]
        table[q, lanes.TOP] = log(share[q]) - 0.5 * (LN_2_PI + log(variance[q]))
    padded = (b + 7) & ~7
    if components == 2:
        expect(2, z, live, padded, table, out)
    elif components == 3:
        expect(3, z, live, padded, table, out)
    elif components == 4:
        expect(4, z, live, padded, table, out)
    elif components == 5:
        expect(5, z, live, padded, table, out)
    elif components == 6:
        expect(6, z, live, padded, table, out)
    elif components == 7:
        expect(7, z, live, padded, table, out)
    else:
        expect(8, z, live, padded, table, out)
    hard, products = out[3 * components], out[3 * components + 1 : 3 * components + 1 + LANES]
    mixed = hard
    if b * components <= _FEW:
        together = 1.0
        for lane in range(LANES):
            together *= products[lane]
        mixed += log(together)
    else:
        for lane in range(LANES):
            mixed += log(products[lane])
    return mixed, hard


@jit
def _maximise(b, components, share, mean, variance, out):
    """M-step; False where a component has too few records or no width."""
    for q in range(components):
        if out[3 * q] < _MIN_SUPPORT:
            return False
    for q in range(components):
        share[q] = out[3 * q] / b
        mean[q] = out[3 * q + 1] / out[3 * q]
        variance[q] = out[3 * q + 2] / out[3 * q] - mean[q] * mean[q]
        if variance[q] < _MIN_VARIANCE:
            return False
    return True


@jit
def fit(z, live, b, components, rules, bound, share, mean, variance, table, out):
    """Fit a mixture from the segments ``bound``; return whether EM converged, and the log-likelihood."""
    _start(z, b, components, bound, share, mean, variance)
    before = 0.0
    for step in range(rules.em_iter):
        mixed, hard = _expect(components, z, live, b, share, mean, variance, table, out)
        if step > 0 and abs(mixed - before) <= rules.em_tol * b:
            return True, hard if rules.by_class else mixed
        before = mixed
        if not _maximise(b, components, share, mean, variance, out):
            return False, 0.0
    return False, 0.0


@jit
def cut_between(mean1, variance1, share1, mean2, variance2, share2):
    """Return where the weighted densities of two normals cross between their means (33), corrected."""
    odds = log(share1) - log(share2)
    if abs(variance1 - variance2) < _ALIKE * (variance1 + variance2):
        return (mean1 + mean2) / 2.0 + variance1 * odds / (mean2 - mean1)
    a = variance1 - variance2
    b = mean2 * variance1 - mean1 * variance2
    c = 2.0 * variance1 * variance2 * (odds + 0.5 * (log(variance2) - log(variance1)))
    c += mean2 * mean2 * variance1 - mean1 * mean1 * variance2
    inside = b * b - a * c
    if inside >= 0.0:
        root = np.sqrt(inside)
        for sign in (1.0, -1.0):
            x = (b + sign * root) / a
            if mean1 <= x <= mean2:
                return x
    sd1, sd2 = np.sqrt(variance1), np.sqrt(variance2)
    return (mean1 * sd2 + mean2 * sd1) / (sd1 + sd2)


@jit
def _separation(components, share, mean, variance):
    """Return the largest separation (29)(31) of neighbours, and the first of the pair; sorts the components by mean."""
    for i in range(1, components):
        j = i
        while j > 0 and mean[j] < mean[j - 1]:
            for array in (share, mean, variance):
                array[j], array[j - 1] = array[j - 1], array[j]
            j -= 1
    best, pair = -1.0, 0
    for q in range(components - 1):
        gap = mean[q + 1] - mean[q]
        balance = min(share[q], share[q + 1]) / max(share[q], share[q + 1])
        value = gap * gap / (variance[q] + variance[q + 1]) * balance
        if value > best:
            best, pair = value, q
    return best, pair


@jit
def room_for(n):
    """Return what `score` needs for samples of up to `n`: sample, mask and prefix sums; components; cuts."""
    records = np.zeros((3, n + 1 + LANES))
    components = np.empty((4 + PARAMETERS + 3) * MAX_COMPONENTS + 1 + LANES)
    return records, components, np.empty((2, MAX_COMPONENTS + 1), dtype=np.int64)


@jit
def score(p, b, rules, room):
    """Return how clearly a sorted sample falls into two (29)-(31), 0 where it is not split, and where to cut it.

    Then the number of components of the mixture that showed it, and the BIC of one component less that of the mixture.
    """
    records, reals, places = room
    z, live, prefix = records[0], records[1], records[2]
    bound, where = places[0], places[1]
    gains, share, mean, variance = reals[:8], reals[8:16], reals[16:24], reals[24:32]
    table, out = reals[32:56].reshape(MAX_COMPONENTS, PARAMETERS), reals[56:]
    centre = 0.0
    for i in range(b):
        centre += p[i]
    centre /= b
    total = 0.0
    for i in range(b):
        total += (p[i] - centre) * (p[i] - centre)
    sd = np.sqrt(total / b)
    if not (sd > _FLAT * max(abs(p[0]), abs(p[b - 1])) and sd < np.inf):
        return 0.0, 0.0, 0, 0.0
    prefix[0] = 0.0
    for i in range(b):
        z[i] = (p[i] - centre) / sd
        live[i] = 1.0
        prefix[i + 1] = prefix[i] + z[i]
    for i in range(b, b + LANES):
        z[i] = live[i] = 0.0
    ln_b = log(float(b))
    one = b * (LN_2_PI + 1.0) + 2.0 * ln_b
    previous = one
    bound[0], bound[1] = 0, b
    gains[0], where[0] = _best_cut(prefix, 0, b)
    for components in range(2, rules.kmax + 1):
        if not _cut_once_more(prefix, components - 1, bound, gains, where):
            break
        converged, likelihood = fit(z, live, b, components, rules, bound, share, mean, variance, table, out)
        if not converged:
            break
        bic = -2.0 * likelihood + (3 * components - 1) * ln_b
        if bic >= previous:
            break
        previous = bic
        if one - bic <= rules.margin:
            continue
        separation, q = _separation(components, share, mean, variance)
        if separation > rules.crit:
            cut = cut_between(mean[q], variance[q], share[q], mean[q + 1], variance[q + 1], share[q + 1])
            return separation, centre + sd * cut, components, one - bic
    return 0.0, 0.0, 0, 0.0


_CLEARLY = 1.0 + 1e-9
"""A later direction wins only if its score exceeds the best by this factor."""
_AS_LARGE = 1e-9
"""A component of a direction is the largest only if it exceeds an earlier one by more than this."""


@jit
def _principal_axes(model, rules, i, axes, work):
    """Write the eigenvectors of C in units of the ranges as columns; False where C has none of use."""
    d = rules.d
    if not rules.pcs or d == 1:
        return False
    for a in range(d):
        for b in range(d):
            work.square[a, b] = model.cov[i, a, b] / (width(model, a) * width(model, b))
        if not 1e-290 < work.square[a, a] < 1e290:
            return False
    diagonalise(work.square, axes, work.u)
    for j in range(d):
        largest = 0
        for a in range(1, d):
            if abs(axes[a, j]) > abs(axes[largest, j]) + _AS_LARGE:
                largest = a
        sign = -1.0 if axes[largest, j] < 0.0 else 1.0
        for a in range(d):
            axes[a, j] *= sign / width(model, a)
    return True


@jit
def _project(model, rules, i, direction, p):
    """Write the projections of the buffer of slot `i` to `p`."""
    for r in range(model.held[i]):
        total = 0.0
        for a in range(rules.d):
            total += model.buffer[i, r, a] * direction[a]
        p[r] = total


@jit
def split(model, rules, t, i, x, work):
    """Split slot `i`, if its buffer shows two modes along any direction; return the slot that holds `x`."""
    d, b = rules.d, model.held[i]
    if model.clusters >= rules.max_clusters:
        return i
    room, p, axes, side = room_for(b), np.empty(b), np.empty((d, d)), np.empty(b, dtype=np.bool_)
    direction, chosen = np.zeros(d), np.zeros(d)
    directions = 2 * d if _principal_axes(model, rules, i, axes, work) else d
    best, cut, components, gain = 0.0, 0.0, 0, 0.0
    for j in range(directions):
        if j < d:
            direction[:] = 0.0
            direction[j] = 1.0
            p[:] = model.buffer[i, :b, j]
        else:
            direction[:] = axes[:, j - d]
            _project(model, rules, i, direction, p)
        p.sort()
        found, at, modes, gained = score(p, b, rules, room)
        if found > best * _CLEARLY:
            best, cut, components, gain = found, at, modes, gained
            chosen[:] = direction
    if best == 0.0:
        return i
    _project(model, rules, i, chosen, p)
    left = 0
    for r in range(b):
        side[r] = p[r] <= cut
        left += side[r]
    if left < 2 or b - left < 2:
        return i
    k = model.support[i]
    before = shapes_of(model, rules, (i,))
    k_left = min(max(np.int64(np.floor(k * left / b + 0.5)), 1), k - 1)
    # The larger part keeps slot and id; at equality the left one.
    stays = k_left >= k - k_left
    j = append(model)
    model.last[j] = model.last[i]
    model.support[i], model.support[j] = (k_left, k - k_left) if stays else (k - k_left, k_left)
    _share_votes(model, i, j, b, stays, side)
    _share_buffer(model, rules, i, j, b, stays, side)
    for part in (i, j):
        _take_from_buffer(model, rules, part, work)
    what, after = (SPLIT, model.id[j], model.id[i]), shapes_of(model, rules, (i, j))
    emit(model, work, t, what, SEPARATION, best, rules.crit, before, after)
    note_further(work, float(components), gain, rules.margin)
    total = 0.0
    for a in range(d):
        total += x[a] * chosen[a]
    return i if (total <= cut) == stays else j


@jit
def _share_votes(model, i, j, b, stays, side):
    """Divide the votes of slot `i` for each label as the buffer divides its records with it; none is lost.

    A label that no record of the buffer has is divided as the buffer is. No part gets more votes for a label than it
    has records.
    """
    for label in range(model.votes.shape[1]):
        kept, held = 0, 0
        for r in range(b):
            if model.buffer_label[i, r] == label:
                held += 1
                kept += side[r] == stays
        if held == 0:
            held = b
            for r in range(b):
                kept += side[r] == stays
        votes = model.votes[i, label]
        # Rounded half up; taken apart so that no product leaves 64 bits.
        whole, rest = votes // held, votes % held
        share = whole * kept + (2 * rest * kept + held) // (2 * held)
        share = min(max(share, votes - model.support[j]), model.support[i])
        model.votes[i, label], model.votes[j, label] = share, votes - share


@jit
def _share_buffer(model, rules, i, j, b, stays, side):
    """Move the records of the buffer of slot `i` that are not on the side which `stays` to slot `j`, order kept."""
    kept, moved = 0, 0
    for r in range(b):
        if side[r] == stays:
            to, place = i, kept
            kept += 1
        else:
            to, place = j, moved
            moved += 1
        model.buffer[to, place], model.buffer_label[to, place] = model.buffer[i, r], model.buffer_label[i, r]
    model.held[i], model.held[j] = kept, moved
    model.fresh[i] = model.fresh[j] = 0


@jit
def _take_from_buffer(model, rules, i, work):
    """Take mean, covariance and inverse of a part from its records."""
    d, b = rules.d, model.held[i]
    model.cov[i] = 0.0
    for a in range(d):
        model.centre[i, a] = model.buffer[i, :b, a].sum() / b
    for r in range(b):
        work.v[:] = model.buffer[i, r] - model.centre[i]
        for a in range(d):
            for c in range(d):
                model.cov[i, a, c] += work.v[a] * work.v[c]
    model.cov[i] /= b
    for a in range(d):
        floor = rules.sig0 * width(model, a)
        model.cov[i, a, a] += floor * floor / b
    set_inverse(model, rules, i, work)
    note_shape(model, rules, i)
