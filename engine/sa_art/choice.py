"""Which category a record belongs to: choice, match and search, over its non-zero entries alone."""

from resonance.engine.arithmetic import fma, inline, jit
from resonance.engine.sa_art.layout import D, K
from resonance.engine.table import LANES

SLACK = 1e-9
"""A match of 1 passes a vigilance of 1, whatever the order of its sums."""
TINY_SALIENCE = 1e-12
"""A record whose salient part is no larger matches nothing."""


@inline
def _overlaps(row, x, sums, count):
    """Add min(x, w) of one feature for all slots (Fuzzy ART)."""
    for j in range(count):
        w = row[j]
        sums[j] += w if w < x else x


@inline
def _complement_overlaps(row, x, sums, count):
    """Add min(1 - x, w') - w' of one feature for all slots (Fuzzy ART)."""
    rest = 1.0 - x
    for j in range(count):
        w = row[j]
        sums[j] += (w if w < rest else rest) - w


@inline
def _salient_overlaps(row, salience, x, sums, totals, count):
    """Add min(x, w) s, and x s, of one feature for all slots."""
    for j in range(count):
        w, s = row[j], salience[j]
        sums[j] = fma(w if w < x else x, s, sums[j])
        totals[j] = fma(x, s, totals[j])


@inline
def _two_salient_overlaps(row, salience, x, next_row, next_salience, next_x, sums, totals, count):
    """Do so for two features, one behind the other: the same bits with half the loads and stores of the sums."""
    for j in range(count):
        w, s, next_w, next_s = row[j], salience[j], next_row[j], next_salience[j]
        sums[j] = fma(next_w if next_w < next_x else next_x, next_s, fma(w if w < x else x, s, sums[j]))
        totals[j] = fma(next_x, next_s, fma(x, s, totals[j]))


@inline
def _salient_complement_overlaps(row, salience, x, sums, totals, count):
    """Add (min(1 - x, w') - w') s', and -x s', of one feature for all slots."""
    rest = 1.0 - x
    for j in range(count):
        w, s = row[j], salience[j]
        sums[j] = fma((w if w < rest else rest) - w, s, sums[j])
        totals[j] = fma(-x, s, totals[j])


@jit
def compare(categories, rules, indices, data):
    """Compute choice (6) and match (8) of all categories for a record; (1) and (2) for Fuzzy ART."""
    k, known = categories.head[K], categories.head[D]
    # A record that is only predicted for may have features that no category has seen.
    if not rules.fixed and len(indices) > 0:
        known = max(known, indices[-1] + 1)
    d = float(known)
    count = (k + LANES - 1) // LANES * LANES
    sums, totals, choice = categories.overlap, categories.match, categories.choice
    w, s, cw, cs = categories.w, categories.s, categories.cw, categories.cs
    for j in range(count):
        sums[j] = 0.0
        totals[j] = 0.0
    plain, missing, unsalient = categories.plain, categories.missing, categories.unsalient
    size, done = 0.0, 0
    if rules.salient and not rules.complement:
        while done + 1 < len(indices) and indices[done + 1] < len(w):
            a, b = indices[done], indices[done + 1]
            _two_salient_overlaps(w[a], s[a], data[done], w[b], s[b], data[done + 1], sums, totals, count)
            done += 2
    for p in range(done, len(indices)):
        i, x = indices[p], data[p]
        size += x
        if i >= len(w):
            if rules.complement:
                rest = 1.0 - x
                for j in range(count):
                    sums[j] += rest - 1.0
                    totals[j] -= x
        elif rules.salient:
            _salient_overlaps(w[i], s[i], x, sums, totals, count)
            if rules.complement:
                _salient_complement_overlaps(cw[i], cs[i], x, sums, totals, count)
        else:
            _overlaps(w[i], x, sums, count)
            if rules.complement:
                _complement_overlaps(cw[i], x, sums, count)
    if rules.complement:
        size = d
    for j in range(k):
        overlap, total, weight = sums[j], size, plain[j]
        if rules.complement:
            overlap += d - missing[j]
            weight += d - missing[j]
        if rules.salient:
            total = totals[j]
            if rules.complement:
                total += d - unsalient[j]
        choice[j] = 0.0
        totals[j] = 0.0
        if overlap > rules.floor:
            choice[j] = overlap / (rules.alpha + weight)
            if total > TINY_SALIENCE or not rules.salient:
                match = overlap / total
                totals[j] = match if match < 1.0 else 1.0


@inline
def before(choice, ids, j, other):
    """Whether slot `j` is tried before slot `other`: by choice, then by age."""
    return choice[j] > choice[other] or (choice[j] == choice[other] and ids[j] < ids[other])


@jit
def first_choice(categories):
    """Return the slot of the best choice, -1 where no category has anything in common with the record."""
    choice, ids = categories.choice, categories.id
    best = -1
    for j in range(categories.head[K]):
        if choice[j] > 0.0 and (best < 0 or before(choice, ids, j, best)):
            best = j
    return best


@jit
def search(categories, delta):
    """Search in the order of the choice; return the slot that resonates, -1 for none.

    Those that were tried and rejected lose vigilance (10). A rejected category lowers no vigilance but its own, and is
    tried once: so the search ends at the best choice among those that match, and all that come before it, or all if
    there is none, were rejected.
    """
    choice, ids = categories.choice, categories.id
    match, rho = categories.match, categories.rho
    k = categories.head[K]
    winner = -1
    for j in range(k):
        matches = choice[j] > 0.0 and match[j] >= rho[j] - SLACK
        if matches and (winner < 0 or before(choice, ids, j, winner)):
            winner = j
    if delta > 0.0:
        for j in range(k):
            if j != winner and choice[j] > 0.0 and (winner < 0 or before(choice, ids, j, winner)):
                rho[j] *= 1.0 - delta
    return winner
