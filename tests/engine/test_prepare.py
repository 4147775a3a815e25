"""What a stream's features become before an engine sees them."""

import re
from functools import partial

import numpy as np
import pytest
from resonance.engine.base import MAGNITUDE
from resonance.engine.errors import ParameterError, RecordError, StateError
from resonance.engine.prepare import REVISION, Preparation
from resonance.engine.state import pack, unpack

from tests.engine import test_steps
from tests.engine.test_principal_axes import clouds, unit_vectors

NAN = np.nan


def stream(n=1200, d=4, seed=0):
    return np.random.default_rng(seed).normal(size=(n, d)) * 10.0 ** np.arange(d) + 3.0


def percentiles(X):
    return np.percentile(X, [1, 99], axis=0, method="hazen")


warmed = partial(test_steps.warmed, robust=False)


def test_the_first_to_the_99th_percentile_of_the_warmup_becomes_0_to_1():
    X = stream()
    preparation, first = warmed(X)
    low, high = percentiles(X[:200])
    expected = (X - low) / (high - low)
    np.testing.assert_allclose(first, expected[:200], rtol=1e-12, atol=1e-14)
    np.testing.assert_allclose(preparation.apply(X[200:]), expected[200:], rtol=1e-12, atol=1e-14)
    assert preparation.outside == np.count_nonzero((expected[200:] < 0) | (expected[200:] > 1))
    assert preparation.compared == 1000 * 4


@pytest.mark.parametrize("n", [1, 2, 3, 50, 99, 100, 101, 200, 777])
def test_percentiles_of_any_number_of_records(n):
    X = stream(n, 2, seed=n)
    _, first = warmed(X, held=n)
    low, high = percentiles(X)
    np.testing.assert_allclose(first, (X - low) / (high - low if n > 1 else 1.0), rtol=1e-9, atol=1e-12)


def test_nothing_is_applied_before_the_scale_is_frozen():
    preparation = Preparation(["a"], warmup_records=3)
    assert not preparation.ready
    assert preparation.wanted == 3
    preparation.hold([[1.0], [2.0]])
    assert preparation.wanted == 1
    with pytest.raises(RuntimeError, match="1 more records are wanted"):
        preparation.apply([[1.0]])
    with pytest.raises(ValueError, match="2 records to hold, 1 are wanted"):
        preparation.hold([[1.0], [2.0]])
    preparation.hold([[3.0]])
    assert preparation.freeze().shape == (3, 1)
    assert preparation.ready
    assert preparation.wanted == 0
    with pytest.raises(RuntimeError, match="frozen already"):
        preparation.freeze()


def test_a_constant_feature_has_width_1_and_begins_at_0():
    preparation, first = warmed(np.full((50, 2), 7.5), held=50)
    assert not first.any()
    np.testing.assert_array_equal(preparation.apply([[8.5, 6.5]]), [[1.0, -1.0]])


def test_a_range_too_narrow_for_its_own_warmup_leaves_the_feature_as_it_is():
    X = np.tile([[0.0], [5e-324]], (100, 1))
    X[17] = 1e149
    _, first = warmed(X)
    np.testing.assert_array_equal(first, X)


def test_values_are_clipped_for_engines_defined_on_0_to_1():
    X = stream()
    plain, _ = warmed(X)
    clipped, first = warmed(X, clip=True)
    np.testing.assert_array_equal(clipped.apply(X[200:]), np.clip(plain.apply(X[200:]), 0, 1))
    assert (clipped.outside, first.min()) == (plain.outside, 0.0)
    assert not np.signbit(first).any()
    assert first.max() == 1.0


def test_scale_none_changes_nothing_and_needs_no_warmup():
    X = stream()
    preparation = Preparation(["a", "b", "c", "d"], scale="none")
    assert preparation.ready
    np.testing.assert_array_equal(preparation.apply(X), X)
    assert preparation.outside == preparation.compared == 0


def test_scale_given_maps_the_named_ranges():
    preparation = Preparation(
        ["cpu", "bytes"], scale="given", ranges={"cpu": (0, 100), "bytes": (0, 7)}, log1p=["bytes"]
    )
    np.testing.assert_allclose(preparation.apply([[50, 7.0], [200, 0.0]]), [[0.5, 1.0], [2.0, 0.0]], rtol=1e-15)
    assert preparation.outside == 1


def test_log1p_is_taken_before_the_scale():
    X = np.abs(stream(d=2))
    _, first = warmed(X, log1p=["f1"])
    logs = np.log1p(X[:200, 1])
    low, high = percentiles(logs)
    np.testing.assert_allclose(first[:, 1], (logs - low) / (high - low), rtol=1e-12, atol=1e-14)


