"""A batch learned, or answered, by one model."""

import numpy as np
from resonance.engine.arithmetic import jit
from resonance.engine.correntropy import median_bandwidth, spread_of_one, window_squares
from resonance.engine.events import EMERGED, NO_PATH, NO_REASON, SHAPE_HEAD, VANISHED, emit
from resonance.engine.mlca import comparison
from resonance.engine.mlca.comparison import cim_of, find_nearest
from resonance.engine.mlca.groups import regroup
from resonance.engine.mlca.labelling import answer_labels, learn_memberships
from resonance.engine.mlca.layout import EVENTS, GROUPS, KNOWN, K, N, put_node

CIM = 1
CRITERIA = ("", "cim")


@jit
def emit_node(nodes, rules, record, kind, slot, criterion, value, log):
    """Append an event to the log: the node of a slot, a cluster that spreads over nothing, has come or goes."""
    shape = np.zeros((1, SHAPE_HEAD + 2 * rules.d))
    shape[0, 0], shape[0, 1], shape[0, 2] = nodes.id[slot], nodes.size[slot], 1.0
    for i in range(rules.d):
        shape[0, SHAPE_HEAD + i] = nodes.weights[i, slot]
    gone = 1 if kind == VANISHED else 0
    what, why = (kind, nodes.id[slot], -1), (criterion, value, rules.vigilance)
    emit(nodes.head, EVENTS, NO_PATH, record, what, why, shape[:gone], shape[gone:], log)


@jit
def found(nodes, rules, factors, x, m, record, criterion, value, log):
    """Make `x` a node, in the place of the one that won longest ago where there is no other; return its slot (8)(9)."""
    slot, d, work, window = nodes.head[K], rules.d, nodes.work.reshape(-1), nodes.window.reshape(-1)
    if slot == rules.max_nodes:
        slot = np.argmin(nodes.won[:slot])  # that won longest ago
        emit_node(nodes, rules, record, VANISHED, slot, NO_REASON, 0.0, log)
    if rules.pooled:
        work[0] = median_bandwidth(window, m, d, factors, x, work)
    elif m == 1:
        sigma = factors[0] * spread_of_one(x, d)
        for i in range(d):
            work[i] = sigma
    else:
        window_squares(window, m, d, work)
        for i in range(d):
            work[i] = factors[0] * np.sqrt(work[d + i] / (m - 1)) * factors[m]
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
    for at in range(kept, 0, -1):
        near[at] = near[at - 1]
    near[0] = slot
    return kept + 1


@jit
def learn_record(nodes, rules, factors, x, own, m, neighbours, record, log):
    """Learn a record with labels `own`, which stands in the window already; return its slot, and whether it is new.

    `neighbours` are the nearest nodes that `answer` has found for it, 0 where it was not answered.
    """
    head = nodes.head
    head[N] += 1
    for label in own:
        nodes.records[label] += 1
        head[KNOWN] = max(head[KNOWN], label + 1)
    k, count = head[K], 0
    new = k == 0
    if new:
        slot = found(nodes, rules, factors, x, m, record, NO_REASON, 0.0, log)
    else:
        answered = nodes.scale[0]
        comparison.scale_by_mean(nodes, rules)
        if neighbours == 0:
            comparison.compare(nodes, rules, x)
            count = find_nearest(nodes, rules.neighbours)
        elif rules.pooled:
            count = comparison.find_nearest_again(nodes, rules, x, neighbours, answered)
        else:
            count = neighbours
        slot, v1 = nodes.near[0], cim_of(nodes, nodes.near[0])
        new = v1 > rules.vigilance
        if new:  # case I
            slot = found(nodes, rules, factors, x, m, record, CIM, v1, log)
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
    nodes.won[slot] = head[N]
    return slot, new


@jit
def answer(nodes, rules, x, cluster, score, probabilities):
    """Answer for a record: the nearest node if it is near enough, how near it is, and the labels.

    It returns the number of nearest nodes that were found.
    """
    if nodes.head[K] == 0:
        return 0
    if rules.pooled:
        comparison.scale_by_median(nodes)
    else:
        comparison.scale_by_mean(nodes, rules)
    comparison.compare(nodes, rules, x)
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
    if nodes.head[GROUPS] != before:
        changes.append(np.array([record, before, nodes.head[GROUPS]], dtype=np.float64))


@jit
def learn_batch(nodes, rules, factors, line_factors, X, marks, start, held, log, changes, answers):
    """Answer for the records of a batch from `start` on, learn those that teach; return the first without room yet.

    With `held` they are the records that were held back: they stand in the window already, and no answer is due.
    """
    teaches, starts, owned = marks
    cluster, score, novel, path, probabilities = answers
    head, d = nodes.head, rules.d
    for t in range(start, len(X)):
        x = X[t]
        if teaches[t] and head[K] == len(nodes.id) and head[K] < rules.max_nodes:
            return t
        neighbours = 0
        if not held:
            neighbours = answer(nodes, rules, x, cluster[t], score[t : t + 1], probabilities[t])
        if not teaches[t]:
            continue
        m = rules.interval
        if not held:
            for i in range(d):
                nodes.window[head[N] % rules.interval, i] = x[i]
            m = min(head[N] + 1, rules.interval)
        own = owned[starts[t] : starts[t + 1]]
        slot, new = learn_record(nodes, rules, factors, x, own, m, neighbours, t, log)
        path[t, 0] = nodes.id[slot]
        novel[t] = new
        if rules.clustered and head[N] % rules.interval == 0:
            note_groups(nodes, rules, line_factors, t, changes)
    return len(X)


@jit
def predict_batch(nodes, rules, X, cluster, score, probabilities):
    """Answer for a batch."""
    for t in range(len(X)):
        answer(nodes, rules, X[t], cluster[t], score[t : t + 1], probabilities[t])
