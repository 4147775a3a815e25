"""Records of many features become what they have along the principal axes of the warm-up."""

import numpy as np
import pytest
from resonance.engine.base import MAGNITUDE
from resonance.engine.errors import RecordError, StateError
from resonance.engine.matrices import leading_eigenvectors
from resonance.engine.prepare import REVISION, Preparation
from resonance.engine.state import pack, unpack


def clouds(n=700, d=40, k=6, seed=0):
    rng = np.random.default_rng(seed)
    centres = rng.normal(size=(k, d))
    return centres[rng.integers(k, size=n)] + rng.normal(size=(n, d)) * 0.3


def unit_vectors(n=700, d=40, k=6, seed=0):
    X = clouds(n, d, k, seed)
    return X / np.linalg.norm(X, axis=1)[:, None]


def projected(X, held=500, **parameters):
    names = [f"f{i}" for i in range(X.shape[1])]
    preparation = Preparation(names, **{"warmup_records": held, "project": 16, **parameters})
    preparation.hold(X[:held])
    first = preparation.freeze()
    return preparation, np.concatenate([first, preparation.apply(X[held:])])


def literal(X, held=500, axes=16, kind="scaled"):
    """The specification, word for word, with LAPACK."""
    if kind == "unit":
        Z = X / np.linalg.norm(X, axis=1)[:, None]
        some = Z[:held]
    elif kind == "none":
        Z = X
        some = Z[:held]
    else:
        low, high = np.percentile(X[:held], [1, 99], axis=0, method="hazen")
        Z = (X - low) / np.where(high > low, high - low, 1.0)
        some = np.clip(Z[:held], -0.5, 1.5)
    mean = some.mean(axis=0)
    _, sizes, V = np.linalg.svd(some - mean, full_matrices=False)
    V = V[: min(axes, np.count_nonzero(sizes**2 > 1e-10 * sizes[0] ** 2))]
    V = V * np.sign(V[np.arange(len(V)), np.abs(V).argmax(axis=1)])[:, None]
    scores = (Z - mean) @ V.T
    low, high = np.percentile(scores[:held, 0], [1, 99], method="hazen")
    return scores / (high - low) + 0.5


@pytest.mark.parametrize(
    ("scale", "d"), [*(("warmup", d) for d in (16, 17, 40, 70, 300, 600)), ("none", 17), ("none", 300)]
)
def test_records_become_their_distances_along_the_principal_axes_of_the_scaled_features(scale, d):
    X = clouds(d=d) * (10.0 ** (np.arange(d) % 5) if scale == "warmup" else 1.0)
    _, found = projected(X, project=5, scale=scale)
    # The sixth axis and those behind it have the noise of all columns: between equals no direction is the right one.
    np.testing.assert_allclose(found, literal(X, axes=5, kind=scale), atol=1e-6 if scale == "warmup" else 1e-8)


@pytest.mark.parametrize("d", [40, 600])
def test_records_of_one_length_keep_their_angles(d):
    X = unit_vectors(d=d)
    _, found = projected(X, project=5)
    np.testing.assert_allclose(found, literal(X, axes=5, kind="unit"), atol=1e-8)
    longer = X * 7.0
    longer[500:] *= 3.0
    preparation, again = projected(longer, project=5)
    np.testing.assert_allclose(again, found, atol=1e-12)
    assert preparation.compared == 0


def test_a_few_records_of_another_length_change_nothing_in_that():
    X = unit_vectors()
    X[3] = 0.0
    X[70] *= 2.0
    preparation, found = projected(X, project=5)
    assert np.isfinite(found).all()
    assert preparation.compared == 0
    np.testing.assert_allclose(found[70], projected(unit_vectors(), project=5)[1][70], atol=0.05)


def test_one_large_feature_is_no_common_length():
    X = clouds()
    X[:, 0] += 1e6
    preparation, found = projected(X, project=5)
    assert preparation.compared
    np.testing.assert_allclose(found, literal(X, axes=5), atol=1e-6)


@pytest.mark.parametrize("d", [20, 100, 400])
def test_axes_of_clustered_eigenvalues_span_what_the_right_ones_span(d):
    rng = np.random.default_rng(d)
    turn, _ = np.linalg.qr(rng.normal(size=(d, d)))
    values = np.repeat([1.0, 0.5, 1e-3], [8, 8, d - 16])
    matrix = (turn * values) @ turn.T
    vectors, found = leading_eigenvectors((matrix + matrix.T) / 2.0, 16)
    np.testing.assert_allclose(found, values[:16], rtol=1e-12)
    np.testing.assert_allclose(vectors.T @ vectors, np.eye(16), atol=1e-12)
    np.testing.assert_allclose(vectors @ vectors.T, turn[:, :16] @ turn[:, :16].T, atol=1e-9)


