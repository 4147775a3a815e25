"""A batch learned, or answered, by one model.

A record belongs to the category of choice, match and search, over its non-zero entries alone. The category learns by
Fuzzy ART's rule (3), or by SA-ART's (9) with the statistics (11)-(14).
"""

import numpy as np
from resonance.engine.events import EMERGED, NO_PATH, NO_REASON, VANISHED, emit
from resonance.engine.sa_art import layout
from resonance.engine.sa_art.layout import CW, MEAN, SQUARES, S, W, add_category, make_room, spread_out, weigh
from resonance.kernels.arithmetic import exp_minus, fma, inline, jit
from resonance.kernels.borrowed import borrow
from resonance.kernels.ordering import stable_order
from resonance.kernels.table import LANES

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
    k, known = categories.count, categories.features
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
    for j in range(categories.count):
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
    k = categories.count
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


@jit
def gather(categories, slot, own_names, own_entries, own_values, indices, data, append):
    """Put the record's value of each feature of a slot's list into `values`; return the features in the list now.

    With `append` the list gets what it lacks.
    """
    names, entries, values, x = borrow(own_names), borrow(own_entries), borrow(own_values), categories.x
    for p in range(len(indices)):
        x[indices[p]] = data[p]
    used = categories.used[slot]
    for k in range(used):
        i = names[k]
        values[k] = x[i]
        x[i] = 0.0
    for p in range(len(indices)):
        i = indices[p]
        # Those of the list have been cleared.
        if x[i] > 0.0:
            x[i] = 0.0
            if append:
                names[used] = i
                values[used] = data[p]
                for field in range(entries.shape[0]):
                    entries[field, used] = 0.0
                entries[layout.CW, used] = 1.0
                used += 1
    return used


@jit
def adapt_fuzzy(own_entries, own_values, count, beta, complement):
    """Move the weights towards what they share with the record (3)."""
    entries, x = borrow(own_entries), borrow(own_values)
    w, cw = entries[layout.W], entries[layout.CW]
    kept = 1.0 - beta
    for k in range(count):
        v = x[k] if x[k] < w[k] else w[k]
        new = beta * v + kept * w[k]
        w[k] = new if new > layout.TINY else 0.0
        if complement:
            rest = 1.0 - x[k]
            v = rest if rest < cw[k] else cw[k]
            new = beta * v + kept * cw[k]
            cw[k] = new if new > layout.TINY else 0.0


@jit
def adapt_salient(own_entries, own_values, count, size, complement):
    """Learn a record: weights (5)(9), then counts (11), means (12) and squares (13); `size` is that before."""
    entries, x = borrow(own_entries), borrow(own_values)
    w, cw, means, squares = entries[layout.W], entries[layout.CW], entries[layout.MEAN], entries[layout.SQUARES]
    counts, ones = entries[layout.COUNT], entries[layout.ONES]
    spare, whole = float(size - 1) if size > 1 else 1.0, float(size + 1)
    for k in range(count):
        value, mean = x[k], means[k]
        variance = squares[k] / spare
        apart = value - mean
        square = apart * apart
        # A feature that has always had one value has a width by that value: three of its standard deviations reach
        # the nearer end of [0, 1], but not further than .01 below it.
        above, below = 1.0 - mean, mean + 0.01
        width = below if below < above else above
        steady = variance == 0.0
        scaled = 9.0 * square if steady else square
        doubled = 2.0 * (width * width if steady else variance)
        # Where mean and width leave no room (5) is 0/0; its limit is 1 at the mean, 0 beside it.
        theta = 1.0 if apart == 0.0 else exp_minus(scaled / doubled)
        common = value if value < mean else mean
        new = common * theta + w[k] * (1.0 - theta)
        w[k] = new if new > layout.TINY else 0.0
        if complement:
            below = above + 0.01
            width = below if below < mean else mean
            doubled = 2.0 * (width * width if steady else variance)
            theta = 1.0 if apart == 0.0 else exp_minus(scaled / doubled)
            rest = 1.0 - value
            common = rest if rest < above else above
            new = common * theta + cw[k] * (1.0 - theta)
            cw[k] = new if new > layout.TINY else 0.0
            ones[k] += 1.0 if value == 1.0 else 0.0
        counts[k] += 1.0 if value > 0.0 else 0.0
        mean += apart / whole
        means[k] = mean
        squares[k] += apart * (value - mean)


@jit
def teach(categories, features, fields, rules, slot, indices, data, values):
    """Let the category of a slot learn a record; `values` has room for all features."""
    append = rules.salient or rules.complement
    if append:
        make_room(features, fields, slot, min(categories.used[slot] + len(indices), categories.w.shape[0]))
    names, entries = features[slot], fields[slot]
    used = gather(categories, slot, names, entries, values, indices, data, append)
    categories.used[slot] = used
    if rules.salient:
        size = categories.size[slot]
        adapt_salient(entries, values, used, size, rules.complement)
        weigh(entries, used, size + 1, rules.lambda_, rules.complement)
        raised = (1.0 + rules.delta) * categories.rho[slot]
        categories.rho[slot] = raised if raised < 1.0 else 1.0
    else:
        adapt_fuzzy(entries, values, used, rules.beta, rules.complement)
    categories.size[slot] += 1
    spread_out(categories, rules, slot, names, entries)


