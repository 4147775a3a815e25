"""The scale of sparse entries: the bits of a dense preparation, and nothing that moves zero."""

import numpy as np
import pytest
from resonance.engine.errors import ParameterError
from resonance.engine.prepare import Preparation
from resonance.engine.prepare.sparse_scale import EVERY, SparseScale
from resonance.engine.prepare.transform import value_problem

NAMES = ["a", "b", "c", "d"]
RANGES = {EVERY: (0.0, 0.7), "b": (0.0, 3.0), "c": (0.0, 1e-3)}


def prepared(scale, data):
    """The entries of one record with all features, prepared."""
    return scale.run(np.array(data), np.arange(len(data)), *scale.factors(NAMES))


@pytest.mark.parametrize("clip", [True, False])
@pytest.mark.parametrize("log1p", [[], ["b", "d"], [EVERY]])
@pytest.mark.parametrize("scale", ["none", "given"])
def test_entries_get_the_bits_that_they_have_in_a_dense_record(scale, log1p, clip):
    rng = np.random.default_rng(0)
    given = RANGES if scale == "given" else {}
    sparse = SparseScale(scale, log1p, given, clip)
    dense, unclipped = (
        Preparation(
            NAMES,
            scale="given" if scale == "given" else "none",
            log1p=NAMES if EVERY in log1p else log1p,
            ranges={name: given.get(name, given[EVERY]) for name in NAMES} if given else None,
            clip=each,
        )
        for each in (clip, False)
    )
    rows = rng.normal(size=(50, 4)) * 0.4 + 0.3
    values = unclipped.apply(rows)
    outside = 0
    for row, expected in zip(rows, dense.apply(rows), strict=True):
        found, faults, beyond, faulty = prepared(sparse, row)
        assert np.array_equal(found, expected)
        assert (faulty, faults.any()) == (0, False)
        outside += beyond
        centre, spread = sparse.to_input_units(NAMES, found, found * 0.1)
        assert [centre.tolist(), spread.tolist()] == [
            part.tolist() for part in dense.to_input_units(expected, expected * 0.1)
        ]
    ranged = clip or scale == "given"
    assert outside == (np.count_nonzero((values < 0.0) | (values > 1.0)) if ranged else 0)
    assert not ranged or outside > 20
    assert sparse.ranged == ranged
    assert not prepared(sparse, np.zeros(4))[0].any()
    assert SparseScale(**sparse.settings()).settings() == sparse.settings()


def test_what_cannot_be_prepared_is_named():
    scale = SparseScale("given", ["a"], RANGES)
    data = [-1.0, 1e200, 1e149, 0.5]
    _, faults, _, faulty = prepared(scale, data)
    assert ((faults > 0).tolist(), faulty) == ([True, True, True, False], 3)
    _, width = scale.factors(NAMES)
    text = [value_problem(*each) for each in zip(NAMES[:3], data, width.tolist(), faults.tolist(), strict=False)]
    assert text == [
        "a is -1.0: log1p needs a value above -1",
        "b is 1e+200: beyond 1e+150",
        "c is 1e+149: beyond 1e+150 once scaled with width 0.001",
    ]


@pytest.mark.parametrize(
    ("given", "name"),
    [
        ({"scale": "warmup"}, "scale"),
        ({"scale": "given"}, "ranges"),
        ({"scale": "given", "ranges": {"a": (0.0, 1.0)}}, "ranges"),
        ({"scale": "given", "ranges": {EVERY: (1.0, 2.0)}}, "ranges.*"),
        ({"scale": "given", "ranges": {EVERY: (0.0, 1.0), "a": (0.0, 0.0)}}, "ranges.a"),
        ({"scale": "given", "ranges": {EVERY: (0.0, 1e200)}}, "ranges.*"),
        ({"ranges": {EVERY: (0.0, 1.0)}}, "ranges"),
    ],
)
def test_what_has_no_meaning_for_sparse_records_is_refused(given, name):
    with pytest.raises(ParameterError) as refused:
        SparseScale(**given)
    assert refused.value.name == name