@pytest.mark.parametrize(("m", "wanted"), [(60, 3), (300, 16), (500, 64)])
def test_eigenvectors_of_slowly_falling_eigenvalues(m, wanted):
    X = np.random.default_rng(m).normal(size=(m, 3 * m))
    matrix = X @ X.T
    vectors, found = leading_eigenvectors(matrix, wanted)
    expected = np.linalg.eigvalsh(matrix)[::-1][:wanted]
    np.testing.assert_allclose(found, expected, rtol=1e-6)
    assert np.trace(vectors.T @ matrix @ vectors) > (1.0 - 1e-7) * expected.sum()


@pytest.mark.parametrize(("rank", "d"), [(1, 20), (20, 300), (5, 900)])
def test_there_are_as_many_axes_as_the_warm_up_has_directions(rank, d):
    rng = np.random.default_rng(rank)
    X = rng.normal(size=(600, rank)) @ rng.normal(size=(rank, d))
    preparation, found = projected(X, scale="none")
    assert preparation.dimension == found.shape[1] == min(rank, 16)
    np.testing.assert_allclose(found, literal(X, kind="none"), atol=1e-8)


def test_features_that_are_constant_in_the_warm_up_have_no_say():
    X = clouds()
    flat = np.hstack([X, np.full((len(X), 30), 7.0)])
    flat[500:, 50] = 1e9
    names = [f"f{i}" for i in range(70)]
    preparation, found = projected(flat)
    np.testing.assert_allclose(found, projected(X)[1], atol=1e-9)
    centre, spread = preparation.to_input_units(found[0], np.zeros(16))
    np.testing.assert_array_equal(centre[40:], 7.0)
    np.testing.assert_array_equal(spread[40:], 0.0)
    assert preparation.columns == tuple(names)


def test_a_warm_up_of_equal_records_gives_one_axis():
    preparation, found = projected(np.full((600, 20), 3.0))
    np.testing.assert_array_equal(found, np.full((600, 1), 0.5))
    assert np.isfinite(preparation.apply(np.full((1, 20), 4.0))).all()


def test_outliers_of_the_warm_up_do_not_turn_the_axes():
    X = clouds()
    wild = X.copy()
    wild[[5, 90, 200], [3, 8, 21]] = 1e9, -1e7, 1e12
    calm, turned = (projected(each, project=5)[1] for each in (X, wild))
    usual = np.delete(np.arange(len(X)), [5, 90, 200])
    np.testing.assert_allclose(turned[usual], calm[usual], atol=0.1)


def test_distances_keep_their_proportions_and_the_first_axis_its_range():
    X = clouds(d=20)
    _, found = projected(X, project=20)
    low, high = np.percentile(X[:500], [1, 99], axis=0, method="hazen")
    scaled = (X - low) / (high - low)
    ends = np.percentile(found[:500, 0], [1, 99], method="hazen")
    np.testing.assert_allclose(ends[1] - ends[0], 1.0, rtol=1e-12)
    assert -0.2 < ends[0] < 0.5 < ends[1] < 1.2
    apart = [np.linalg.norm(each[:100, None] - each[None, 200:300], axis=2) for each in (scaled, found)]
    np.testing.assert_allclose(apart[1] / apart[0], np.full((100, 100), apart[1][0, 0] / apart[0][0, 0]), rtol=1e-9)


@pytest.mark.parametrize("kind", ["unit", "scaled"])
def test_centre_and_spread_come_back_in_the_features_of_the_input(kind):
    rng = np.random.default_rng(1)
    X = unit_vectors(d=50) if kind == "unit" else clouds(d=50) * 10.0 ** (np.arange(50) % 5) + 100.0
    preparation, found = projected(X)
    centre, spread = preparation.to_input_units(found[:500].mean(axis=0), found[:500].std(axis=0))
    deviation = X[:500].std(axis=0)
    assert (np.abs(centre - X[:500].mean(axis=0)) < 1e-6 * deviation + 0.02 * deviation * (kind == "scaled")).all()
    # Along the axes and beside them: together all that the features vary.
    np.testing.assert_allclose(spread, deviation, rtol=1e-6 if kind == "unit" else 0.03)
    one = found[rng.integers(500)]
    _, beside = preparation.to_input_units(one, np.zeros(16))
    assert ((beside > 0) & (beside < spread)).all()


