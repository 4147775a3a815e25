"""The states of the drift watch: the same wherever in its log a stream is, and damaged ones refused."""

import numpy as np
import pytest
from resonance.engine import StateError
from resonance.engine.drift import DriftWatch, layout
from resonance.engine.drift.watch import KIND, REVISION
from resonance.engine.state import pack, unpack
from resonance.kernels.table import stored_fields

from tests.engine.watched import clusters, learn, moved, stream, wave


@pytest.fixture(scope="module")
def whole():
    """The watch of a stream that moves."""
    return learn(DriftWatch(2, hold=300, leaps=1), *moved())[1]


def test_a_state_far_along_in_its_log_is_the_same_state():
    watch = DriftWatch(2)
    X, where = stream(1_024)
    far = np.arange(1_024) + 2**40
    for start in (0, 512):
        part = slice(start, start + 512)
        watch.learn(X[part], where[part] + 2**33, far[part], far[part])
        watch.take_cells(clusters())
    assert DriftWatch.from_state(watch.state()).state() == watch.state()
    near = DriftWatch.from_state(pack(KIND, REVISION, *wide(DriftWatch(2))))
    assert near.state() == DriftWatch(2).state()
    for name in ("number", "mark", "mark_time"):
        header, arrays = unpack(DriftWatch(2).state(), KIND, REVISION)
        with pytest.raises(StateError):
            DriftWatch.from_state(pack(KIND, REVISION, header, {**arrays, name: arrays[name][..., :-1].copy()}))


def wide(watch):
    """Return header and arrays of a watch, all integers of 64 bits, as those of a log that is far along."""
    header, arrays = unpack(watch.state(), KIND, REVISION)
    narrow = {name: arrays[name].view("<i4").astype(np.int64) for name in ("number", "mark", "mark_time")}
    return header, {**arrays, **narrow}


def replaced(array, at, value):
    """Return a copy of an array with another value in one place."""
    other = array.copy()
    other[at] = value
    return other


# Where the fields of a watch are in the arrays of its state.
PLACE = {
    field: place for fields in stored_fields(layout.WatchState).values() for place, (field, _) in enumerate(fields)
}
PARTS = ("channel", "number", "share", "share_time", "mark", "mark_time")

DAMAGED = [
    *((name, lambda a: a[:-1]) for name in (*PARTS, "head", "centre")),
    *((name, lambda a: a[None]) for name in (*PARTS, "head", "names")),
    *(
        (name, lambda a: np.zeros(a.shape, np.int64 if a.dtype == np.float64 else np.float64))
        for name in (*PARTS, "head", "centre", "names")
    ),
    *(("head", lambda a, at=at: replaced(a, at, -1)) for at in range(10)),
    ("head", lambda a: replaced(a, PLACE["cells"], 5)),
    ("head", lambda a: replaced(a, PLACE["cells"], 2**40)),
    ("head", lambda a: replaced(a, PLACE["open"], 2)),
    ("head", lambda a: replaced(a, PLACE["start"], 2**40)),
    ("head", lambda a: replaced(a, PLACE["next_look"], 0)),
    *(
        ("channel", lambda a, f=f, v=v: replaced(a, (1, PLACE[f], 0), v))
        for f in ("middle", "mean", "cusum", "onset", "old", "squares")
        for v in (np.nan, np.inf, -np.inf)
    ),
    *(("channel", lambda a, f=f: replaced(a, (1, PLACE[f], 0), np.nan)) for f in ("threshold", "size_threshold")),
    *(
        ("channel", lambda a, f=f: replaced(a, (1, PLACE[f], 0), 0.0))
        for f in ("threshold", "inverse_spread", "size_inverse_spread", "gain")
    ),
    *(("channel", lambda a, f=f: replaced(a, (1, PLACE[f], 0), -1.0)) for f in ("onset", "size_onset")),
    ("channel", lambda a: replaced(a, (1, PLACE["onset"], 0), 1e9)),
    *(("number", lambda a, f=f: replaced(a, (1, f), -1)) for f in range(12)),
    *(("number", lambda a, f=f: replaced(a, (1, PLACE[f]), 2)) for f in ("watched", "flag", "share_flag")),
    ("number", lambda a: replaced(a, (1, PLACE["seen"]), 10**6)),
    ("number", lambda a: replaced(a, (1, PLACE["check"]), 0)),
    ("number", lambda a: replaced(a, (1, PLACE["share_check"]), 0)),
    *(("share", lambda a, v=v: replaced(a, (1, PLACE["inside"]), v)) for v in (np.nan, np.inf)),
    *(("share", lambda a, v=v: replaced(a, (1, PLACE["share_threshold"]), v)) for v in (np.nan, 0.0, -1.0)),
    *(("centre", lambda a, v=v: replaced(a, (0, 0), v)) for v in (np.nan, np.inf, 1e200)),
]