def test_categories_become_columns_of_0_and_1():
    preparation = Preparation(["country", "x"], scale="none", categories={"country": ["DE", "FR", "IT"]})
    assert preparation.columns == ("country=DE", "country=FR", "country=IT", "x")
    np.testing.assert_array_equal(
        preparation.apply([[1, 0.5], [-1, 0.25], [2, 9]]), [[0, 1, 0, 0.5], [0, 0, 0, 0.25], [0, 0, 1, 9]]
    )


def test_categories_are_not_scaled():
    X = np.column_stack([np.zeros(200), stream(200, 1)])
    preparation = Preparation(["kind", "x"], categories={"kind": ["a", "b"]})
    preparation.hold(X)
    np.testing.assert_array_equal(preparation.freeze()[:, :2], np.tile([1.0, 0.0], (200, 1)))
    np.testing.assert_array_equal(preparation.apply([[1, 0.0]])[0, :2], [0.0, 1.0])


@pytest.mark.parametrize(
    ("given", "X", "problems"),
    [
        ({"categories": {"c": ["x"]}}, [[1, 2, 0], [1, NAN, 0], [1, 2, NAN]], {1: "b is missing", 2: "c is missing"}),
        (
            {"log1p": ["a"]},
            [[-0.5, 1, 1], [-1.0, 1, 1], [-2.0, 1, 1]],
            {1: "a is -1.0: log1p needs a value above -1", 2: "a is -2.0: log1p needs a value above -1"},
        ),
        (
            {"scale": "given", "ranges": {"a": (0, 1e-9), "b": (0, 1), "c": (0, 1)}},
            [[0.5, -MAGNITUDE, 1], [0.5, np.inf, 1], [0.5, 2e150, 1], [1e149, 0.5, 1]],
            {
                1: "b is inf: not a finite number",
                2: "b is 2e+150: beyond 1e+150",
                3: "a is 1e+149: beyond 1e+150 once scaled with width 1e-09",
            },
        ),
    ],
    ids=["missing", "no logarithm", "too large to square"],
)
def test_a_feature_that_cannot_be_used_is_refused_by_name(given, X, problems):
    preparation = Preparation(["a", "b", "c"], **{"scale": "none", **given})
    with pytest.raises(RecordError, match=f"record 1 of the batch: {re.escape(problems[1])}"):
        preparation.apply(X)
    assert preparation.check(X) == problems


def test_a_missing_feature_becomes_the_mean_of_the_warmup():
    X = stream(400, 2)
    X[::7, 1] = NAN
    preparation, first = warmed(X, missing="mean")
    known = X[:200, 1][~np.isnan(X[:200, 1])]
    low, high = percentiles(known)
    mean = (known.mean() - low) / (high - low)
    np.testing.assert_allclose(first[::7, 1], mean, rtol=1e-12)
    np.testing.assert_allclose(preparation.apply([[0.0, NAN]])[0, 1], mean, rtol=1e-12)


def test_a_mean_needs_a_warmup_also_without_a_scale():
    preparation = Preparation(["a"], scale="none", missing="mean", warmup_records=2)
    assert not preparation.ready
    preparation.hold([[1.0], [4.0]])
    np.testing.assert_array_equal(preparation.freeze(), [[1.0], [4.0]])
    np.testing.assert_array_equal(preparation.apply([[NAN]]), [[2.5]])


def test_a_feature_that_the_whole_warmup_lacks_counts_as_0_with_width_1():
    preparation, first = warmed(np.full((20, 1), NAN), held=20, missing="mean")
    assert not first.any()
    np.testing.assert_array_equal(preparation.apply([[NAN], [3.0]]), [[0.0], [3.0]])


def test_a_missing_feature_becomes_a_number_in_the_inputs_units():
    preparation = Preparation(["a"], scale="given", ranges={"a": (0, 10)}, missing=5)
    np.testing.assert_array_equal(preparation.apply([[NAN]]), [[0.5]])
    X = np.array([[NAN]] * 50 + [[100.0]] * 50)
    _, first = warmed(X, held=100, missing=0.0)
    np.testing.assert_array_equal(first, [[0.0]] * 50 + [[1.0]] * 50)


def test_a_missing_category_counts_as_an_unknown_value_unless_it_is_refused():
    preparation = Preparation(["kind"], scale="none", categories={"kind": ["a", "b"]}, missing=0)
    np.testing.assert_array_equal(preparation.apply([[NAN], [0]]), [[0, 0], [1, 0]])


def test_a_logarithm_makes_large_values_usable():
    preparation = Preparation(["a"], scale="none", log1p=["a"])
    np.testing.assert_allclose(preparation.apply([[1e300]]), np.log1p([[1e300]]), rtol=1e-14)