MATCH = 1
CRITERIA = ("", "match")
DESCRIBED = 5
"""Numbers that describe a feature of a category."""


@jit
def compressed(X):
    """Return a dense batch in compressed sparse rows, without what is not above 0."""
    count = 0
    for t in range(X.shape[0]):
        for i in range(X.shape[1]):
            count += X[t, i] > 0.0
    indices, data, indptr = np.empty(count, dtype=np.int64), np.empty(count), np.zeros(len(X) + 1, dtype=np.int64)
    at = 0
    for t in range(X.shape[0]):
        for i in range(X.shape[1]):
            x = X[t, i]
            if x > 0.0:
                indices[at], data[at] = i, x if x < 1.0 else 1.0
                at += 1
        indptr[t + 1] = at
    return indices, indptr, data


@jit
def described(categories, rules, slot, names, entries):
    """Return id and size of a category; feature, centre, spread, weight and salience of its features, in their order.

    SA-ART's centre and spread are mean and standard deviation; those of Fuzzy ART are the middle and half the width
    of the category's box, which without complement coding is one point.
    """
    used = categories.used[slot]
    row = np.empty((1, 2 + DESCRIBED * used))
    row[0, 0], row[0, 1] = categories.id[slot], categories.size[slot]
    out = row[0, 2:].reshape(DESCRIBED, used)
    order = stable_order(names[:used])
    for r in range(used):
        k = order[r]
        out[0, r] = names[k]
        out[3, r] = entries[W, k]
        if rules.salient:
            out[1, r] = entries[MEAN, k]
            out[2, r] = np.sqrt(entries[SQUARES, k] / categories.size[slot])
            out[4, r] = entries[S, k]
        else:
            low = entries[W, k]
            # Rounding may leave the upper end a little below the lower one.
            high = max(low, 1.0 - entries[CW, k]) if rules.complement else low
            out[1, r] = 0.5 * (low + high)
            out[2, r] = 0.5 * (high - low)
            out[4, r] = 1.0
    return row


@jit
def emit_category(categories, features, fields, rules, record, kind, slot, why, log):
    """Append an event to the log: the category of a slot has come, or goes."""
    row, gone = described(categories, rules, slot, features[slot], fields[slot]), 1 if kind == VANISHED else 0
    categories.events = emit(
        categories.events, NO_PATH, record, (kind, categories.id[slot], -1), why, row[:gone], row[gone:], log
    )


@jit
def learn_batch(
    categories, features, fields, rules, indices, indptr, data, labels, start, log, cluster, score, novel, node
):
    """Learn the records of a batch from `start` on; return the first for which there is no room yet, or the end."""
    values = np.empty(categories.w.shape[0])
    for t in range(start, len(indptr) - 1):
        a, b = indptr[t], indptr[t + 1]
        names, x = indices[a:b], data[a:b]
        if categories.count == len(categories.id) and categories.count < rules.max_clusters:
            return t
        if b > a and names[b - a - 1] >= categories.w.shape[0]:
            return t
        if b > a and not rules.fixed:
            categories.features = max(categories.features, names[b - a - 1] + 1)
        if b == a and not rules.complement:
            continue
        compare(categories, rules, names, x)
        first = first_choice(categories)
        why = (NO_REASON, 0.0, 0.0)
        if first >= 0:
            cluster[t, 0] = categories.id[first]
            score[t] = categories.match[first]
            why = (MATCH, score[t], categories.rho[first])
        winner = search(categories, rules.delta)
        categories.learned += 1
        if winner >= 0:
            teach(categories, features, fields, rules, winner, names, x, values)
        else:
            novel[t] = True
            if categories.count == rules.max_clusters:
                gone = np.argmin(categories.won[: categories.count])
                emit_category(categories, features, fields, rules, t, VANISHED, gone, (NO_REASON, 0.0, 0.0), log)
            winner = add_category(categories, features, fields, rules, names, x)
            emit_category(categories, features, fields, rules, t, EMERGED, winner, why, log)
        categories.won[winner] = categories.learned
        node[t, 0] = categories.id[winner]
        if labels[t] >= 0:
            categories.labels[winner, labels[t]] += 1
    return len(indptr) - 1


@jit
def predict_batch(categories, rules, majority, indices, indptr, data, cluster, score, novel, label):
    """Answer for a batch: best choice, its match, and the label of the best choice that has one."""
    for t in range(len(indptr) - 1):
        a, b = indptr[t], indptr[t + 1]
        compare(categories, rules, indices[a:b], data[a:b])
        first = first_choice(categories)
        novel[t] = (b > a or rules.complement) and search(categories, 0.0) < 0
        if first < 0:
            continue
        cluster[t, 0] = categories.id[first]
        score[t] = categories.match[first]
        for j in range(categories.count):
            if majority[j] < 0:
                categories.choice[j] = 0.0
        first = first_choice(categories)
        if first >= 0:
            label[t] = majority[first]
