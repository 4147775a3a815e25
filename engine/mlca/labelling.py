"""From the labels of the nearest nodes to probabilities (20)-(27), and what they are learned from."""

from resonance.engine.arithmetic import inline, jit
from resonance.engine.mlca.layout import KNOWN, K, N


@jit
def count_memberships(nodes, rules, count):
    """Write to `memberships` how many of the nearest nodes each label stands for, rescaled to 0 to `count` (20)(21)."""
    known, most = nodes.head[KNOWN], 0
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
    count_memberships(nodes, rules, count)
    at = 0
    for label in range(nodes.head[KNOWN]):
        has = at < len(own) and own[at] == label
        at += has
        # The only node has every label that it can have: the last column.
        column = nodes.memberships[label] if nodes.head[K] > 1 else rules.neighbours
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
    count_memberships(nodes, rules, count)
    s, n = rules.smoothing, nodes.head[N]
    for label in range(nodes.head[KNOWN]):
        column = nodes.memberships[label]
        prior = (s + nodes.records[label]) / (2.0 * s + n)
        having = _likelihood(nodes.having[label], column, count, s) * prior
        lacking = _likelihood(nodes.lacking[label], column, count, s) * (1.0 - prior)
        both = having + lacking
        out[label] = having / both if both > 0.0 else prior
