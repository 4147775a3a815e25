"""Average linkage of nodes against one that keeps every number in a square table."""

import numpy as np
import pytest
from resonance.engine.caea.linkage import group_by_affinity
from resonance.engine.caea.model import Model, add_link, new_model


def linked(nodes, share, seed, wins=40):
    """Return a model whose nodes have won together at random, links in random order, and the table of their wins."""
    rng = np.random.default_rng(seed)
    room = -(-nodes // 8) * 8
    model = Model(new_model(1, 2, room, room, 0))
    model.nodes = model.learned = nodes
    cowin = np.zeros((nodes, nodes))
    pairs = [(i, j) for i in range(nodes) for j in range(i) if rng.random() < share]
    for at in rng.permutation(len(pairs)):
        i, j = pairs[at]
        count = int(rng.integers(1, wins + 1))
        add_link(model, i, j, 1, count)
        add_link(model, j, i, 1, count)
        cowin[i, j] = cowin[j, i] = count
    return model, cowin


def literal(cowin, tau):
    """Join the nearest pair, the first one at ties, until it is below `tau`; sums run from the first node on."""
    nodes = len(cowin)
    assert cowin.any()
    volume = [sum(row.tolist()) for row in cowin]
    total = sum(volume)
    B = [[max(0.0, cowin[i, j] - volume[i] * volume[j] / total) for j in range(nodes)] for i in range(nodes)]
    for i in range(nodes):
        B[i][i] = 0.0
    w = [sum(row) for row in B]
    group, last = list(range(nodes)), {}
    present = list(range(nodes))
    while True:
        best, pair = -1.0, None
        for i in present:
            for j in present:
                if j > i and B[i][j] > 0.0:
                    s = float(B[i][j] / np.sqrt(w[i] * w[j]))
                    if s > best:
                        best, pair = s, (i, j)
        if pair is None or best < tau:
            return group, last, w
        i, j = pair
        for n in present:
            if n not in pair:
                B[i][n] = B[n][i] = B[i][n] + B[j][n]
        w[i] += w[j]
        present.remove(j)
        group = [i if g == j else g for g in group]
        last[i] = best


@pytest.mark.parametrize(
    ("nodes", "share", "wins", "tau"),
    [(2, 1.0, 5, 0.08), (30, 0.2, 40, 0.08), (45, 0.9, 3, 0.001), (60, 0.1, 1, 1e-6), (60, 0.5, 200, 0.03)],
)
@pytest.mark.parametrize("seed", range(4))
def test_groups_are_those_of_a_square_table_to_the_last_bit(nodes, share, wins, tau, seed):
    model, cowin = linked(nodes, share, seed, wins)
    group, start, length, where, partner = (np.empty(nodes, dtype=np.int64) for _ in range(5))
    last, w, best = (np.zeros(nodes) for _ in range(3))
    group_by_affinity(model, tau, group, start, length, where, partner, last, w, best)
    expected, joins, weights = literal(cowin, tau)
    found = []
    for node in range(nodes):
        g = node
        while group[g] != g:
            g = group[g]
        found.append(g)
    assert found == expected
    assert {g: s for g, s in enumerate(last.tolist()) if s and expected[g] == g} == {
        g: s for g, s in joins.items() if expected[g] == g
    }
    assert [w[g] for g in sorted(set(expected))] == [weights[g] for g in sorted(set(expected))]
