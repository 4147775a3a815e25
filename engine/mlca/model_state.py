"""A model packed into arrays without room to spare, and back: what a snapshot keeps of it.

What comes from a state is checked before any kernel sees it: a kernel trusts its indices. Sums, the order of the
bandwidths and the number of the next event follow from the rest.
"""

from typing import Any

import numpy as np
from numpy.typing import NDArray
from resonance.engine.base import MAGNITUDE, FloatArray, IntArray, Label
from resonance.engine.contents import MAX_RECORDS, ROUNDING, Contents
from resonance.engine.errors import RecordError, StateError
from resonance.engine.labels import checked_label
from resonance.engine.mlca import layout
from resonance.engine.mlca.layout import Nodes, Rules, list_groups, more_slots, new_nodes, sum_bandwidths

WIDEST = 10 * MAGNITUDE
"""No bandwidth is wider."""

Held = list[tuple[FloatArray, IntArray]]
"""Records that are held back, each with the numbers of its labels."""


def packed(nodes: Nodes, rules: Rules, held: Held, known: int) -> dict[str, NDArray[Any]]:
    """Return the contents of a model as arrays."""
    records, k = int(nodes.head[layout.N]), int(nodes.head[layout.K])
    place, label = np.nonzero(nodes.labels[:k])
    arrays: dict[str, NDArray[Any]] = {
        "head": nodes.head[[layout.N, layout.NEXT_ID]],
        "id": nodes.id[:k],
        "count": nodes.size[:k],
        "won": nodes.won[:k],
        "sigma": nodes.sigma[:k],
        "weight": nodes.weights.reshape(rules.d, -1)[:, :k].T,
        "labels": np.stack([place, label, nodes.labels[place, label]], axis=1),
        "records": nodes.records[:known],
        "having": nodes.having[:known],
        "lacking": nodes.lacking[:known],
        "window": nodes.window.reshape(-1, rules.d)[:records],
    }
    if rules.clustered:
        arrays["group"] = nodes.group
    if held:
        owner = np.repeat(np.arange(len(held)), [len(own) for _, own in held])
        arrays["held"] = np.stack([x for x, _ in held])
        arrays["held_labels"] = np.stack([owner, np.concatenate([own for _, own in held])], axis=1)
    return arrays


def table_of(given: object, most: int, name: str) -> list[Label]:
    """Return the labels that a state's header lists, or raise `StateError`."""
    if not isinstance(given, list) or len(given) > most:
        raise StateError(f"the state of {name} has no list of at most {most:,} labels")
    try:
        table = [checked_label(0, label) for label in given]
    except RecordError as error:
        raise StateError(f"the state of {name} has a label that is none: {error.problem}") from error
    if len(set(table)) < len(table):
        raise StateError(f"the state of {name} has a label twice")
    return table


def check_dimension(arrays: dict[str, NDArray[Any]], dimension: int, holds: bool, name: str) -> None:
    """Raise `StateError` unless there is a record of that dimension: a larger one would make room for nothing.

    `holds` says whether records may be held back.
    """
    rows = arrays.get("held" if "held" in arrays and holds else "window", np.empty(0))
    if rows.ndim != 2 or not len(rows) or rows.shape[1] != dimension:
        raise StateError(f"the state of {name} holds no record of dimension {dimension}")


def unpacked(arrays: dict[str, NDArray[Any]], rules: Rules, labels: int, name: str) -> tuple[Nodes, Held]:
    """Return the model that `packed` gave the arrays of, with its number of labels, or raise `StateError`."""
    contents = Contents(arrays, name)
    check, d = contents.check, rules.d
    records, next_id = contents.whole("head", 0, MAX_RECORDS, 2).tolist()
    known = labels if records else 0
    ids = contents.whole("id", 0, next_id - 1, -1)
    k = len(ids)
    check(k <= rules.max_nodes, f"{k} nodes, more than max_nodes")
    check(k <= next_id <= records and (k > 0) == (records > 0), "its head")
    check(len(np.unique(ids)) == k, "ids")
    count, won = (contents.whole(key, 1, records, k) for key in ("count", "won"))
    check(len(np.unique(won)) == k and int(count.sum()) <= records, "counts")
    sigma = contents.within("sigma", WIDEST, k, 1 if rules.pooled else d)
    check((sigma > 0.0).all(), "sigma")
    weight = contents.within("weight", MAGNITUDE * (1.0 + ROUNDING), k, d)
    window = contents.within("window", MAGNITUDE, min(records, rules.interval), d)
    triples = contents.whole("labels", 0, MAX_RECORDS, -1, 3)
    place, label, times = triples.T
    check((place < k).all() and (label < known).all(), "labels")
    check((np.diff(place * max(known, 1) + label, prepend=-1) > 0).all(), "labels out of order")
    check((times >= 1).all() and (times <= count[place]).all(), "counts of labels")
    frequency = contents.whole("records", 0, records, known)
    having, lacking = (contents.whole(key, 0, records, known, rules.neighbours + 1) for key in ("having", "lacking"))
    check((having.sum(axis=1) <= frequency).all() and (lacking.sum(axis=1) <= records).all(), "likelihoods")
    held = _held(contents, rules, labels) if records == 0 else []

    slots, room = layout.FEWEST_SLOTS, layout.FEWEST_LABELS
    while slots < k:
        slots = more_slots(slots)
    while room < labels:
        room *= 2
    nodes = new_nodes(rules, slots, room)
    nodes.head[[layout.N, layout.K, layout.NEXT_ID, layout.EVENTS, layout.KNOWN]] = (
        records,
        k,
        next_id,
        2 * next_id - k,
        known,
    )
    for to, column in ((nodes.id, ids), (nodes.size, count), (nodes.won, won), (nodes.sigma, sigma)):
        to[:k] = column
    nodes.weights.reshape(d, -1)[:, :k] = weight.T
    nodes.window[: window.size] = window.ravel()
    nodes.labels[place, label] = times
    for to, rows in ((nodes.records, frequency), (nodes.having, having), (nodes.lacking, lacking)):
        to[:known] = rows
    if rules.clustered:
        group = contents.whole("group", 0, d - 1, d)
        nodes.group[:] = group
        list_groups(nodes)
        check((nodes.group == group).all(), "groups out of order")
    sum_bandwidths(nodes)
    if rules.pooled:
        nodes.sorted[:k] = np.sort(sigma[:, 0])
    return nodes, held


def _held(contents: Contents, rules: Rules, labels: int) -> Held:
    """Return the records that are held back, of a model that has learned none."""
    X = contents.within("held", MAGNITUDE, -1, rules.d)
    contents.check(0 < len(X) < rules.interval, f"{len(X)} records held back")
    owner, label = contents.whole("held_labels", 0, MAX_RECORDS, -1, 2).T
    contents.check((owner < len(X)).all() and (label < labels).all(), "labels of records held back")
    contents.check((np.diff(owner * max(labels, 1) + label, prepend=-1) > 0).all(), "labels out of order")
    contents.check(len(np.unique(label)) == labels, "a label that no record has")
    return [(X[at].copy(), label[owner == at].copy()) for at in range(len(X))]