def test_logarithms_and_categories_are_projected_too():
    rng = np.random.default_rng(3)
    X = np.column_stack([rng.integers(3, size=600), np.exp(clouds(600, 20, 4)), rng.normal(size=(600, 3))])
    names = ["kind", *(f"x{i}" for i in range(23))]
    preparation = Preparation(
        names, log1p=names[1:21], categories={"kind": ["a", "b", "c"]}, warmup_records=500, project=26
    )
    preparation.hold(X[:500])
    first = preparation.freeze()
    # The three columns of the category always add up to 1.
    assert first.shape == (500, 25)
    centre, _ = preparation.to_input_units(first[17], np.zeros(25))
    np.testing.assert_allclose(centre[:3], np.eye(3)[int(X[17, 0])], atol=1e-9)
    np.testing.assert_allclose(centre[3:], X[17, 1:], rtol=1e-9)


def test_auto_projects_many_columns_on_16_axes_with_500_records():
    few = Preparation([f"f{i}" for i in range(32)], project="auto")
    many = Preparation([f"f{i}" for i in range(33)], project="auto")
    assert (few.dimension, few.wanted, many.dimension, many.wanted) == (32, 200, 16, 500)
    names = [f"f{i}" for i in range(100)]
    assert Preparation(names, project="auto", scale="none").ready
    assert Preparation(names, project="auto", scale="given", ranges=dict.fromkeys(names, (0, 1))).ready
    assert Preparation(names, project="auto", clip=True).dimension == 100
    assert Preparation(names, project="auto", warmup_records=60).wanted == 60
    assert (Preparation(names, project=3, scale="none").wanted, Preparation(names).dimension) == (500, 100)
    in_words = Preparation(["kind", *names[:26]], project="auto", categories={"kind": list("abcdefg")})
    assert in_words.dimension == 16


def test_a_record_too_far_along_an_axis_is_refused_by_it():
    preparation, _ = projected(clouds() * 0.01, scale="none")
    far = np.full((2, 40), 0.5)
    far[1, ::2] = MAGNITUDE
    problem = preparation.check(far)
    assert list(problem) == [1]
    assert problem[1].startswith("beyond 1e+150 along principal axis ")
    before = preparation.state()
    with pytest.raises(RecordError, match="record 1 of the batch: beyond"):
        preparation.apply(far)
    with pytest.raises(RecordError, match="f7 is missing"):
        preparation.apply(np.where(np.arange(40) == 7, np.nan, far))
    assert preparation.state() == before


def test_a_warm_up_of_enormous_numbers_can_be_projected():
    X = clouds() * 1e149
    _, found = projected(X, scale="none")
    assert (np.abs(found) <= MAGNITUDE).all()
    X[7, 3] = -MAGNITUDE
    assert np.isfinite(projected(X)[1]).all()


def test_a_state_of_the_first_revision_is_read():
    X = clouds(d=4)
    preparation, _ = projected(X, held=200, project=0)
    header, arrays = unpack(preparation.state(), "prepare", REVISION)
    del header["project"]
    header["warmup_records"] = 200
    loaded = Preparation.from_state(pack("prepare", 1, header, arrays))
    assert loaded.apply(X[200:]).tobytes() == preparation.apply(X[200:]).tobytes()


@pytest.mark.parametrize(
    "changed",
    [
        *({"axes": np.zeros((16, 39))}, {"axes": np.zeros((17, 40))}, {"axes": np.zeros((0, 40))}),
        *({"axes": np.full((16, 40), np.nan)}, {"axes": np.full((16, 40), 2.0)}, {"axes_centre": np.zeros(39)}),
        *({"axes_centre": np.full(40, np.inf)}, {"axes_rest": np.full(40, -1.0)}, {"axes_rest": np.zeros((40, 1))}),
        *({"axes_scale": np.array([0.0, 0.0])}, {"axes_scale": np.array([1.0, np.nan])}, {"axes_scale": np.ones(3)}),
        {"axes_scale": None},
    ],
)
def test_a_state_with_axes_that_no_warm_up_gives_is_refused(changed):
    preparation, _ = projected(clouds())
    header, arrays = unpack(preparation.state(), "prepare", REVISION)
    changed = {name: array for name, array in {**arrays, **changed}.items() if array is not None}
    with pytest.raises(StateError, match="cannot be read"):
        Preparation.from_state(pack("prepare", REVISION, header, changed))
