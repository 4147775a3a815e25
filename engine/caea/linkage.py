"""How the nodes of a model are put into groups: by average linkage on what co-winning exceeds chance, or by edges.

Rows of the excess B are kept as they are in a sparse table: group `i` has its neighbours in
``other[start[i]:start[i] + length[i]]`` and the excess to each of them in `value` beside it.
"""

import numpy as np
from resonance.engine.arithmetic import float_of, jit
from resonance.engine.caea.block import CAPACITY, LINKED, LINKS, OTHER, WINS, K, at_field, at_link


@jit
def _excess(integers, start, length, other, value, w, volume):
    """Fill the rows of what co-winning exceeds chance: ``other[start:start + length]`` ascending, with `value`.

    `w` gets the sums of the rows.
    """
    capacity, links, k = integers[CAPACITY], integers[LINKS], integers[K]
    total = 0.0
    for i in range(k):
        volume[i] = 0.0
        w[i] = 0.0
        row = at_link(i, WINS, capacity, links)
        for at in range(integers[at_field(LINKED, capacity) + i]):
            volume[i] += integers[row + at]
        total += volume[i]
    end = 0
    for i in range(k):
        row = at_link(i, OTHER, capacity, links)
        start[i] = end
        for at in range(integers[at_field(LINKED, capacity) + i]):
            j = integers[row + at]
            excess = integers[row + 2 * links + at] - volume[i] * volume[j] / total
            if excess > 0.0:
                # Links stand in the order in which they came: sums must not depend on it.
                to = end
                while to > start[i] and other[to - 1] > j:
                    other[to], value[to] = other[to - 1], value[to - 1]
                    to -= 1
                other[to], value[to] = j, excess
                end += 1
        length[i] = end - start[i]
        for at in range(start[i], end):
            w[i] += value[at]
    return end


@jit
def between(start, length, other, value, i, j):
    """Return the excess between the groups `i` and `j`."""
    for at in range(start[i], start[i] + length[i]):
        if other[at] == j:
            return value[at]
    return 0.0


@jit
def _scan_row(start, length, other, value, w, r, best, partner):
    """Find the later group that is nearest to group `r`; the earliest one at ties."""
    best[r] = -1.0
    partner[r] = -1
    for at in range(start[r], start[r] + length[r]):
        j = other[at]
        if j > r:
            s = value[at] / np.sqrt(w[r] * w[j])
            if s > best[r] or (s == best[r] and j < partner[r]):
                best[r] = s
                partner[r] = j


@jit
def _join_rows(start, length, other, value, end, where, i, j):
    """Write the row of group `i` with that of `j` added to it at `end`, and tell their neighbours; return its length.

    `where` is -1 everywhere before and after.
    """
    count = 0
    for at in range(start[i], start[i] + length[i]):
        n = other[at]
        if n != j:
            other[end + count], value[end + count] = n, value[at]
            where[n] = end + count
            count += 1
    for at in range(start[j], start[j] + length[j]):
        n = other[at]
        if n == i:
            continue
        if where[n] < 0:
            other[end + count], value[end + count] = n, value[at]
            count += 1
            for b in range(start[n], start[n] + length[n]):  # what was its neighbour j is now i
                if other[b] == j:
                    other[b] = i
            continue
        value[where[n]] += value[at]
        last = start[n] + length[n] - 1
        for b in range(start[n], last + 1):
            if other[b] == i:
                value[b] = value[where[n]]
        for b in range(start[n], last + 1):
            if other[b] == j:
                other[b], value[b] = other[last], value[last]
                break
        length[n] -= 1
    for at in range(end, end + count):
        where[other[at]] = -1
    return count


@jit
def group_by_affinity(integers, tau, group, start, length, where, partner, last, w, best):
    """Average linkage on the excess B: join the pair of groups with the largest B_ij / sqrt(w_i w_j) while >= tau.

    `group` gets for each node the first node of its group, `last` for each group the affinity of its last join. What
    is left of B between the groups is returned, as rows.
    """
    capacity, k = integers[CAPACITY], integers[K]
    joined = 0
    for i in range(k):
        joined += integers[at_field(LINKED, capacity) + i]
        group[i] = i
        where[i] = -1
    other, value = np.empty(2 * joined + k, dtype=np.int64), np.empty(2 * joined + k)
    end = _excess(integers, start, length, other, value, w, best)
    for r in range(k):
        _scan_row(start, length, other, value, w, r, best, partner)
    order = best[:k].view(np.int64)
    while True:
        # The bits of floats that are not negative are in the order of the floats, and -1 is below them all.
        top = np.int64(0)
        for r in range(k):
            top = max(top, order[r])
        s = float_of(top)
        if s < tau:
            break
        i = 0
        while order[i] != top:
            i += 1
        j = partner[i]
        last[i] = s
        group[j] = i
        if end + length[i] + length[j] > len(other):
            other = np.concatenate((other, np.empty(len(other) + k, dtype=np.int64)))
            value = np.concatenate((value, np.empty(len(value) + k)))
        count = _join_rows(start, length, other, value, end, where, i, j)
        start[i], length[i], length[j] = end, count, 0
        end += count
        w[i] += w[j]
        best[j] = -1.0
        partner[j] = -1
        _scan_row(start, length, other, value, w, i, best, partner)
        for at in range(start[i], start[i] + count):
            n = other[at]
            if partner[n] == i or partner[n] == j:
                _scan_row(start, length, other, value, w, n, best, partner)
            elif n < i:
                s = value[at] / np.sqrt(w[n] * w[i])
                if s > best[n] or (s == best[n] and i < partner[n]):
                    best[n] = s
                    partner[n] = i
    return other, value


@jit
def group_by_edges(integers, group):
    """Take connected components; `group` gets for each node the first node of its component."""
    capacity, links, k = integers[CAPACITY], integers[LINKS], integers[K]
    stack = np.empty(k, dtype=np.int64)
    group[:k] = -1
    for first in range(k):
        if group[first] >= 0:
            continue
        group[first] = first
        stack[0] = first
        left = 1
        while left > 0:
            left -= 1
            node = stack[left]
            row = at_link(node, OTHER, capacity, links)
            for at in range(integers[at_field(LINKED, capacity) + node]):
                j = integers[row + at]
                if integers[row + links + at] > 0 and group[j] < 0:
                    group[j] = first
                    stack[left] = j
                    left += 1
