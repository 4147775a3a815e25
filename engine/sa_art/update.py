"""How a category learns a record: Fuzzy ART's rule (3), and SA-ART's (9) with the statistics (11)-(14)."""

from resonance.engine.arithmetic import exp_minus, jit
from resonance.engine.borrowed import borrow
from resonance.engine.sa_art import layout
from resonance.engine.sa_art.layout import make_room, spread_out, weigh


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
