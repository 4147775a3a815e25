"""A batch learned or answered by one model: which records become landmarks, and which landmarks make room for them."""

import numpy as np
from resonance.engine.modal.answers import UNUSUAL, answer, is_novel, measure_usual, name_outside
from resonance.engine.modal.counts import STALE, is_stale, keep_variation, length, missed, moves, variation
from resonance.engine.modal.density import logarithm, measure_ball, squared_change
from resonance.engine.modal.graph import is_young
from resonance.engine.modal.nearest import (
    UNFILLED,
    enter_cells,
    fill_cells,
    find_nearest,
    list_all,
    list_landmark,
    squared_distances,
    unlist_landmark,
)
from resonance.kernels.arithmetic import draw, exp_minus, inline, jit

_MOVING, _RESTING = 2, 5
"""Records of which the landmarks are a sample: memories in clusters that move; in those that rest, in what the hits of
their balls are of, so that counts grow old. As many memories are learned before one can rest."""
_EDGE = 0.25
"""Chance of a record outside the nearest ball to become a landmark: the edge of a cluster that moves. Half of it, of
one that rests."""
_LOOSE_SHARE = 4
"""One landmark in so many may be in no cluster, so that noise does not use up the others."""
_CHANGE = 7.0
"""Roots of the landmarks by which the sum of their squared changes of rate exceeds their number in a cluster that
moves: three standard errors or more, as balls that overlap share their hits."""
_IDLE_SHARE = 4
"""In a cluster that goes on, a landmark without records expires in this part of the time: the cluster has moved."""
_SHORTEST, _LONGEST = 0.5, 1e290
"""Records that hits are of, at least and at most."""


# Inline, as a call for every record would count a reference to every array of the model.
@inline
def is_wanted(model, rules, squared, near, novel):
    """Whether the record that was learned last is to become a landmark.

    All records do until the model is full, but for those that equal a landmark; then a sample of the last ones, and
    those that are unlike all landmarks or beside one that is in no cluster yet. Where a cluster rests, a new landmark
    says little that the old one did not.
    """
    if squared <= 0.0:
        return False
    if model.landmarks < model.budget or novel:
        return True
    place = model.place[near]
    if place < 0 and _LOOSE_SHARE * model.loose < model.budget:
        return True
    n = model.learned
    rests = n > _RESTING * rules.memory and place >= 0 and model.rest[place] > 0
    chance = model.budget / min(n, _RESTING * model.rest[place] if rests else _MOVING * rules.memory)
    if squared > model.radius2[near] and model.radius2[near] > 0.0:
        chance = max(chance, 0.5 * _EDGE if rests else _EDGE)
    return draw(2 * n) < chance


@jit
def _chosen_cluster(model, rules, place):
    """Return the place of the cluster that gives a landmark: its own where it has its share, else the richest.

    A share is as the root of the records, so that rare clusters have landmarks enough.
    """
    nodes, records = model.nodes, model.records
    clusters, total = model.clusters, 0.0
    for c in range(clusters):
        total += np.sqrt(float(records[c]))
    chosen, most = -1, model.loose * _LOOSE_SHARE / model.budget
    for c in range(clusters):
        share = model.budget * np.sqrt(float(records[c])) / total
        if c == place and nodes[c] > 1 and nodes[c] >= share:
            return c
        # The last one of a cluster describes it when it ends.
        if nodes[c] > max(1.0, most * share):
            chosen, most = c, nodes[c] / share
    return chosen


@jit
def _idle_landmark(model, rules):
    """Return a landmark without records for long, of a cluster that has some or of none; -1 for no such.

    Where there are more of them than at first, those of clusters that ended go before others, the oldest first: then
    fewer may be enough.
    """
    landmarks, n = model.landmarks, model.learned
    place, last = model.place, model.last
    soon = rules.expire_records // _IDLE_SHARE
    found, oldest = -1, n
    for i in range(landmarks):
        oldest = min(oldest, last[i])
    if n - oldest <= soon:
        return -1
    newest = np.zeros(model.clusters, dtype=np.int64)
    for i in range(landmarks):
        if place[i] >= 0:
            newest[place[i]] = max(newest[place[i]], last[i])
    first, oldest = -1, n - rules.expire_records if model.budget > rules.landmarks else 0
    for i in range(landmarks):
        if n - last[i] > soon and (place[i] < 0 or n - newest[place[i]] <= soon):
            first = i if first < 0 else first
            if last[i] < oldest:
                found, oldest = i, last[i]
    return found if found >= 0 else first


@jit
def _stale_landmark(model, chosen):
    """Return the landmark of a cluster that has missed the most records; -1 where none is stale."""
    most, found = STALE, -1
    for i in range(model.landmarks):
        if model.place[i] == chosen and model.span[i] >= 0.0:
            own = missed(model, i)
            if own > most:
                most, found = own, i
    return found


