"""The split score of a sample, written from its description in plain numpy: slow, short, to compare."""

import math
from typing import NamedTuple

import numpy as np


class Limits(NamedTuple):
    """The parameters of the score."""

    kmax: int = 4
    crit: float = 2.57
    margin: float = 10.0
    by_class: bool = False
    em_iter: int = 100
    em_tol: float = 1e-5


def start(z, components):
    """Cut the segment whose sum of squares falls most, again and again; shares, means and variances of the parts."""
    segments = [z]
    while len(segments) < components:
        best = None
        for s, segment in enumerate(segments):
            total, n = segment.sum(), len(segment)
            left = np.cumsum(segment)[:-1]
            at = np.arange(1, n)
            gains = left**2 / at + (total - left) ** 2 / (n - at) - total**2 / n
            if n > 1 and (best is None or gains.max() > best[0]):
                best = (gains.max(), s, int(gains.argmax()) + 1)
        if best is None:
            return None
        _, s, at = best
        segments[s : s + 1] = [segments[s][:at], segments[s][at:]]
    share = np.array([len(segment) / len(z) for segment in segments])
    mean = np.array([segment.mean() for segment in segments])
    return share, mean, np.maximum([segment.var() for segment in segments], 1e-5)


def fitted(z, components, limits):
    """Fit a mixture by EM; None where it fails."""
    begun = start(z, components)
    if begun is None:
        return None
    share, mean, variance = begun
    before = None
    for _ in range(limits.em_iter):
        logs = np.log(share) - 0.5 * np.log(2 * math.pi * variance) - (z[:, None] - mean) ** 2 / (2 * variance)
        most = logs.max(1)
        likelihood = float((most + np.log(np.exp(logs - most[:, None]).sum(1))).sum())
        if before is not None and abs(likelihood - before) <= limits.em_tol * len(z):
            return float(most.sum()) if limits.by_class else likelihood, share, mean, variance
        before = likelihood
        r = np.exp(logs - most[:, None])
        r /= r.sum(1, keepdims=True)
        support = r.sum(0)
        if (support < 1.5).any():
            return None
        share, mean = support / len(z), (r * z[:, None]).sum(0) / support
        variance = (r * z[:, None] ** 2).sum(0) / support - mean**2
        if (variance < 1e-6).any():
            return None
    return None


def cut_between(m1, v1, p1, m2, v2, p2):
    """Return where two weighted normal densities cross between their means."""
    odds = math.log(p1 / p2)
    if abs(v1 - v2) < 1e-9 * (v1 + v2):
        return (m1 + m2) / 2 + v1 * odds / (m2 - m1)
    a, b = v1 - v2, m2 * v1 - m1 * v2
    c = 2 * v1 * v2 * (odds + 0.5 * math.log(v2 / v1)) + m2**2 * v1 - m1**2 * v2
    if b * b - a * c >= 0:
        for sign in (1, -1):
            x = (b + sign * math.sqrt(b * b - a * c)) / a
            if m1 <= x <= m2:
                return x
    return (m1 * math.sqrt(v2) + m2 * math.sqrt(v1)) / (math.sqrt(v1) + math.sqrt(v2))


def score(p, limits):
    """Return separation, cut, components and BIC gain of a sorted sample; zeros where it is not split."""
    b, centre, sd = len(p), p.mean(), p.std()
    nothing = (0.0, 0.0, 0, 0.0)
    if not sd > 1e-12 * max(abs(p[0]), abs(p[-1])):
        return nothing
    z = (p - centre) / sd
    one = previous = b * (math.log(2 * math.pi) + 1) + 2 * math.log(b)
    for components in range(2, limits.kmax + 1):
        found = fitted(z, components, limits)
        if found is None:
            return nothing
        likelihood, share, mean, variance = found
        bic = -2 * likelihood + (3 * components - 1) * math.log(b)
        if bic >= previous:
            return nothing
        previous = bic
        if one - bic <= limits.margin:
            continue
        order = np.argsort(mean, kind="stable")
        share, mean, variance = share[order], mean[order], variance[order]
        value = np.diff(mean) ** 2 / (variance[1:] + variance[:-1])
        value *= np.minimum(share[1:], share[:-1]) / np.maximum(share[1:], share[:-1])
        q = int(value.argmax())
        if value[q] > limits.crit:
            cut = cut_between(mean[q], variance[q], share[q], mean[q + 1], variance[q + 1], share[q + 1])
            return float(value[q]), float(centre + sd * cut), components, one - bic
    return nothing