def test_a_refused_batch_leaves_everything_as_it_was():
    preparation, _ = warmed(stream())
    before = preparation.state()
    with pytest.raises(RecordError):
        preparation.apply([[1e6, 1, 1, 1], [1, NAN, 1, 1]])
    assert preparation.state() == before
    waiting = Preparation(["a"])
    with pytest.raises(RecordError):
        waiting.hold([[1.0], [NAN]])
    assert waiting.wanted == 200


def test_a_record_of_another_width_is_refused():
    with pytest.raises(RecordError, match=r"raw records have shape \(n, 2\), these \(1, 3\)"):
        Preparation(["a", "b"], scale="none").apply([[1, 2, 3]])


def test_the_callers_arrays_are_neither_kept_nor_changed():
    X = stream()
    original = X.copy()
    preparation, _ = warmed(X, missing=0.0)
    batch = X[200:300]
    out = preparation.apply(batch)
    np.testing.assert_array_equal(X, original)
    assert not np.shares_memory(out, batch)
    waiting = Preparation(["a"], warmup_records=1)
    row = np.array([[2.0]])
    waiting.hold(row)
    row[:] = 5.0
    np.testing.assert_array_equal(waiting.freeze(), [[0.0]])
    frozen = batch.copy()
    frozen.flags.writeable = False
    np.testing.assert_array_equal(preparation.apply(frozen), out)
    np.testing.assert_array_equal(preparation.apply(np.asfortranarray(batch)), out)


FORMS = {
    "logarithms": (np.abs(stream(700)), {"log1p": ["f0"]}),
    "clipped": (np.abs(stream(700)), {"log1p": ["f1"], "clip": True}),
    "rounded": (test_steps.rounded(700), {"robust": True}),
    "axes": (clouds(), {"project": 16}),
    "angles": (unit_vectors(), {"project": "auto"}),
}
"""Records and what is done to them."""


def form(name):
    """Records of which some features are missing, and what makes a preparation for them."""
    X, given = FORMS[name]
    X = X.copy()
    X[::11, 2] = NAN
    return X, partial(Preparation, [f"f{i}" for i in range(X.shape[1])], warmup_records=300, missing="mean", **given)


@pytest.mark.parametrize("name", FORMS)
def test_every_division_into_batches_gives_the_same_bits(name):
    X, make = form(name)
    expected = None
    for size in (1000, 7, 1):
        parts = make()
        for start in range(0, 300, size):
            parts.hold(X[start : min(start + size, 300)])
        got = [parts.freeze(), *(parts.apply(X[i : i + size]) for i in range(300, len(X), size))]
        found = np.concatenate(got).tobytes(), parts.state()
        expected = expected or found
        assert found == expected


@pytest.mark.parametrize("held", [0, 1, 120, 300])
@pytest.mark.parametrize("name", FORMS)
def test_a_state_saved_at_any_moment_goes_on_with_the_same_bits(name, held):
    X, make = form(name)

    def finish(preparation):
        if preparation.wanted:
            preparation.hold(X[held:300])
        first = b"" if preparation.ready else preparation.freeze().tobytes()
        rest = preparation.apply(X[300:])
        text = preparation.to_input_units(rest[0], np.full(rest.shape[1], 0.1))
        return first, rest.tobytes(), preparation.state(), *(part.tobytes() for part in text)

    preparation = make()
    preparation.hold(X[:held])
    if held == 300:
        preparation.freeze()
    loaded = Preparation.from_state(preparation.state())
    assert (loaded.state(), loaded.columns) == (preparation.state(), preparation.columns)
    assert finish(loaded) == finish(preparation)
    assert Preparation.from_state(preparation.frozen_state()).outside == 0


def test_states_of_something_else_are_refused():
    with pytest.raises(StateError, match="state of 'caea', not of 'prepare'"):
        Preparation.from_state(pack("caea", 1, {}, {}))
    with pytest.raises(StateError, match="cannot be read"):
        Preparation.from_state(pack("prepare", 1, {"features": ["a"]}, {}))


@pytest.mark.parametrize("held", [0, 30])
def test_a_state_that_holds_more_records_than_its_warm_up_wants_is_refused(held):
    preparation = Preparation(["a", "b"], warmup_records=30)
    if held:
        preparation = warmed(stream(30, 2), held=30)[0]
    header, arrays = unpack(preparation.state(), "prepare", REVISION)
    for count in (1, 31) if held else (31,):
        with pytest.raises(StateError, match=f"{count} records held"):
            Preparation.from_state(pack("prepare", REVISION, header, {**arrays, "held": np.zeros((count, 2))}))


