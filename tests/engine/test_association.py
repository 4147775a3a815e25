"""Which flags and categories go together with other features, against a literal analysis of variance."""

import numpy as np
import pytest
from resonance.engine.prepare.columns import _explained, _ranks, go_together
from scipy.stats import f_oneway, rankdata

RNG = np.random.default_rng


def test_what_a_grouping_explains_follows_from_the_f_of_an_analysis_of_variance():
    group = RNG(0).integers(4, size=200)
    column = RNG(1).normal(size=200) + 0.5 * group
    f = f_oneway(*(column[group == g] for g in range(4))).statistic
    assert _explained([group], column[:, None]) == pytest.approx((f - 1) * 3 / (f * 3 + 196))


def test_ranks_are_those_of_equal_values_together():
    column = RNG(0).integers(9, size=100).astype(float)
    np.testing.assert_array_equal(_ranks(column), rankdata(column) - 1.0)


def test_flags_that_follow_nothing_go_together_with_nothing():
    X = RNG(0).random((200, 8)) < 0.5
    columns = [*X.T.astype(float), RNG(1).normal(size=200)]
    assert go_together(columns, range(8)) == set()


@pytest.mark.parametrize("values", [2, 5, 60])
def test_a_category_goes_together_with_a_number_that_it_shifts_and_with_a_category_that_it_decides(values):
    kind = RNG(0).integers(values, size=400)
    noise = RNG(1).integers(3, size=400).astype(float)
    number = RNG(2).permutation(values)[kind] + 0.3 * RNG(3).normal(size=400)
    assert go_together([kind.astype(float), noise, np.exp(number)], [0, 1]) == {0}
    assert go_together([kind.astype(float), noise, (kind % 2).astype(float)], [0, 1]) == {0}


def test_one_value_for_each_record_explains_nothing():
    assert go_together([np.arange(50.0), RNG(0).normal(size=50)], [0]) == set()
