"""How many landmarks a model may have: twice as many where clusters need them, half as many where they do no more."""

import numpy as np
from resonance.engine.base import IntArray
from resonance.engine.modal.counts import length
from resonance.engine.modal.holding import LONGEST, SPLIT_SHARE
from resonance.engine.modal.layout import Model, Rules
from resonance.engine.modal.valleys import count_valleys
from resonance.kernels.arithmetic import jit

_LANDMARKS = 64
"""Landmarks that show a hill beside others which touch it: eight balls."""
_RESOLVED = 1.05
"""Hills that would be clusters with smaller errors, in those that are, above which more landmarks show more."""
_TOUCHING = 0.1
"""Valleys between clusters that touch, in their number, above which more landmarks show more."""
_CUT = 0.12
"""Share of the balls that end at a gap, or reach over one, above which clusters have too few landmarks."""
_MOVED = 0.1
"""Share of the landmarks that are in clusters that move, above which there come no more of them."""
_SPARE = 4
"""Times as many landmarks as show each cluster of which half would do."""
_HARDLY = 8
"""Times as few balls that meet a gap as need more landmarks; with half of them more do."""


@jit
def _needs_more(model, rules, cut, basins):
    """Whether hills have too few landmarks.

    So it is where an eighth of the balls, `cut` of them, meet a gap: a cluster has hardly as many landmarks as a ball.
    So it is, too, where more than the clusters would be hills if errors were small, or clusters touch, and each has few
    landmarks; but not before the errors are those of counts that have lasted.
    """
    # Not before the landmarks are a sample, nor while clusters move: what is between them then is no gap.
    if model.landmarks < model.budget or model.clock <= 2 * model.budget:
        return False
    moving, lasting = 0, 0
    for i in range(model.landmarks):
        moving += model.place[i] >= 0 and model.rest[model.place[i]] == 0
        lasting += length(model, i, model.clock) > rules.memory
    if moving > _MOVED * model.landmarks:
        return False
    hills = len(basins.now)
    dense = max(hills / _RESOLVED, count_valleys(basins) / _TOUCHING) > model.clusters
    few = _LANDMARKS * hills > model.budget
    return cut > _CUT * model.budget or (dense and few and 2 * lasting > model.landmarks)


@jit
def _has_spare(model, rules, cut, basins):
    """Whether half of the landmarks would do, by far."""
    many = max(2 * len(basins.now), _SPARE * model.clusters)
    few = _LANDMARKS * many <= model.budget and _HARDLY * cut <= _CUT * model.budget
    return few and model.budget >= 2 * rules.landmarks


@jit
def fit_budget(model, rules, cut, basins):
    """Let there be twice as many landmarks, to the most, or half as many, where all readings of long called for it.

    `cut` balls end at a gap or reach over one. There are fewer only after as long as a cluster stays without records.
    """
    needed = _needs_more(model, rules, cut, basins)
    if not needed:
        model.enough = model.learned
    # As long as a valley is there before a split.
    lasts = model.learned - model.enough >= min(SPLIT_SHARE * model.learned, LONGEST)
    may = 2 * model.budget <= rules.max_landmarks
    model.crowded = needed and lasts and not may
    if needed and lasts and may:
        model.budget, model.enough = 2 * model.budget, model.learned
    if not _has_spare(model, rules, cut, basins):
        model.spare[0] = model.learned
    elif model.learned - model.spare[0] >= rules.expire_records:
        model.budget, model.spare[0] = model.budget // 2, model.learned


def thin_out(model: Model, rules: Rules) -> IntArray:
    """Return the columns of as many landmarks as there may be; the others pass on what they have stood for.

    Every second one of each cluster goes, and the last ones then, but the first of a cluster stays.
    """
    used = model.landmarks
    place, near = model.place[:used], model.listed[:used, : rules.neighbours]
    nodes, order = np.bincount(place + 1), np.argsort(place, kind="stable")
    rank = np.empty_like(order)
    rank[order] = np.arange(used) - (np.cumsum(nodes) - nodes)[place[order] + 1]
    keep = np.sort(np.argsort(np.where(rank == 0, 0, 2 - rank % 2), kind="stable")[: model.budget])
    gone = np.ones(used, bool)
    gone[keep] = False
    heirs = ~gone[near] & (near >= 0) & (place[near] == place[:, None])
    passed = np.flatnonzero(gone & heirs.any(1))
    heir = near[passed, heirs[passed].argmax(1)]
    np.add.at(model.mass, heir, model.mass[passed])
    np.add.at(model.count, heir, model.count[passed])
    model.landmarks = len(keep)
    model.loose = int((place[keep] < 0).sum())
    model.nodes[: model.clusters] = np.bincount(place[keep] + 1, minlength=model.clusters + 1)[1:]
    return keep
