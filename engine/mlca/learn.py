"""A batch learned, or answered, by one model.

How far a record is from the nodes is CIM (1)-(4), for each attribute (28)-(30), or for groups of them (31)-(33); the
labels of the nearest nodes become probabilities (20)-(27).
"""

import numpy as np
from resonance.engine.correntropy import FAR, median_bandwidth, scale_of, spread_of_one, squared_cim, window_squares
from resonance.engine.events import EMERGED, NO_PATH, NO_REASON, SHAPE_HEAD, VANISHED, emit
from resonance.engine.mlca.layout import TILE, put_node, regroup
from resonance.kernels.arithmetic import bits_of, exp_minus, float_of, inline, jit, log
from resonance.kernels.borrowed import borrow

SLACK = 1e-9
"""What rounding may add to a mean of similarities, many times over."""

WORTHWHILE = 5
"""A node compared again on its own costs so many times what it costs among all."""


@jit
def scale_by_mean(nodes, rules):
    """Let each group have the mean over the nodes, and over its features, of their bandwidths."""
    k = nodes.count
    if rules.pooled:
        nodes.scale[0] = scale_of(nodes.total[0] / k)
        return
    for g in range(nodes.groups):
        a, b = nodes.starts[g], nodes.starts[g + 1]
        total = 0.0
        for at in range(a, b):
            total += nodes.total[nodes.members[at]]
        nodes.scale[g] = scale_of(total / (k * (b - a)))


