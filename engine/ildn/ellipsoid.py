"""The ellipsoid of a node: its radius, its spectrum, distances from it, a record added to it, two made one.

The covariance M is never inverted. Beside it stands a whitening matrix W with ``W'W = M^-1``, so that the squared
Mahalanobis distance is ``|W (x - c)|^2`` and cannot become negative. A record changes M by a multiple and a product
of a vector with itself, and W follows exactly by one of the same form. Equation numbers are those of Xing et al.

Squared radii are quantiles of chi-square, taken in decimal arithmetic and rounded once: a library's functions differ
from machine to machine.
"""

from decimal import Decimal, localcontext
from functools import lru_cache

import numpy as np
from resonance.engine.base import FloatArray
from resonance.engine.ildn.layout import SLACK, set_reach, take_slot
from resonance.engine.matrices import set_whitening
from resonance.kernels.arithmetic import fma, inline, jit
from resonance.kernels.borrowed import borrow

GROWN = 800
"""Records after which the factor stays: 2 * 1.05^(1 - n) is below half a unit in the last place of 1 from 784 on."""

_ROOT_PI = Decimal("1.77245385090551602729816748334114518279754945612238712821380779")
_ENOUGH = Decimal(10) ** -30


def _below(y: Decimal, d: int, gamma: Decimal) -> tuple[Decimal, Decimal]:
    """Return the share of chi-square below 2 `y` and its derivative by `y`; `gamma` is Gamma(d / 2 + 1).

    The share is the lower incomplete gamma function of d / 2, by its power series.
    """
    a = Decimal(d) / 2
    scale = (a * y.ln() - y).exp() / gamma
    term = total = Decimal(1)
    step = a
    while term > total * _ENOUGH:
        step += 1
        term *= y / step
        total += term
    return scale * total, scale * a / y


@lru_cache(maxsize=64)
def chi_square_quantile(q: float, d: int) -> float:
    """Return what a share `q` of chi-square with `d` degrees of freedom lies below."""
    with localcontext() as context:
        context.prec = 50
        gamma = Decimal(1) if d % 2 == 0 else _ROOT_PI
        factor = Decimal(d) / 2
        while factor > 0:
            gamma *= factor
            factor -= 1
        wanted, low, high = Decimal(q), Decimal(0), Decimal(d)
        while _below(high, d, gamma)[0] < wanted:
            low, high = high, 2 * high
        y = (low + high) / 2
        # Newton's steps; one that leaves the bracket is a bisection instead.
        while high - low > high * _ENOUGH:
            share, slope = _below(y, d, gamma)
            if share < wanted:
                low = y
            else:
                high = y
            following = y + (wanted - share) / slope if slope else low
            if not low < following < high:
                following = (low + high) / 2
            if abs(following - y) <= y * _ENOUGH:
                break
            y = following
        return float(2 * y)


@lru_cache(maxsize=64)
def squared_radii(q: float, d: int, radius: str) -> FloatArray:
    """Return the squared radius of a node of n records in entry n - 1, n = 1..`GROWN`; more records change nothing.

    It is ``eps(n) X`` ("sq") or ``eps(n)^2 X`` ("sqrt") with ``eps(n) = 1 + 2 * 1.05^(1 - n)`` and X the quantile.
    """
    quantile = chi_square_quantile(q, d)
    with localcontext() as context:
        context.prec = 40
        shrinking = 1 / Decimal("1.05")
        factors = np.array([float(1 + 2 * shrinking**n) for n in range(GROWN)])
    radii: FloatArray = factors * quantile if radius == "sq" else factors * factors * quantile
    return radii


@jit
def squared_distances(centre, nodes, x, squares):
    """Write ``|x - c|^2`` of every node to `squares`; the lanes behind the last node hold anything."""
    centre, squares = borrow(centre), borrow(squares)
    padded = (nodes + 7) & ~7
    total = squares[:padded]
    for j in range(padded):
        total[j] = 0.0
    for i in range(len(centre)):
        xi, row = x[i], centre[i, :padded]
        for j in range(padded):
            z = xi - row[j]
            total[j] = fma(z, z, total[j])


@jit
def whiten(whitening, apart, d, lanes, z):
    """Write W times `apart` to ``z[:lanes]``; return the squared length."""
    w, z = borrow(whitening), borrow(z)[:lanes]
    for i in range(lanes):
        z[i] = 0.0
    for j in range(d):
        a, column = apart[j], w[j]
        for i in range(lanes):
            z[i] = fma(column[i], a, z[i])
    total = 0.0
    for i in range(d):
        total = fma(z[i], z[i], total)
    return total


@jit
def outside_box(model, rules, row, x, radius):
    """Return whether `x` is farther from a node than the squared `radius` for certain, by one feature alone.

    In no direction is ``D^2`` less than the squared difference divided by the variance: so for the axes.
    """
    slot = model.slot[row]
    if slot < 0:
        return False
    covariance, centre, limit = model.covariance[slot], model.centre, radius * SLACK
    for i in range(rules.d):
        apart = x[i] - centre[i, row]
        if apart * apart > limit * covariance[i, i]:
            return True
    return False


