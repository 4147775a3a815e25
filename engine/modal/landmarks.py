"""Which records become landmarks, and which landmarks make room for them."""

import numpy as np
from resonance.engine.arithmetic import inline, jit
from resonance.engine.modal.density import measure_ball
from resonance.engine.modal.model import (
    APART,
    CLOCK,
    CLUSTERS,
    COUNT,
    HITS,
    ID,
    LANDMARKS,
    LAST,
    LOOSE,
    MASS,
    NEXT_ID,
    PLACE,
    RADIUS2,
    SINCE,
    SPAN,
    N,
)
from resonance.engine.modal.neighbours import list_all, list_landmark, unlist_landmark

_EDGE = 0.25
"""Chance of a record outside the nearest ball to become a landmark: the edge of a cluster that moves."""
_LOOSE_SHARE = 4
"""One landmark in so many may be in no cluster, so that noise does not use up the others."""
_STALE = 20.0
"""Records that a landmark should have had since its last one, from which it goes before others of its cluster."""
_IDLE_SHARE = 4
"""In a cluster that goes on, a landmark without records expires in this part of the time: the cluster has moved."""


@inline
def _random(number):
    """Return a number from 0 to 1 that follows from a record's number alone (splitmix64)."""
    z = (np.uint64(number) + np.uint64(1)) * np.uint64(0x9E3779B97F4A7C15)
    z = (z ^ (z >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    z = (z ^ (z >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    z = z ^ (z >> np.uint64(31))
    return (z >> np.uint64(11)) * 2.0**-53


@jit
def is_wanted(model, rules, squared, near, novel):
    """Whether the record that was learned last is to become a landmark.

    All records do until the model is full, but for those that equal a landmark; then a sample of the last ones, twice
    `memory`, and those that are unlike all landmarks or beside one that is in no cluster yet.
    """
    if squared <= 0.0:
        return False
    if model.head[LANDMARKS] < rules.landmarks or novel:
        return True
    if model.number[PLACE, near] < 0 and _LOOSE_SHARE * model.head[LOOSE] < rules.landmarks:
        return True
    n = model.head[N]
    chance = rules.landmarks / min(n, 2 * rules.memory)
    if squared > model.real[RADIUS2, near] and model.real[RADIUS2, near] > 0.0:
        chance = max(chance, _EDGE)
    return _random(2 * n) < chance


@jit
def _chosen_cluster(rules, place, count, mass, loose):
    """Return the place of the cluster that gives a landmark: its own where it has its share, else the richest.

    A share is as the root of the records, so that rare clusters have landmarks enough.
    """
    total = 0.0
    for c in range(1, len(mass)):
        total += np.sqrt(mass[c])
    most, chosen = -1.0, 0
    for c in range(len(mass)):
        if count[c] == 0:
            continue
        share = rules.landmarks / _LOOSE_SHARE if c == 0 else rules.landmarks * np.sqrt(mass[c]) / total
        if c > 0 and count[c] == 1:
            # The last one of a cluster describes it when it ends.
            share = np.inf
        if count[c] > most * share:
            most, chosen = count[c] / share, c
        if c == place + 1 and not loose and count[c] >= share:
            return c - 1
    return chosen - 1


@jit
def leaving_landmark(model, rules, place, loose):
    """Return the landmark whose column a new one takes.

    Parameters
    ----------
    place : int
        Place of the new one's cluster, -1 for none.
    loose : bool
        The new one is to be in no cluster for now.
    """
    landmarks, n, clock = model.head[LANDMARKS], model.head[N], model.head[CLOCK]
    number, real = model.number, model.real
    size = model.head[CLUSTERS] + 1
    mass, count, last = np.zeros(size), np.zeros(size, dtype=np.int64), np.zeros(size, dtype=np.int64)
    for i in range(landmarks):
        c = number[PLACE, i] + 1
        mass[c] += real[MASS, i]
        count[c] += 1
        last[c] = max(last[c], number[LAST, i])
    soon = rules.expire_records // _IDLE_SHARE
    for i in range(landmarks):
        c = number[PLACE, i] + 1
        idle = n - number[LAST, i]
        if idle > soon and (n - last[c] <= soon or c == 0):
            return i
    chosen = _chosen_cluster(rules, place, count, mass, loose)
    best, found = _STALE, -1
    if chosen < 0:
        for i in range(landmarks):
            if number[PLACE, i] < 0 and (found < 0 or number[LAST, i] < number[LAST, found]):
                found = i
        return found
    for i in range(landmarks):
        if number[PLACE, i] == chosen and real[SPAN, i] >= 0.0:
            span = real[SPAN, i] + (clock - number[SINCE, i])
            missed = (n - number[LAST, i]) * real[HITS, i]
            if missed > best * span:
                best, found = missed / span, i
    if found >= 0:
        return found
    i = np.int64(_random(2 * n + 1) * landmarks)
    while number[PLACE, i] != chosen:
        i = i + 1 if i + 1 < landmarks else 0
    return i


@jit
def _pass_on(model, rules, i):
    """Let the nearest landmark of the same cluster stand for the records that landmark `i` has stood for.

    It is among the `neighbours`: how much longer a list is depends on when it was last written, and a state has none.
    """
    for a in range(rules.neighbours):
        j = model.listed[i, a]
        if j < 0:
            return
        if model.number[PLACE, j] == model.number[PLACE, i]:
            model.real[MASS, j] += model.real[MASS, i]
            model.number[COUNT, j] += model.number[COUNT, i]
            return


@jit
def add_landmark(model, rules, x, label, place, squared, room):
    """Make the record that was learned last a landmark.

    Parameters
    ----------
    x : ndarray of shape (d,)
        The record.
    label : int
        Its label, -1 for none.
    place : int
        Place of its cluster, -1 for none.
    squared : ndarray
        Squared distances from it to all landmarks.
    room : ndarray
        Room for as many.

    Returns
    -------
    int
        Its column.
    """
    head, number, real = model.head, model.number, model.real
    if head[LANDMARKS] < rules.landmarks:
        j = head[LANDMARKS]
        head[LANDMARKS] += 1
    else:
        j = leaving_landmark(model, rules, place, place < 0)
        if number[PLACE, j] < 0:
            head[LOOSE] -= 1
        _pass_on(model, rules, j)
        unlist_landmark(model, j, rules.neighbours, room)
    squared[j] = np.inf
    for f in range(len(x)):
        model.at[f, j] = x[f]
    list_landmark(model, j, squared)
    number[ID, j] = head[NEXT_ID]
    head[NEXT_ID] += 1
    number[PLACE, j] = place
    if place < 0:
        head[LOOSE] += 1
    number[LAST, j] = head[N]
    number[COUNT, j] = 1
    number[APART, j] = 0
    number[SINCE, j] = head[CLOCK]
    real[MASS, j] = 1.0
    real[SPAN, j] = -1.0
    real[HITS, j] = 0.0
    real[RADIUS2, j], _ = measure_ball(model, rules, j)
    for k in range(model.votes.shape[1]):
        model.votes[j, k] = 1 if k == label else 0
    return j


@jit
def move_landmarks(model, rules, factor, shift, most, room):
    """Put every landmark, and the last record, where new units have it; none further than `most` from 0.

    Its ball is another one then, which counts from the next reading on. `room` is for as many numbers as landmarks.
    """
    landmarks = model.head[LANDMARKS]
    for f in range(rules.d):
        model.previous[f] = min(max(model.previous[f] * factor[f] + shift[f], -most), most)
        for i in range(landmarks):
            model.at[f, i] = min(max(model.at[f, i] * factor[f] + shift[f], -most), most)
    list_all(model, room)
    for i in range(landmarks):
        model.real[RADIUS2, i], _ = measure_ball(model, rules, i)
        model.real[SPAN, i] = -1.0