@pytest.mark.parametrize(("name", "damage"), DAMAGED)
def test_a_damaged_state_is_refused(whole, name, damage):
    header, arrays = wide(whole)
    with pytest.raises(StateError):
        DriftWatch.from_state(pack(KIND, REVISION, header, {**arrays, name: damage(arrays[name])}))


@pytest.mark.parametrize(
    ("member", "value"),
    [
        *(("dimension", value) for value in (0, -1, 1, 3, 2.0, "2", None, True, 10**9)),
        *(("parameters", value) for value in (None, [], "step", {"none": 1}, {"step": 0}, {"step": "x"}, {"cells": 2})),
        ("parameters", {"rarity": 1e30}),
        ("parameters", {"hold": 1.5}),
    ],
)
def test_a_header_of_no_watch_is_refused(whole, member, value):
    header, arrays = unpack(whole.state(), KIND, REVISION)
    with pytest.raises(StateError):
        DriftWatch.from_state(pack(KIND, REVISION, {**header, member: value}, arrays))


def test_an_older_state_of_far_too_many_cells_is_refused():
    header, arrays = unpack(DriftWatch(2).state(), KIND, REVISION)
    del header["parameters"]["leaps"]
    with pytest.raises(StateError, match="1000000000000 cells"):
        DriftWatch.from_state(pack(KIND, REVISION, header, {**arrays, "centre": np.zeros((10**12, 0))}))


def test_any_member_may_be_missing_only_in_a_damaged_state(whole):
    header, arrays = unpack(whole.state(), KIND, REVISION)
    for name in arrays:
        with pytest.raises(StateError):
            DriftWatch.from_state(pack(KIND, REVISION, header, {key: arrays[key] for key in arrays if key != name}))
    for name in header:
        with pytest.raises(StateError):
            DriftWatch.from_state(pack(KIND, REVISION, {key: header[key] for key in header if key != name}, arrays))


def test_a_state_with_other_numbers_is_refused_or_goes_on():
    """Whatever a checksum calls whole: nothing is read or written beyond an array, and the state is kept."""
    # In the middle of an outage.
    X, where = stream(4_000)
    X[3_900:] += 2.0
    header, arrays = wide(learn(DriftWatch(2, hold=300, leaps=1), X, where)[1])
    assert len(arrays["home"]) > 0
    rng = np.random.default_rng(3)
    X, where = stream(600, seed=4)
    values = {np.dtype("f8"): (-1.0, 0.0, 0.3, 1e9, 1e-300, 1e300), np.dtype("i8"): (0, -1, 1, 3, 2**31, 2**62)}
    taken = 0
    for _ in range(300):
        name = str(rng.choice([name for name in arrays if arrays[name].size]))
        place = tuple(int(rng.integers(size)) for size in arrays[name].shape)
        value = rng.choice(values[arrays[name].dtype])
        other = {**arrays, name: replaced(arrays[name], place, value)}
        try:
            watch = DriftWatch.from_state(pack(KIND, REVISION, header, other))
        except StateError:
            continue
        taken += 1
        learn(watch, X, where)
    assert 50 < taken < 300


def test_a_state_that_knows_no_places_learns_them_first():
    X = wave(8_000)
    _, watch = learn(DriftWatch(2, leaps=1), X[:4_000], np.zeros(4_000, int), found=list)
    header, arrays = unpack(watch.state(), KIND, REVISION)
    old = {"steps": arrays["steps"][:, :10].copy(), "plain": arrays["plain"][:, :6].copy()}
    watch = DriftWatch.from_state(pack(KIND, 3, header, {**arrays, **old}))
    X[6_000:, 0] += 2.0
    changes, _ = learn(watch, X[4_000:], np.zeros(4_000, int), found=list)
    assert 6_000 <= changes[0].record < 6_048
