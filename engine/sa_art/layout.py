"""How the categories of one model lie in memory.

A category is a cluster: it stands in a slot from 0 to K - 1, and the slot of one that goes is taken by the one that
comes. What the choice reads of all categories lies feature-major, a row of slots for each feature, so that its inner
loop runs along the vector lanes; rows and slots have room to spare and are zero where nothing is. What only the
winner's update needs lies by category: the list of its features, in the order in which they came, and for each of
them a column of fields. Features that a category has never seen take no room there.

With complement coding (primes) a record is [x, 1 - x]. Of a feature that a category has never seen w' = s' = 1, so
the sums over the second half are kept as what is missing of 1.
"""

from typing import NamedTuple

import numpy as np
from numba import types
from numba.typed import List
from resonance.engine.base import FloatArray, IntArray
from resonance.kernels.arithmetic import exp_minus, jit
from resonance.kernels.borrowed import borrow
from resonance.kernels.table import Table, floats, ints

# Fields of a feature of a category.
W = 0  # weight
CW = 1  # w', of the complement
MEAN = 2
SQUARES = 3  # sum of squared deviations from the mean
COUNT = 4  # records in which it was not zero
ONES = 5  # records in which it was one
S = 6  # salience, which follows from the fields above
CS = 7  # s', of the complement
ALL_FIELDS = 8
FUZZY_FIELDS = 2

FEWEST_SLOTS, FEWEST_ROWS, FEWEST_FEATURES = 24, 16, 8
"""Room of a new model, and of a new list."""

TINY = 1e-200
"""A weight that has decayed below is 0: it adds nothing to any sum, and denormal numbers are slow."""


class Rules(NamedTuple):
    """The parameters of a model, as the kernels see them."""

    salient: bool  # SA-ART; False: Fuzzy ART
    complement: bool
    alpha: float
    rho: float
    delta: float
    lambda_: float
    beta: float
    floor: float  # an overlap of at most this is none
    max_clusters: int
    fixed: bool  # the number of features does not grow


class Categories(Table):
    """The arrays of a model; rows are those of features, 1 in place of them where a form needs none."""

    learned: int = ints(rows="head")  # records
    count: int = ints(stored=False)  # categories
    next_id: int = ints(rows="head")
    events: int = ints(rows="head")  # so far
    features: int = ints(stored=False)  # of a record
    id: IntArray = ints("slots", below="next_id", ascending=True)
    size: IntArray = ints("slots", low=1, high="learned")  # records learned
    won: IntArray = ints("slots", low=1, high="learned", distinct=True)  # number of the last of them
    used: IntArray = ints("slots", high="entries")  # features in the list
    rho: FloatArray = floats("slots", low=0.0, high=1.0)  # own vigilance
    plain: FloatArray = floats("slots", stored=False)  # sum of w s
    missing: FloatArray = floats("slots", stored=False)  # sum of 1 - w' s'
    unsalient: FloatArray = floats("slots", stored=False)  # sum of 1 - s'
    w: FloatArray = floats("rows", "slots", stored=False)
    s: FloatArray = floats("salient", "slots", stored=False)
    cw: FloatArray = floats("complement", "slots", fill=1.0, stored=False)
    cs: FloatArray = floats("both", "slots", fill=1.0, stored=False)
    labels: IntArray = ints("slots", "classes", sparse=True, low=1, high="size")
    overlap: FloatArray = floats("slots", stored=False)  # what the choice works with
    choice: FloatArray = floats("slots", stored=False)
    match: FloatArray = floats("slots", stored=False)
    x: FloatArray = floats("rows", stored=False)  # zeros between two updates


class Lists(Table):
    """What a state has of the lists, one behind the other: features, and the fields that do not follow from others."""

    features: IntArray = ints("entries", below="dimension")
    fields: FloatArray = floats("kept", "entries", low=0.0)


def rows_for(rules: Rules, rows: int) -> dict[str, int]:
    """Return the sizes that give room for `rows` features."""
    salient, complement = (rows if rules.salient else 1), (rows if rules.complement else 1)
    return {"rows": rows, "salient": salient, "complement": complement, "both": min(salient, complement)}


