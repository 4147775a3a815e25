"""A model packed into arrays without room to spare, and back: what a snapshot keeps of it.

Categories stand in the order of their ids, whatever slots they are in. What comes from a state is checked before any
kernel sees it: a kernel trusts its indices.
"""

from typing import Any

import numpy as np
from numba.typed import List
from numpy.typing import NDArray
from resonance.engine.contents import MAX_RECORDS, ROUNDING, Contents
from resonance.engine.sa_art import layout
from resonance.engine.sa_art.layout import Categories, Rules, more_slots, new_categories, new_lists, spread_out, weigh


def _fields(rules: Rules) -> tuple[int, ...]:
    """Return the fields of a list that are part of the state."""
    statistics = (layout.MEAN, layout.SQUARES, layout.COUNT) if rules.salient else ()
    complement = ((layout.CW, layout.ONES) if rules.salient else (layout.CW,)) if rules.complement else ()
    return (layout.W, *statistics, *complement)


def packed(categories: Categories, features: List, fields: List, rules: Rules) -> dict[str, NDArray[Any]]:
    """Return the contents of a model as arrays."""
    head = categories.head
    order = np.argsort(categories.id[: head[layout.K]])
    kept = list(_fields(rules))
    used = categories.used[order]
    names = [features[slot][:count] for slot, count in zip(order, used, strict=True)]
    entries = [fields[slot][kept, :count] for slot, count in zip(order, used, strict=True)]
    place, marks = np.nonzero(categories.labels[order])
    arrays: dict[str, NDArray[Any]] = {
        "head": head[[layout.N, layout.NEXT_ID, layout.EVENTS]],
        "id": categories.id[order],
        "size": categories.size[order],
        "won": categories.won[order],
        "used": used,
        "features": np.concatenate([np.empty(0, np.int64), *names]),
        "fields": np.concatenate([np.empty((len(kept), 0)), *entries], axis=1),
        "labels": np.stack([place, marks, categories.labels[order][place, marks]], axis=1),
    }
    if rules.salient:
        arrays["rho"] = categories.rho[order]
    return arrays


def unpacked(
    arrays: dict[str, NDArray[Any]], rules: Rules, dimension: int, classes: int, name: str
) -> tuple[Categories, List, List]:
    """Return the model that `packed` gave the arrays of, or raise `StateError`."""
    contents = Contents(arrays, name)
    check, read = contents.check, contents.read
    head, ids = read("head", np.int64, 3), read("id", np.int64, -1)
    count = len(ids)
    size, won, used = (read(key, np.int64, count) for key in ("size", "won", "used"))
    check((head >= 0).all() and (head < MAX_RECORDS).all(), "its head")
    check(count <= rules.max_clusters, f"{count} categories, more than max_clusters")
    records, next_id, _ = head.tolist()
    check((np.diff(ids, prepend=-1) > 0).all() and (ids < next_id).all(), "ids")
    check((size >= 1).all() and (size <= records).all(), "sizes")
    check((won >= 1).all() and (won <= records).all() and len(set(won.tolist())) == count, "last wins")
    names = read("features", np.int64, -1)
    check((used >= 0).all() and (used <= len(names)).all() and used.sum() == len(names), "lengths of lists")
    check((names >= 0).all() and (names < dimension).all(), "features")
    owner = np.repeat(np.arange(count), used)
    check(len(np.unique(owner * max(dimension, 1) + names)) == len(names), "a feature that comes twice")
    kept = _fields(rules)
    entries = read("fields", np.float64, len(kept), len(names))
    sizes = size[owner]
    for row, field in zip(entries, kept, strict=True):
        high = {layout.SQUARES: sizes, layout.COUNT: sizes, layout.ONES: sizes}.get(field, np.ones(len(names)))
        low = 1.0 if field == layout.COUNT else 0.0
        check((row >= low).all() and (row <= high * (1.0 + ROUNDING)).all(), f"field {field}")
        check(field not in (layout.COUNT, layout.ONES) or (row == np.floor(row)).all(), f"field {field}")
    rho = read("rho", np.float64, count) if rules.salient else np.full(count, rules.rho)
    check((rho >= 0.0).all() and (rho <= 1.0).all(), "vigilances")
    labels = read("labels", np.int64, -1, 3)
    place, marks, times = labels.T
    check((place >= 0).all() and (place < count).all() and (marks >= 0).all() and (marks < classes).all(), "labels")
    check((np.diff(place * max(classes, 1) + marks, prepend=-1) > 0).all(), "labels out of order")
    check((times >= 1).all() and (times <= size[place]).all(), "counts of labels")

    slots, rows = layout.FEWEST_SLOTS, layout.FEWEST_ROWS
    while slots < count:
        slots = more_slots(slots)
    while rows < (names.max() + 1 if len(names) else 0):
        rows *= 2
    categories = new_categories(rules, slots, rows, classes)
    categories.head[[layout.N, layout.NEXT_ID, layout.EVENTS]] = head
    categories.head[layout.K], categories.head[layout.D] = count, dimension
    for to, column_ in zip(categories[1:6], (ids, size, won, used, rho), strict=True):
        to[:count] = column_
    categories.labels[place, marks] = times
    lists, tables = new_lists()
    ends = np.cumsum(used)
    for slot, end in enumerate(ends.tolist()):
        part = slice(end - int(used[slot]), end)
        table = np.zeros((layout.ALL_FIELDS if rules.salient else layout.FUZZY_FIELDS, int(used[slot])))
        table[layout.CW] = 1.0
        table[list(kept)] = entries[:, part]
        lists.append(names[part].copy())
        tables.append(table)
        if rules.salient:
            weigh(table, int(used[slot]), int(size[slot]), rules.lambda_, rules.complement)
        spread_out(categories, rules, slot, lists[slot], table)
    return categories, lists, tables