@jit
def scale_by_median(nodes):
    """Let the one group have the median of the nodes' bandwidths."""
    k = nodes.count
    upper = nodes.sorted[k // 2]
    lower = upper if k % 2 == 1 else nodes.sorted[k // 2 - 1]
    nodes.scale[0] = scale_of(upper if lower == upper else (lower + upper) / 2.0)


@inline
def _add_roots(row, x, scale, sums, padded):
    """Add the CIM of one feature."""
    for j in range(padded):
        z = x - row[j]
        v = 1.0 - exp_minus(z * z * scale)
        sums[j] += np.sqrt(v if v > 0.0 else 0.0)


@jit
def compare(nodes, rules, x):
    """Write how far `x` is from every node to `far`, as bits in the order of CIM; see `cim_of`."""
    k, d, stride, groups = nodes.count, rules.d, len(nodes.id), nodes.groups
    flat = nodes.weights.reshape(-1)
    if groups == 1:
        squared_cim(flat, stride, k, d, nodes.scale[0], x, nodes.sums, nodes.far)
        return
    padded = (k + 7) & ~7
    weights, sums, part = borrow(flat), nodes.sums[:padded], nodes.part[:padded]
    for j in range(padded):
        sums[j] = 0.0
    for g in range(groups):
        a, b, scale = nodes.starts[g], nodes.starts[g + 1], nodes.scale[g]
        if b - a == 1:
            i = nodes.members[a]
            _add_roots(weights[i * stride : i * stride + padded], x[i], scale, sums, padded)
            continue
        for j in range(padded):
            part[j] = 0.0
        for at in range(a, b):
            i = nodes.members[at]
            row, xi = weights[i * stride : i * stride + padded], x[i]
            for j in range(padded):
                z = xi - row[j]
                part[j] += exp_minus(z * z * scale)
        size, share = float(b - a), 1.0 / (b - a)
        for j in range(padded):
            v = (size - part[j]) * share
            sums[j] += np.sqrt(v if v > 0.0 else 0.0)
    far = nodes.far[:padded]
    for j in range(padded):
        far[j] = bits_of(sums[j] / groups)
    for j in range(k, padded):
        far[j] = FAR


@inline
def cim_of(nodes, slot):
    """Return CIM between the compared record and the node of a slot."""
    value = float_of(nodes.far[slot])
    return np.sqrt(value) if nodes.groups == 1 else value


@jit
def _insert_nearest(far, near, count, wanted, slot):
    """Put a slot among the nearest, behind its equals; return how many there are now."""
    at = count if count < wanted else wanted - 1
    count = at + 1
    v = far[slot]
    while at > 0 and far[near[at - 1]] > v:
        near[at] = near[at - 1]
        at -= 1
    near[at] = slot
    return count


@jit
def find_nearest(nodes, wanted):
    """List the nearest `wanted` nodes in `near`, the nearest first, equals by their slots; return how many."""
    far, near = nodes.far, nodes.near
    count, worst = 0, FAR
    for j in range(nodes.count):
        if count < wanted or far[j] < worst:
            count = _insert_nearest(far, near, count, wanted, j)
            worst = far[near[count - 1]] if count == wanted else FAR
    return count


@jit
def _compare_listed(nodes, rules, x, listed, count):
    """Write how far `x` is from the nodes in some slots to `far`: the bits that `compare` would write."""
    d = rules.d
    weights, tile, far = nodes.weights, nodes.tile, nodes.far
    for first in range(0, count, TILE):
        size = min(TILE, count - first)
        for i in range(d):
            for at in range(size):
                tile[i, at] = weights[i, listed[first + at]]
        squared_cim(nodes.tile.reshape(-1), TILE, size, d, nodes.scale[0], x, nodes.tile_sums, nodes.tile_far)
        for at in range(size):
            far[listed[first + at]] = nodes.tile_far[at]


@jit
def find_nearest_again(nodes, rules, x, count, scale):
    """Find the nearest nodes with another common bandwidth than that of a comparison just made; return how many.

    That comparison, with `scale`, put `count` nodes to `near`; the new scale is in `nodes.scale`. Of most nodes it
    tells enough. Let m be the mean similarity of a node then, and m' now. With a narrower bandwidth m' <= m; with a
    wider one, r < 1 being the ratio of the two scales, m' <= m^r, for every similarity becomes its r-th power, and the
    mean of those is at most the power of the mean. A node can only be among the nearest if this bound reaches the least
    m' of the nodes that were the nearest; the others are left out.
    """
    k, far, near, listed = nodes.count, nodes.far, nodes.near, nodes.listed
    if nodes.scale[0] == scale:
        return count
    ratio = nodes.scale[0] / scale
    _compare_listed(nodes, rules, x, nodes.near, count)
    least = 1.0
    for at in range(count):
        least = min(least, 1.0 - float_of(far[near[at]]))
    bound = 0.0
    if least > SLACK:
        bound = exp_minus(-log(least) / ratio) if ratio < 1.0 else least
    highest = bits_of(min(1.0 - bound + SLACK, 1.0))
    candidates = 0
    for j in range(k):
        listed[candidates] = j
        candidates += far[j] <= highest
    if candidates * WORTHWHILE > k:
        compare(nodes, rules, x)
        return find_nearest(nodes, rules.neighbours)
    _compare_listed(nodes, rules, x, nodes.listed, candidates)
    count = 0
    for at in range(candidates):
        if count < rules.neighbours or far[listed[at]] < far[near[count - 1]]:
            count = _insert_nearest(far, near, count, rules.neighbours, listed[at])
    return count


@jit
def count_memberships(nodes, count):
    """Write to `memberships` how many of the nearest nodes each label stands for, rescaled to 0 to `count` (20)(21)."""
    known, most = nodes.known, 0
    memberships = nodes.memberships
    for label in range(known):
        total = 0
        for at in range(count):
            total += nodes.labels[nodes.near[at], label]
        memberships[label] = total
        most = max(most, total)
    for label in range(known):
        # Rounded, halves upwards, in integers.
        memberships[label] = (2 * count * memberships[label] + most) // (2 * most) if most > 0 else 0


@jit
def learn_memberships(nodes, rules, count, own):
    """Count under which memberships the record with labels `own`, in ascending order, was seen (22)."""
    count_memberships(nodes, count)
    at = 0
    for label in range(nodes.known):
        has = at < len(own) and own[at] == label
        at += has
        # The only node has every label that it can have: the last column.
        column = nodes.memberships[label] if nodes.count > 1 else rules.neighbours
        if has:
            nodes.having[label, column] += 1
        else:
            nodes.lacking[label, column] += 1


@inline
def _likelihood(row, column, count, smoothing):
    """Return P(column | label, or no label), smoothed over the columns from 0 to `count` (23)."""
    total = 0
    for j in range(len(row)):
        total += row[j]
    return (smoothing + row[column]) / (smoothing * (count + 1) + total)


@jit
def answer_labels(nodes, rules, count, out):
    """Write the probability of every known label to `out`, from the nearest `count` nodes (24)-(26)."""
    count_memberships(nodes, count)
    s, n = rules.smoothing, nodes.learned
    for label in range(nodes.known):
        column = nodes.memberships[label]
        prior = (s + nodes.records[label]) / (2.0 * s + n)
        having = _likelihood(nodes.having[label], column, count, s) * prior
        lacking = _likelihood(nodes.lacking[label], column, count, s) * (1.0 - prior)
        both = having + lacking
        out[label] = having / both if both > 0.0 else prior


CIM = 1
CRITERIA = ("", "cim")


@jit
def emit_node(nodes, rules, record, kind, slot, criterion, value, log):
    """Append an event to the log: the node of a slot, a cluster that spreads over nothing, has come or goes."""
    shape = np.zeros((1, SHAPE_HEAD + 2 * rules.d))
    shape[0, 0], shape[0, 1], shape[0, 2] = nodes.id[slot], nodes.size[slot], 1.0
    shape[0, SHAPE_HEAD : SHAPE_HEAD + rules.d] = nodes.weights[:, slot]
    gone = 1 if kind == VANISHED else 0
    what, why = (kind, nodes.id[slot], -1), (criterion, value, rules.vigilance)
    nodes.events = emit(nodes.events, NO_PATH, record, what, why, shape[:gone], shape[gone:], log)


@jit
def add_node(nodes, rules, factors, x, m, record, criterion, value, log):
    """Make `x` a node, in the place of the one that won longest ago where there is no other; return its slot (8)(9)."""
    slot, d, work, window = nodes.count, rules.d, nodes.work.reshape(-1), nodes.window.reshape(-1)
    if slot == rules.max_nodes:
        slot = np.argmin(nodes.won[:slot])  # that won longest ago
        emit_node(nodes, rules, record, VANISHED, slot, NO_REASON, 0.0, log)
    if rules.pooled:
        work[0] = median_bandwidth(window, m, d, factors, x, work)
    elif m == 1:
        work[:d] = factors[0] * spread_of_one(x, d)
    else:
        window_squares(window, m, d, work)
        work[:d] = factors[0] * np.sqrt(work[d:] / (m - 1)) * factors[m]
    put_node(nodes, rules, slot, x, work)
    emit_node(nodes, rules, record, EMERGED, slot, criterion, value, log)
    return slot


@jit
def move(nodes, rules, slot, x, divisor):
    """Let the node of a slot take a step towards `x` (18)(19)."""
    for i in range(rules.d):
        nodes.weights[i, slot] += (x[i] - nodes.weights[i, slot]) / divisor


@jit
def put_first(nodes, rules, slot, count):
    """Put a new node before the nearest ones; it may be where one of them was. Return how many there are now."""
    near, kept = nodes.near, 0
    for at in range(count):
        if near[at] != slot:
            near[kept] = near[at]
            kept += 1
    kept = min(kept, rules.neighbours - 1)
    near[1 : kept + 1] = near[:kept]
    near[0] = slot
    return kept + 1


@jit
def learn_record(nodes, rules, factors, x, own, m, neighbours, record, log):
    """Learn a record with labels `own`, which stands in the window already; return its slot, and whether it is new.

    `neighbours` are the nearest nodes that `answer` has found for it, 0 where it was not answered.
    """
    nodes.learned += 1
    for label in own:
        nodes.records[label] += 1
        nodes.known = max(nodes.known, label + 1)
    k, count = nodes.count, 0
    new = k == 0
    if new:
        slot = add_node(nodes, rules, factors, x, m, record, NO_REASON, 0.0, log)
    else:
        answered = nodes.scale[0]
        scale_by_mean(nodes, rules)
        if neighbours == 0:
            compare(nodes, rules, x)
            count = find_nearest(nodes, rules.neighbours)
        elif rules.pooled:
            count = find_nearest_again(nodes, rules, x, neighbours, answered)
        else:
            count = neighbours
        slot, v1 = nodes.near[0], cim_of(nodes, nodes.near[0])
        new = v1 > rules.vigilance
        if new:  # case I
            slot = add_node(nodes, rules, factors, x, m, record, CIM, v1, log)
            count = put_first(nodes, rules, slot, count)
        else:
            nodes.size[slot] += 1
            move(nodes, rules, slot, x, float(nodes.size[slot]))  # (18)
            if k > 1 and cim_of(nodes, nodes.near[1]) <= rules.vigilance:  # case III
                other = nodes.near[1]
                move(nodes, rules, other, x, 10.0 * nodes.size[other])  # (19)
    for label in own:
        nodes.labels[slot, label] += 1
    if k > 0:
        learn_memberships(nodes, rules, count, own)
    nodes.won[slot] = nodes.learned
    return slot, new


@jit
def answer(nodes, rules, x, cluster, score, probabilities):
    """Answer for a record: the nearest node if it is near enough, how near it is, and the labels.

    It returns the number of nearest nodes that were found.
    """
    if nodes.count == 0:
        return 0
    if rules.pooled:
        scale_by_median(nodes)
    else:
        scale_by_mean(nodes, rules)
    compare(nodes, rules, x)
    count = find_nearest(nodes, rules.neighbours)
    far = cim_of(nodes, nodes.near[0])
    score[0] = 1.0 - far
    if far <= rules.vigilance:
        cluster[0] = nodes.id[nodes.near[0]]
    answer_labels(nodes, rules, count, probabilities)
    return count


@jit
def note_groups(nodes, rules, line_factors, record, changes):
    """Divide the features into groups anew, and note the change where their number is another one."""
    before = regroup(nodes, rules, line_factors)
    if nodes.groups != before:
        changes.append(np.array([record, before, nodes.groups], dtype=np.float64))


@jit
def learn_batch(nodes, rules, factors, line_factors, X, marks, start, held, log, changes, answers):
    """Answer for the records of a batch from `start` on, learn those that teach; return the first without room yet.

    With `held` they are the records that were held back: they stand in the window already, and no answer is due.
    """
    teaches, starts, owned = marks
    cluster, score, novel, path, probabilities = answers
    for t in range(start, len(X)):
        x = X[t]
        if teaches[t] and nodes.count == len(nodes.id) and nodes.count < rules.max_nodes:
            return t
        neighbours = 0
        if not held:
            neighbours = answer(nodes, rules, x, cluster[t], score[t : t + 1], probabilities[t])
        if not teaches[t]:
            continue
        m = rules.interval
        if not held:
            nodes.window[nodes.learned % rules.interval] = x
            m = min(nodes.learned + 1, rules.interval)
        own = owned[starts[t] : starts[t + 1]]
        slot, new = learn_record(nodes, rules, factors, x, own, m, neighbours, t, log)
        path[t, 0] = nodes.id[slot]
        novel[t] = new
        if rules.clustered and nodes.learned % rules.interval == 0:
            note_groups(nodes, rules, line_factors, t, changes)
    return len(X)


@jit
def predict_batch(nodes, rules, X, cluster, score, probabilities):
    """Answer for a batch."""
    for t in range(len(X)):
        answer(nodes, rules, X[t], cluster[t], score[t : t + 1], probabilities[t])
