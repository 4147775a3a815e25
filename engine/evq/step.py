"""One record learned: the nearest ellipsoid, its radius, a new or a moved cluster, and the buffer.

Equation numbers are those of Lughofer and Sayed-Mouchaweh, Information Sciences, 2015.
"""

import numpy as np
from resonance.engine.events import EMERGED, VANISHED
from resonance.engine.evq.layout import LIMIT, NO_CRITERION, OUTSIDE, append, emit, note_shape, remove, shapes_of, width
from resonance.engine.matrices import invert
from resonance.kernels.arithmetic import inline, jit, mixed

_LARGEST = 1e300
"""A covariance beyond it is of no use for further ones."""

_SURE = 1.0 - 1e-6
"""What a bound on a squared distance is multiplied by, so that rounding never prunes the nearest cluster."""


@jit
def squared_distance(model, rules, i, x):
    """Return D^2 of `x` to slot `i` (3); of `evq` the Euclidean one in ranges. Infinite where it is no float."""
    total = 0.0
    if rules.euclidean:
        for a in range(rules.d):
            z = (x[a] - model.centre[i, a]) / width(model, a)
            total += z * z
    else:
        for a in range(rules.d):
            va = x[a] - model.centre[i, a]
            row = 0.0
            for b in range(a):
                row += model.inv[i, a, b] * (x[b] - model.centre[i, b])
            total += va * (model.inv[i, a, a] * va + 2.0 * row)
    if total > 0.0:
        return total
    return 0.0 if total <= 0.0 else np.inf


@jit
def nearest(model, rules, x):
    """Return the slot of the nearest cluster and D^2 to it; -1 without clusters. The smallest id wins a tie.

    A cluster whose every ellipsoid axis is too short to reach nearer is passed by: D^2 is at least
    ``|x - c|^2 / trace C``.
    """
    best, winner = np.inf, np.int64(-1)
    for at in range(model.clusters):
        i = model.slot[at]
        if winner < 0:
            winner, best = i, squared_distance(model, rules, i, x)
            continue
        if not rules.euclidean:
            gap = 0.0
            for a in range(rules.d):
                z = x[a] - model.centre[i, a]
                gap += z * z
            if gap * _SURE > best * model.trace[i]:
                continue
        distance = squared_distance(model, rules, i, x)
        if distance < best:
            winner, best = i, distance
    return winner, best


@inline
def score_of(squared, radius):
    """Return 1 / (1 + (D/r)^2): 1 at the centre, 1/2 on the border of the cluster."""
    return 1.0 / (1.0 + squared / (radius * radius))


@jit
def _give_covariance(model, rules, i, work):
    """Give a new cluster its covariance (9)(10), both corrected, and the inverse."""
    d = rules.d
    total = 0.0
    if rules.mean:
        for at in range(model.clusters):
            if model.slot[at] != i:
                total += model.support[model.slot[at]]
    model.cov[i] = 0.0
    if rules.euclidean:
        return
    usable = total > 0.0
    if usable:
        for j in model.slot[: model.clusters]:
            if j != i:
                model.cov[i] += rules.kap * rules.kap * (model.support[j] / total) * model.cov[j]
        for a in range(d):
            floor = width(model, a) / rules.frac
            model.cov[i, a, a] += floor * floor
            usable = usable and model.cov[i, a, a] < _LARGEST
    if not usable:
        model.cov[i] = 0.0
        for a in range(d):
            spread = rules.sig0 * width(model, a)
            model.cov[i, a, a] = spread * spread
    set_inverse(model, rules, i, work)


@jit
def set_inverse(model, rules, i, work):
    """Take the inverse P of a covariance anew."""
    invert(model.cov[i], rules.d, work.scale, work.upper, work.square, model.inv[i])


@jit
def add_cluster(model, rules, x, label, number, t, winner, squared, work):
    """Found a cluster at `x`, outside `winner` or the first; return its slot.

    At the bound it costs the cluster that won longest ago.
    """
    radius = model.radius[winner] if winner >= 0 else -1.0
    if model.clusters >= rules.max_clusters:
        idle = np.argmin(model.last[model.slot[: model.clusters]])
        i = model.slot[idle]
        what, gone = (VANISHED, model.id[i], -1), shapes_of(model, rules, (i,))
        bound = float(rules.max_clusters)
        emit(model, work, t, what, LIMIT, float(model.clusters), bound, gone, gone[:0])
        remove(model, idle)
    i = append(model)
    model.centre[i], model.support[i], model.last[i] = x, 1, number
    _give_covariance(model, rules, i, work)
    note_shape(model, rules, i)
    if rules.splits:
        _put(model, i, 0, x, label)
        model.held[i] = 1
        model.fresh[i] = 1
    if label >= 0:
        model.votes[i, label] = 1
    first, what, after = radius < 0.0, (EMERGED, model.id[i], -1), shapes_of(model, rules, (i,))
    criterion, value = NO_CRITERION if first else OUTSIDE, 0.0 if first else np.sqrt(squared)
    emit(model, work, t, what, criterion, value, 0.0 if first else radius, after[:0], after)
    return i


@jit
def _put(model, i, place, x, label):
    model.buffer[i, place], model.buffer_label[i, place] = x, label


@jit
def move(model, rules, i, x, number, work):
    """Move mean (11), covariance (12) and its inverse (15) of the cluster that won `x`."""
    d = rules.d
    a1 = 1.0 / (model.support[i] + 1)
    keep, share = 1.0 - a1, a1 * (1.0 - a1)
    v, u = work.v, work.u
    for a in range(d):
        v[a] = x[a] - model.centre[i, a]
        model.centre[i, a] += a1 * v[a]
    model.support[i] += 1
    model.last[i] = number
    if rules.euclidean:
        for a in range(d):
            model.cov[i, a, a] = keep * model.cov[i, a, a] + share * v[a] * v[a]
    else:
        for a in range(d):
            u[a] = 0.0
        for b in range(d):
            for a in range(d):
                u[a] += model.inv[i, b, a] * v[b]
        inner = 0.0
        for a in range(d):
            inner += v[a] * u[a]
        weight = a1 / (1.0 + a1 * inner)
        for a in range(d):
            va, ua = share * v[a], weight * u[a]
            for b in range(d):
                model.cov[i, a, b] = keep * model.cov[i, a, b] + va * v[b]
                model.inv[i, a, b] = (model.inv[i, a, b] - ua * u[b]) / keep
        if model.support[i] % rules.refresh == 0 or not inner < _LARGEST:
            set_inverse(model, rules, i, work)
    note_shape(model, rules, i)


@jit
def keep_record(model, rules, i, x, label, number):
    """Put `x` into the buffer of slot `i`: at its end, or in the place of another by chance (a reservoir)."""
    held = model.held[i]
    if held < rules.n_sub:
        _put(model, i, held, x, label)
        model.held[i] = held + 1
        model.fresh[i] += 1
        return
    place = np.int64(mixed(rules.seed, number) % np.uint64(model.support[i]))
    if place < rules.n_sub:
        _put(model, i, place, x, label)
        model.fresh[i] += 1


@jit
def note_range(model, rules, x):
    """Widen the running ranges by `x`."""
    for a in range(rules.d):
        model.ranges[0, a] = min(model.ranges[0, a], x[a])
        model.ranges[1, a] = max(model.ranges[1, a], x[a])