@jit
def squared_distance(model, rules, row, x, squares, room):
    """Return the squared Mahalanobis distance of `x` from a node (2)."""
    slot = model.slot[row]
    if slot < 0:
        return squares[row] / rules.sigma
    apart = borrow(room.apart)
    for i in range(rules.d):
        apart[i] = x[i] - model.centre[i, row]
    return whiten(model.whitening[slot], apart, rules.d, rules.lanes, room.z)


@inline
def dot(a, b, lanes, sums):
    """Return the product of two vectors whose lanes behind the last feature are 0, summed in eight lanes."""
    for i in range(8):
        sums[i] = 0.0
    for start in range(0, lanes, 8):
        for i in range(8):
            sums[i] = fma(a[start + i], b[start + i], sums[i])
    return ((sums[0] + sums[4]) + (sums[2] + sums[6])) + ((sums[1] + sums[5]) + (sums[3] + sums[7]))


@jit
def add_record(model, rules, row, x, room):
    """Let a node learn `x`: mean, covariance, count and radius (6), whitening by its square root."""
    d, lanes = rules.d, rules.lanes
    slot = model.slot[row]
    if slot < 0:
        slot = take_slot(model, rules, row)
    covariance, whitening = model.covariance[slot], model.whitening[slot]
    n = float(model.count[row])
    g = 1.0 / (n + 1.0)
    apart, z, v = borrow(room.apart), borrow(room.z), borrow(room.v)
    length2 = 0.0
    for i in range(d):
        apart[i] = x[i] - model.centre[i, row]
        length2 = fma(apart[i], apart[i], length2)
    s = whiten(whitening, apart, d, lanes, z)
    # W <- sqrt((n + 1) / n) (W - f z (z'W)) with 1 - f s = 1 / sqrt(1 + g s).
    root = np.sqrt(1.0 + g * s)
    f, grow = g / (root * (root + 1.0)), np.sqrt((n + 1.0) / n)
    for j in range(d):
        v[j] = dot(whitening[j], z, lanes, room.off)
    for j in range(d):
        column, share = whitening[j], -f * v[j]
        for i in range(lanes):
            column[i] = grow * fma(share, z[i], column[i])
    # Scaled before the product: element (i, j) of the covariance gets the bits of (j, i).
    keep, share = n * g, np.sqrt(n) * g
    for i in range(d):
        model.centre[i, row] = fma(g, apart[i], model.centre[i, row])
        v[i] = share * apart[i]
    for i in range(d, lanes):
        v[i] = 0.0
    for j in range(d):
        line, vj = covariance[j], v[j]
        for i in range(lanes):
            line[i] = fma(vj, v[i], keep * line[i])
    model.count[row] += 1
    model.known[row] = 0
    set_reach(model, rules, row, fma(share * share, length2, keep * model.widest[row]))


@jit
def join_covariances(model, rules, a, b, out, apart):
    """Write the covariance of the node that `a` and `b` would make to `out` (8)."""
    d, lanes = rules.d, rules.lanes
    na, nb = float(model.count[a]), float(model.count[b])
    share = np.sqrt(na * nb) / (na + nb)
    for i in range(d):
        apart[i] = (model.centre[i, a] - model.centre[i, b]) * share
    for i in range(d, lanes):
        apart[i] = 0.0
    for j in range(d):
        line, aj = out[j], apart[j]
        for i in range(lanes):
            line[i] = aj * apart[i]
    for row, part in ((a, na / (na + nb)), (b, nb / (na + nb))):
        slot = model.slot[row]
        if slot < 0:
            for j in range(d):
                out[j, j] = fma(part, rules.sigma, out[j, j])
            continue
        covariance = model.covariance[slot]
        for j in range(d):
            line, source = out[j], covariance[j]
            for i in range(lanes):
                line[i] = fma(part, source[i], line[i])


@jit
def join_nodes(model, rules, a, b, m, covariance, widest, room):
    """Make the new node in row `m` what `a` and `b` are together (8); it takes the slot of `a`.

    `covariance` is what `join_covariances` wrote, `widest` its largest eigenvalue.
    """
    na, nb = float(model.count[a]), float(model.count[b])
    model.centre[:, m] = (na * model.centre[:, a] + nb * model.centre[:, b]) / (na + nb)
    slot = model.slot[a]
    model.covariance[slot] = covariance
    model.slot[m] = slot
    model.slot[a] = -1
    model.count[m] = model.count[a] + model.count[b]
    model.won[m] = max(model.won[a], model.won[b])
    floor = rules.sigma / (na + nb)
    set_whitening(covariance, rules.d, rules.lanes, floor, room.work, model.whitening[slot])
    set_reach(model, rules, m, widest)
    model.labels[m] = model.labels[a] + model.labels[b]
