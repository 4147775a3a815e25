"""What a ball has counted: its hits, the records that these are of, and the pauses from one hit to the next.

Where hits are independent of each other the mean of their squared pauses is twice the square of the mean. A stream that
stays at a place, goes, and comes back later has larger ones, and counts that are off by more: as those of a renewal
process, whose variance is the mean times the squared coefficient of variation of the pauses (D. R. Cox, "Renewal
Theory", 1962).
"""

import numpy as np
from resonance.engine.modal.layout import LONGEST
from resonance.kernels.arithmetic import exp_minus, inline, jit, log
from resonance.kernels.ordering import put_in_order

STALE = 20.0
"""Records that a landmark should have had since its last one, from which it goes before others of its cluster."""
_STALE_SHARE = 0.1
"""Share of the landmarks of a cluster that are stale, from which it moves, and two standard errors more."""
_MOVING = 4.0
"""The most that counts are off where clusters begin to move, the less the more they move: what a cluster left behind
for good is no pause."""

_IN_BALL = 8.0
"""Landmarks in a ball, about."""
_FEW_STAYS, _MOST_STAYS = 0.1, 0.99
"""Shares of the records that stay in their ball up to which a stream does not walk, and the most that counts."""


@inline
def counted(model, i):
    """Return the hits of a ball, those before the last memory included."""
    return model.past_hits[i] + model.hits[i]


@inline
def length(model, i, clock):
    """Return the records that these hits are of."""
    return model.past_span[i] + (model.span[i] + (clock - model.since[i]))


@inline
def missed(model, i):
    """Return the records that a landmark should have had since its last one.

    Hits are counted on the clock: of records that differ from the one before.
    """
    n, clock = model.learned, model.clock
    return ((n - model.last[i]) * counted(model, i) * clock) / (n * length(model, i, clock))


@inline
def is_stale(model, i):
    """Whether a landmark has missed so many records."""
    return missed(model, i) > STALE


@inline
def moves(stale, landmarks):
    """Whether landmarks with so many stale ones are of clusters that move."""
    few = _STALE_SHARE * landmarks
    return stale > few + 2.0 * np.sqrt(few)


@inline
def variation(model, i, clock):
    """Return the mean squared pause of a ball beside the square of the mean, 2 where its hits are independent.

    The pause that goes on is one of them: n points leave n + 1 gaps, whose squares are expected to add up to
    2 / (n + 2) of the square of the whole.
    """
    whole = min(length(model, i, clock), LONGEST)
    open_ = float(clock - model.met[i])
    return (counted(model, i) + 2.0) * (model.squares[i] + open_ * open_) / (whole * whole)


@inline
def keep_variation(model, i, clock, value):
    """Let a ball whose hits, or the records they are of, were changed have the pauses that it had.

    The one that goes on is cut where it alone would be more.
    """
    whole = min(length(model, i, clock), LONGEST)
    kept = value * whole * whole / (counted(model, i) + 2.0)
    if float(clock - model.met[i]) ** 2 > kept:
        model.met[i] = clock - np.int64(np.sqrt(kept))
    model.squares[i] = max(0.0, kept - float(clock - model.met[i]) ** 2)


@inline
def is_walk(model):
    """Whether most records lie where the one before them lay, as those of a stream that moves by small steps do."""
    return 2 * model.stays[0] > model.steps[0]


@jit
def _stay(model):
    """Return how many records a stream that walks stays in a place that it crosses, at least 1.

    It stays nearest to a landmark for as many steps as are in one without leaving it, and crosses as many balls as lie
    on a line through a cluster.
    """
    balls = max(1.0, model.landmarks / (_IN_BALL * max(1, model.clusters)))
    share = min(model.stays[0] / max(1, model.steps[0]), _MOST_STAYS)
    # Where records are independent some stay, too.
    excess = max(0.0, share - max(_FEW_STAYS, 2.0 / balls)) / (1.0 - share)
    return 1.0 + excess / exp_minus(log(balls) / max(1.0, model.dimension[0]))


@jit
def overdispersion(model):
    """Return by how much the variance of counts exceeds that of independent ones, at least 1: the mean of all hits."""
    total, hits, landmarks, stale = 0.0, 0.0, 0, 0
    for i in range(model.landmarks):
        if model.span[i] >= 0.0 and model.place[i] >= 0:
            mine = counted(model, i)
            total += mine * variation(model, i, model.clock)
            hits += mine
            landmarks += 1
            stale += is_stale(model, i)
    over = total / hits - 1.0 if hits > 0.0 else 1.0
    over = max(over, _stay(model))
    if moves(stale, landmarks) and not is_walk(model):
        few = _STALE_SHARE * landmarks / stale
        over = min(over, _MOVING * few * few)
    return max(1.0, over)


@jit
def begin_pauses(model, i, inside, clock):
    """Estimate the pauses of a ball that begins to count: by when its first landmarks came, else by its neighbours'."""
    count = inside + 1
    model.met[i] = clock
    if model.next_id == model.landmarks and 2 * model.next_id > model.clock:
        # Most records are landmarks as yet.
        came = np.empty(count, dtype=np.int64)
        for a in range(count):
            put_in_order(came, a, model.id[i if a == 0 else model.listed[i, a - 1]])
        squares, before = 0.0, -1
        for number in came:
            squares += float(number - before) ** 2
            before = number
        squares += float(model.next_id - before) ** 2
        whole = float(model.next_id + 1)
        model.met[i] = max(1, clock * (before + 1) // model.next_id)
        keep_variation(model, i, clock, (count + 2.0) * squares / (whole * whole))
        return
    total, known = 0.0, 0
    for a in range(inside):
        j = model.listed[i, a]
        if model.span[j] >= 0.0 and model.since[j] < clock:
            total += variation(model, j, clock)
            known += 1
    keep_variation(model, i, clock, total / known if known > 0 else 2.0)