@jit
def leaving_landmark(model, rules, place):
    """Return the landmark whose column a new one takes; `place` is that of the new one's cluster, -1 for none."""
    landmarks = model.landmarks
    found = _idle_landmark(model, rules)
    if found >= 0:
        return found
    chosen = _chosen_cluster(model, rules, place)
    if chosen < 0:
        # Of those in no cluster; of all, where every one is the last of its cluster.
        for i in range(landmarks):
            mine = model.place[i] < 0 or model.loose == 0
            if mine and (found < 0 or model.last[i] < model.last[found]):
                found = i
        return found
    found = _stale_landmark(model, chosen)
    if found >= 0:
        return found
    i = np.int64(draw(2 * model.learned + 1) * landmarks)
    while model.place[i] != chosen:
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
        if model.place[j] == model.place[i]:
            model.mass[j] += model.mass[i]
            model.count[j] += model.count[i]
            return


@inline
def _count_landmark(model, place, change):
    """Count a landmark of the cluster at a place, or of none, that comes or goes."""
    if place < 0:
        model.loose += change
    else:
        model.nodes[place] += change


@jit
def add_landmark(model, rules, cells, x, label, place, squared):
    """Make the record that was learned last, with its label or -1, a landmark; return its column.

    `place` is that of its cluster, -1 for none; `squared` is room for as many numbers as landmarks.
    """
    if model.landmarks < model.budget:
        j = model.landmarks
        model.landmarks += 1
    else:
        j = leaving_landmark(model, rules, place)
        _count_landmark(model, model.place[j], -1)
        _pass_on(model, rules, j)
        unlist_landmark(model, j, rules.neighbours, squared)
    for f in range(len(x)):
        model.at[f, j] = x[f]
    squared_distances(model.at, 0, model.landmarks, x, squared)
    squared[j] = np.inf
    list_landmark(model, j, squared)
    model.id[j] = model.next_id
    model.next_id += 1
    model.place[j] = place
    _count_landmark(model, place, 1)
    model.last[j], model.met[j] = model.learned, model.clock
    model.count[j] = 1
    model.apart[j] = 0
    model.since[j] = model.clock
    model.mass[j] = 1.0
    model.span[j] = -1.0
    model.hits[j] = model.squares[j] = 0.0
    model.past_hits[j] = model.past_span[j] = 0.0
    model.radius2[j], _ = measure_ball(model, rules, j)
    for k in range(model.votes.shape[1]):
        model.votes[j, k] = 1 if k == label else 0
    enter_cells(model, cells, j)
    return j


@jit
def place_landmarks(model, rules, group, place_of):
    """Put the landmarks into the clusters of their groups, and count what each has."""
    clusters = model.clusters
    mass, stale, spans = np.zeros(clusters), np.zeros(clusters), np.zeros(clusters)
    changes, compared = np.zeros(clusters), np.zeros(clusters)
    model.nodes[:clusters], model.loose = 0, 0
    for i in range(model.landmarks):
        place = place_of[group[i]] if group[i] >= 0 else -1
        model.place[i] = place
        _count_landmark(model, place, 1)
        if place >= 0:
            mass[place] += model.mass[i]
            whole = length(model, i, model.clock)
            spans[place] += whole
            stale[place] += is_stale(model, i)
            past, before = model.past_hits[i], model.past_span[i]
            if before > 0.0:
                changes[place] += squared_change(model.hits[i], whole - before, past, before)
                compared[place] += 1.0
    for c in range(clusters):
        model.records[c] = max(1, np.int64(mass[c]))
        rests = not moves(stale[c], model.nodes[c])
        rests &= changes[c] <= compared[c] + _CHANGE * np.sqrt(compared[c])
        model.rest[c] = max(rules.memory, np.int64(spans[c] / max(1, model.nodes[c]))) if rests else 0


@jit
def measure_anew(model, rules, room):
    """Measure the balls of landmarks that were put elsewhere, or have others near them.

    What a ball has counted goes on for the same density: densities are compared with each other alone, and new units
    change all of them alike. `room` is for as many numbers as landmarks.
    """
    landmarks = model.landmarks
    list_all(model, room)
    clock = model.clock
    growth, total, counting = np.empty(landmarks), 0.0, 0
    for i in range(landmarks):
        before = model.radius2[i]
        model.radius2[i], _ = measure_ball(model, rules, i)
        if model.span[i] >= 0.0 and before > 0.0 and model.radius2[i] > 0.0:
            growth[i] = 0.5 * model.dimension[0] * (logarithm(model.radius2[i]) - logarithm(before))
            total += growth[i]
            counting += 1
        else:
            model.span[i] = -1.0
    for i in range(landmarks):
        if model.span[i] >= 0.0:
            pauses = variation(model, i, clock)
            # A ball that has grown more than others meets its records in fewer.
            shorter = growth[i] - total / counting
            span, past = model.span[i] + (clock - model.since[i]), model.past_span[i]
            if shorter >= 0.0:
                span, past = span * exp_minus(shorter), past * exp_minus(shorter)
            else:
                span, past = span / exp_minus(-shorter), past / exp_minus(-shorter)
            if model.past_span[i] > 0.0:
                model.past_span[i] = min(max(past, _SHORTEST), _LONGEST)
            else:
                span = max(span, _SHORTEST)
            model.span[i] = min(span, _LONGEST)
            model.since[i] = clock
            keep_variation(model, i, clock, pauses)
    measure_usual(model)


