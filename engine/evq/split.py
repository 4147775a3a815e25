"""A cluster whose sample shows two separate modes along a line becomes two: (23)-(35), as corrected."""

import numpy as np
from resonance.engine.arithmetic import jit
from resonance.engine.events import SPLIT
from resonance.engine.evq.events import SEPARATION, emit, note_further, shapes_of
from resonance.engine.evq.layout import FRESH, HELD, ID, LAST, SUPPORT, K, append, note_shape, width
from resonance.engine.evq.matrices import eigenvectors
from resonance.engine.evq.mixture import room_for, score
from resonance.engine.evq.step import set_inverse

_CLEARLY = 1.0 + 1e-9
"""A later direction wins only if its score exceeds the best by this factor."""
_AS_LARGE = 1e-9
"""A component of a direction is the largest only if it exceeds an earlier one by more than this."""


@jit
def _principal_axes(model, rules, i, rows, work):
    """Write the eigenvectors of C in units of the ranges to `rows`; False where there are none to tell."""
    d = rules.d
    if not rules.pcs or d == 1:
        return False
    for a in range(d):
        for b in range(d):
            work.square[a, b] = model.cov[i, a, b] / (width(model, a) * width(model, b))
        if not 1e-290 < work.square[a, a] < 1e290:
            return False
    eigenvectors(work.square, d, work.scale, work.upper, work.u, rows)
    for row in range(d):
        largest = 0
        for a in range(1, d):
            if abs(rows[row, a]) > abs(rows[row, largest]) + _AS_LARGE:
                largest = a
        sign = -1.0 if rows[row, largest] < 0.0 else 1.0
        for a in range(d):
            rows[row, a] *= sign / width(model, a)
    return True


@jit
def _project(model, rules, i, direction, p):
    """Write the projections of the buffer of slot `i` to `p`."""
    for r in range(model.number[i, HELD]):
        total = 0.0
        for a in range(rules.d):
            total += model.buffer[i, r, a] * direction[a]
        p[r] = total


@jit
def split(model, rules, t, i, x, work):
    """Split slot `i`, if its buffer shows two modes along any direction; return the slot that holds `x`."""
    d, b = rules.d, model.number[i, HELD]
    if model.head[K] >= rules.max_clusters:
        return i
    room, p, axes, side = room_for(b), np.empty(b), np.empty((d, d)), np.empty(b, dtype=np.bool_)
    direction, chosen = np.zeros(d), np.zeros(d)
    directions = 2 * d if _principal_axes(model, rules, i, axes, work) else d
    best, cut, components, gain = 0.0, 0.0, 0, 0.0
    for j in range(directions):
        for a in range(d):
            direction[a] = axes[j - d, a] if j >= d else 0.0
        if j < d:
            direction[j] = 1.0
            for r in range(b):
                p[r] = model.buffer[i, r, j]
        else:
            _project(model, rules, i, direction, p)
        p.sort()
        found, at, modes, gained = score(p, b, rules, room)
        if found > best * _CLEARLY:
            best, cut, components, gain = found, at, modes, gained
            for a in range(d):
                chosen[a] = direction[a]
    if best == 0.0:
        return i
    _project(model, rules, i, chosen, p)
    left = 0
    for r in range(b):
        side[r] = p[r] <= cut
        left += side[r]
    if left < 2 or b - left < 2:
        return i
    k = model.number[i, SUPPORT]
    before = shapes_of(model, rules, (i,))
    k_left = min(max(np.int64(np.floor(k * left / b + 0.5)), 1), k - 1)
    # The larger part keeps slot and id; at equality the left one.
    stays = k_left >= k - k_left
    j = append(model)
    model.number[j, LAST] = model.number[i, LAST]
    model.number[i, SUPPORT], model.number[j, SUPPORT] = (k_left, k - k_left) if stays else (k - k_left, k_left)
    _share_votes(model, i, j, b, stays, side)
    _share_buffer(model, rules, i, j, b, stays, side)
    for part in (i, j):
        _take_from_buffer(model, rules, part, work)
    what, after = (SPLIT, model.number[j, ID], model.number[i, ID]), shapes_of(model, rules, (i, j))
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
        share = min(max(share, votes - model.number[j, SUPPORT]), model.number[i, SUPPORT])
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
        for a in range(rules.d):
            model.buffer[to, place, a] = model.buffer[i, r, a]
        model.buffer_label[to, place] = model.buffer_label[i, r]
    model.number[i, HELD], model.number[j, HELD] = kept, moved
    model.number[i, FRESH] = model.number[j, FRESH] = 0


@jit
def _take_from_buffer(model, rules, i, work):
    """Take mean, covariance and inverse of a part from its records."""
    d, b = rules.d, model.number[i, HELD]
    for a in range(d):
        total = 0.0
        for r in range(b):
            total += model.buffer[i, r, a]
        model.centre[i, a] = total / b
        for c in range(d):
            model.cov[i, a, c] = 0.0
    for r in range(b):
        for a in range(d):
            work.v[a] = model.buffer[i, r, a] - model.centre[i, a]
        for a in range(d):
            for c in range(d):
                model.cov[i, a, c] += work.v[a] * work.v[c]
    for a in range(d):
        for c in range(d):
            model.cov[i, a, c] /= b
        floor = rules.sig0 * width(model, a)
        model.cov[i, a, a] += floor * floor / b
    set_inverse(model, rules, i, work)
    note_shape(model, rules, i)