_FEATURES, _FIELDS = types.int64[::1], types.float64[:, ::1]


@jit
def new_lists():
    """Return the empty lists of features and of their fields, an entry for each slot."""
    return List.empty_list(_FEATURES), List.empty_list(_FIELDS)


@jit
def make_room(features, fields, slot, wanted):
    """Give the list of a slot room for `wanted` features."""
    kept = fields[slot]
    room = kept.shape[1]
    if wanted > room:
        room = max(wanted, 2 * room)
        new = np.zeros((kept.shape[0], room))
        new[:, : kept.shape[1]] = kept
        names = np.empty(room, dtype=np.int64)
        names[: kept.shape[1]] = features[slot]
        fields[slot] = new
        features[slot] = names


@jit
def weigh(own, count, size, lambda_, complement):
    """Compute the salience (4) of the first `count` features of a list; `size` is the category's."""
    entries = borrow(own)
    squares, counts, ones, saliences, others = entries[SQUARES], entries[COUNT], entries[ONES], entries[S], entries[CS]
    whole, rest = float(size), 1.0 - lambda_
    # One record has no variance: all squares are 0.
    spare = float(size - 1) if size > 1 else 1.0
    for k in range(count):
        steadiness = rest * exp_minus(squares[k] / spare)
        saliences[k] = lambda_ * (counts[k] / whole) + steadiness
        if complement:
            share = (whole - ones[k]) / whole
            others[k] = lambda_ * share + steadiness if share > 0.0 else 0.0


@jit
def spread_out(categories, rules, slot, own_names, own_entries):
    """Write what follows from a slot's list: the rows of the choice, and the sums.

    The sums go through the list in its order, so that they have the same bits after every update and every restore.
    """
    names, entries = borrow(own_names), borrow(own_entries)
    rows, saliences = categories.w, categories.s
    others, other_saliences = categories.cw, categories.cs
    plain = missing = unsalient = 0.0
    for k in range(categories.used[slot]):
        i = names[k]
        w, s, cs = entries[W, k], 1.0, 1.0
        if rules.salient:
            s = entries[S, k]
            saliences[i, slot] = s
        rows[i, slot] = w
        plain += w * s
        if rules.complement:
            if rules.salient:
                cs = entries[CS, k]
                other_saliences[i, slot] = cs
            cw = entries[CW, k]
            others[i, slot] = cw
            missing += 1.0 - cw * cs
            unsalient += 1.0 - cs
    categories.plain[slot] = plain
    categories.missing[slot] = missing
    categories.unsalient[slot] = unsalient


@jit
def add_category(categories, features, fields, rules, indices, data):
    """Found a category on a record, in the slot of the one that won longest ago where no other is free; return it."""
    slot = categories.count
    if slot == rules.max_clusters:
        slot = np.argmin(categories.won[:slot])
        names = features[slot]
        for k in range(categories.used[slot]):
            i = names[k]
            categories.w[i, slot] = 0.0
            if rules.salient:
                categories.s[i, slot] = 0.0
            if rules.complement:
                categories.cw[i, slot] = 1.0
                if rules.salient:
                    categories.cs[i, slot] = 1.0
    else:
        categories.count += 1
    count = len(indices)
    room = max(count, FEWEST_FEATURES)
    names = np.zeros(room, dtype=np.int64)
    entries = np.zeros((ALL_FIELDS if rules.salient else FUZZY_FIELDS, room))
    names[:count], entries[W, :count], entries[CW, :count] = indices, data, 1.0 - data
    if rules.salient:
        entries[MEAN, :count], entries[COUNT, :count], entries[ONES, :count] = data, 1.0, data == 1.0
    if slot == len(features):
        features.append(names)
        fields.append(entries)
    else:
        features[slot] = names
        fields[slot] = entries
    categories.id[slot] = categories.next_id
    categories.next_id += 1
    categories.size[slot], categories.used[slot] = 1, count
    categories.rho[slot], categories.labels[slot] = rules.rho, 0
    if rules.salient:
        weigh(entries, count, 1, rules.lambda_, rules.complement)
    spread_out(categories, rules, slot, names, entries)
    return slot