_SOON, _FIRST, _OFTEN, _LATER, _SELDOM = 4, 25, 100, 250, 1000
"""Records from one reading to the next: in the first 200, where most differ, at least and at most, 1,000, 10,000, and
then, of so many landmarks each."""
_READ = 1024
_READINGS = 8
"""A reading comes, however many landmarks and in the first records, after one in so many of all: new ones show more."""
_STEPS = 4096
"""Steps from record to record after which those so far count half."""


# Inline, as a call for every record would count a reference to every array of the model.
@inline
def is_due(model, rules):
    """Whether the clusters are to be read after the record that was learned last.

    They are read now and then, and soon when as many records as make a cluster are in none.
    """
    n = model.learned
    since = n - model.read
    every = _OFTEN if n <= 1000 else _LATER
    # Of records that repeat a few say less, and fewer than a ball has say nothing of what is far from them.
    if is_young(model) and 2 * model.clock > n and model.landmarks > rules.neighbours:
        every = max(_SOON, min(_FIRST, n // _READINGS))
    if n > 10_000:
        every = max(_SELDOM, min(_SELDOM * model.budget // _READ, n // _READINGS))
    return since >= every or (since >= _OFTEN and model.unplaced >= rules.min_cluster_records)


@jit
def _repeats(model, x):
    """Whether a record equals the one before; note it as the last."""
    same = model.learned > 0
    for f in range(len(x)):
        same = same and model.previous[f] == x[f]
        model.previous[f] = x[f]
    return same


@inline
def _count_step(model, near, repeated):
    """Count whether a record, the last learned, is nearest to the same landmark as the one before it."""
    if not repeated:
        model.steps[0] += 1
        model.stays[0] += model.last[near] == model.learned - 1
        if model.steps[0] >= _STEPS:
            model.steps[0], model.stays[0] = _STEPS // 2, model.stays[0] // 2


@jit
def learn_batch(model, rules, cells, X, labels, start, squared, cluster, score, novel, node, outside):
    """Learn a batch from record `start` on, until a reading is due or there is no room for a landmark.

    Return the first record that was not learned, and whether a reading is due.
    """
    slots = len(model.id)
    if cells.end == UNFILLED:
        fill_cells(model, cells)
    for t in range(start, len(X)):
        if model.landmarks == slots and slots < model.budget:
            return t, False
        x, landmarks = X[t], model.landmarks
        repeated = _repeats(model, x)
        model.learned += 1
        model.clock += not repeated
        near, place, gap, unlike = np.int64(-1), np.int64(-1), np.inf, True
        cluster[t, 0], score[t] = -1, np.nan
        if landmarks > 0:
            near, gap = find_nearest(model, cells, x, not repeated)
            _count_step(model, near, repeated)
            within, place, score[t] = answer(model, rules, x, gap, near, squared)
            unlike = not within
            if gap <= model.radius2[near]:
                model.last[near] = model.learned
            node[t, 0] = model.id[near]
        if place >= 0:
            cluster[t, 0] = model.cluster_id[place]
        elif unlike or model.span[near] < 0.0:
            # Beside an outlier of long ago nothing begins.
            model.unplaced += 1
        novel[t] = is_novel(model, not unlike, place)
        if score[t] < UNUSUAL:
            name_outside(model, rules, x, near, squared, outside[t])
        # One landmark stands for the record: itself, or the nearest.
        if landmarks == 0 or is_wanted(model, rules, gap, near, unlike):
            j = add_landmark(model, rules, cells, x, labels[t], place, squared)
            if novel[t]:
                node[t, 0] = model.id[j]
        elif not unlike:
            model.mass[near] += 1.0
            model.count[near] += 1
            if labels[t] >= 0:
                model.votes[near, labels[t]] += 1
        if place >= 0:
            model.records[place] += 1
        if is_due(model, rules):
            # Whatever happens in it, these are no cells of it any more.
            cells.end = UNFILLED
            return t + 1, True
    return len(X), False