@pytest.mark.parametrize("name", ["low", "width", "fill", "pivot", "bend", "step"])
@pytest.mark.parametrize("value", [np.nan, np.inf, -np.inf, -1.0, 0.0])
def test_a_state_with_columns_that_no_warmup_gives_is_refused(name, value):
    made = Preparation(["a", "b"], robust=True, missing="mean", warmup_records=10)
    made.hold(np.random.default_rng(0).random((10, 2)) ** 9)
    made.freeze()
    header, arrays = unpack(made.state(), "prepare", REVISION)
    changed = arrays[name].copy()
    changed[1] = value
    state = pack("prepare", REVISION, header, {**arrays, name: changed})
    if value in (0.0, -1.0) and not (name == "width" or (value < 0.0 and name in ("bend", "step"))):
        assert Preparation.from_state(state).state() == state
        return
    with pytest.raises(StateError, match=rf"ValueError\('{name}"):
        Preparation.from_state(state)
    with pytest.raises(StateError, match=rf"{name} of shape \(1,\)"):
        Preparation.from_state(pack("prepare", REVISION, header, {**arrays, name: arrays[name][:1]}))


def test_centre_and_spread_come_back_in_the_inputs_units():
    X = np.abs(stream(d=2))
    preparation, first = warmed(X, log1p=["f1"])
    centre, spread = preparation.to_input_units(first[17], np.array([0.1, 0.01]))
    np.testing.assert_allclose(centre, X[17], rtol=1e-12)
    np.testing.assert_allclose(spread[0], 0.1 * np.diff(percentiles(X[:200, 0]))[0], rtol=1e-12)
    nudged, _ = preparation.to_input_units(first[17] + [0, 1e-7], np.zeros(2))
    np.testing.assert_allclose(spread[1], (nudged[1] - X[17, 1]) / 1e-7 * 0.01, rtol=1e-5)


def test_units_of_categories_and_of_logarithms_at_the_ends():
    preparation = Preparation(["kind", "x"], scale="none", categories={"kind": ["a", "b"]}, log1p=["x"])
    for value in (1e-9, -0.999, 0.0, 1e290):
        row = preparation.apply([[1, value]])[0]
        centre, spread = preparation.to_input_units(row, np.ones(3))
        np.testing.assert_allclose(centre, [0, 1, value], rtol=1e-11)
        assert np.isfinite(spread).all()
    centre, spread = preparation.to_input_units(np.array([0.25, 0.75, 5000.0]), np.full(3, 2.0))
    assert np.isfinite(centre).all()
    assert np.isfinite(spread).all()
    np.testing.assert_array_equal(centre[:2], [0.25, 0.75])


@pytest.mark.parametrize(
    ("parameters", "text"),
    [
        ({"features": []}, "features = []: must be at least one name"),
        ({"features": ["a", "a"]}, "each of them once"),
        ({"scale": "minmax"}, "scale = 'minmax': must be one of warmup, none, given"),
        ({"warmup_records": 0}, "warmup_records = 0: must be an integer from 1 to 1,000,000"),
        ({"warmup_records": 2.5}, "an integer from 1"),
        ({"missing": "median"}, "missing = 'median': must be reject, mean or a number"),
        ({"missing": NAN}, "missing = nan: must be a finite number"),
        ({"missing": True}, "missing = True"),
        ({"log1p": ["latency"]}, "did you mean latency_ms?"),
        ({"log1p": ["cpu"], "missing": -1}, "above -1, because log1p is taken of it"),
        ({"categories": {"cpu": []}}, "categories.cpu = []: must be at least one value"),
        ({"categories": {"cpu": ["a"]}, "log1p": ["cpu"]}, "a feature without log1p and without a range"),
        ({"ranges": {"cpu": (0, 1)}}, "absent with scale = warmup, or scale given"),
        ({"scale": "given", "ranges": {"cpu": (0, 1)}}, "a range for every feature: latency_ms has none"),
        (
            {"scale": "given", "ranges": {"cpu": (1, 1), "latency_ms": (0, 1)}},
            "ranges.cpu = (1, 1): must be two numbers",
        ),
        ({"scale": "given", "ranges": {"cpu": (-2, 1), "latency_ms": (0, 1)}, "log1p": ["cpu"]}, "above -1"),
        ({"scale": "given", "ranges": {"cpu": (0, np.inf), "latency_ms": (0, 1)}}, "a finite number"),
        ({"project": -1}, "project = -1: must be auto, or an integer from 0 to 64"),
        ({"project": 65}, "auto, or an integer from 0 to 64"),
        ({"project": 2.5}, "auto, or an integer"),
        ({"project": True}, "auto, or an integer"),
        ({"project": "all"}, "project = 'all': must be auto, or an integer"),
        ({"project": 3}, "auto, or at most 2, the columns that a record has before it is projected"),
        ({"project": 1, "clip": True}, "0 or auto, because the engine is defined on [0, 1] alone"),
    ],
)
def test_a_parameter_out_of_range_is_named_with_what_is_allowed(parameters, text):
    with pytest.raises(ParameterError, match=re.escape(text)):
        Preparation(**{"features": ["latency_ms", "cpu"], **parameters})
