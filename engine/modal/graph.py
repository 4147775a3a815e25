"""The graph of the landmarks: which are in parts with records enough, and which are within reach of each other."""

import numpy as np
from resonance.kernels.arithmetic import inline, jit
from resonance.kernels.ordering import root_of

_GOES_ON = 0.5
"""Share of the records that a cluster needs with which one goes on."""
_YOUNG = 200
"""Records up to which a model is young: a few that are far from all others are a cluster."""
_FEW = 4.0
"""Records that are enough for a cluster at first; then so much of what it needs as the model has of this age."""


@jit
def reaches(model, rules):
    """Return the squared reach of every landmark."""
    return rules.squared_reach * model.radius2[: model.landmarks]


@inline
def is_young(model):
    """Whether few records were learned as yet."""
    return model.learned <= _YOUNG


@inline
def least_records(model, rules, known):
    """Return the records that a group needs: fewer where a cluster goes on in it, whose first ones were halved."""
    changes, least = model.learned > 2 * rules.memory, float(rules.min_cluster_records)
    if is_young(model):
        changes, least = True, max(min(least, _FEW), least * model.learned / _YOUNG)
    return least * (_GOES_ON if known and changes else 1.0)


@jit
def large_enough(model, rules, inside, reach, large):
    """Say which landmarks are in a part with records enough for a cluster; the others are outliers.

    A part hangs together by landmarks that are within reach of each other.
    """
    count = model.landmarks
    listed, gap = model.listed, model.gap
    parent = np.arange(count)
    for i in range(count):
        own = root_of(parent, i)
        for a in range(inside[i]):
            j = listed[i, a]
            if parent[j] != own and gap[i, a] <= reach[i] and gap[i, a] <= reach[j]:
                other = root_of(parent, j)
                parent[max(own, other)] = own = min(own, other)
    mass, known = np.zeros(count), np.zeros(count, dtype=np.bool_)
    for i in range(count):
        root = root_of(parent, i)
        mass[root] += model.mass[i]
        known[root] |= model.place[i] >= 0
    for i in range(count):
        root = root_of(parent, i)
        large[i] = mass[root] >= least_records(model, rules, known[root])


@jit
def adjacency(model, inside, reach, large):
    """Return the edges of the graph of landmarks, both ways, by rows: starts and ends.

    One of the two is within reach of the other: a thin place beside a dense one is its slope.
    """
    count = model.landmarks
    listed, gap = model.listed, model.gap
    start = np.zeros(count + 1, dtype=np.int64)
    for i in range(count):
        for a in range(inside[i]):
            j = listed[i, a]
            if large[i] and large[j] and (gap[i, a] <= reach[i] or gap[i, a] <= reach[j]):
                start[i + 1] += 1
                start[j + 1] += 1
    for i in range(count):
        start[i + 1] += start[i]
    end, filled = np.empty(start[count], dtype=np.int64), start[:count].copy()
    for i in range(count):
        for a in range(inside[i]):
            j = listed[i, a]
            if large[i] and large[j] and (gap[i, a] <= reach[i] or gap[i, a] <= reach[j]):
                end[filled[i]] = j
                end[filled[j]] = i
                filled[i] += 1
                filled[j] += 1
    return start, end
