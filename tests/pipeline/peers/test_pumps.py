"""A pump that wears out is named at all times since, though pumps alternate between kinds of work, and it alone."""

import numpy as np
import pytest
from resonance.pipeline.peers import profiles
from resonance.pipeline.peers.comparison import compare

from tests.night import at_night
from tests.pipeline.peers.pumps import FEATURES, WORN, fleet, until

PUMPS = 24
USUAL = (3.0, 6.0)
"""Vibration that no healthy pump has in its first kinds of work, and twice as much."""
THIRD = 11.0
"""Day on which the third kind of work begins: for half a day after it few have it."""


def compared(pumps, day):
    return compare(*until(pumps, day, profiles.RECENT * profiles.LONGER), PUMPS)


@pytest.mark.parametrize("begin", [2.0, at_night(2.5)])
@pytest.mark.parametrize(("seed", "ramp"), [(4, False), (5, True)])
def test_the_worn_pump_is_named_at_all_times_since_and_no_other_at_any(seed, ramp, begin):
    pumps = fleet(seed, third=THIRD, ramp=ramp)
    for day in np.arange(begin, 16.01, 1.0):
        found, count, kinds = compared(pumps, day)
        assert count >= PUMPS - 4
        names = {each.stream for each in found}
        # It wears from day 5 to day 8, and is compared by its older records, too.
        if day >= 9.5 and not THIRD <= day <= THIRD + 0.5:
            assert names == {WORN}, day
            assert {FEATURES[each.feature] for each in found if each.change == "high"} & {"vibration", "current"}
        else:
            assert names <= ({WORN} if day > 5.0 else set()), day
        assert len(kinds) == (2 if day <= THIRD else 3) or day <= THIRD + 1.0


def test_what_is_found_in_a_kind_of_work_says_in_which():
    pumps = fleet(4, third=THIRD)
    found, _, kinds = compared(pumps, 10.0)
    idle, running = kinds
    assert [each.side for each in (*idle, *running)] == ["up to", "above"]
    assert idle[0].feature == running[0].feature
    assert idle[0].value == running[0].value
    (vibration,) = [each for each in found if FEATURES[each.feature] == "vibration"]
    assert vibration.where == running
    assert vibration.low < vibration.median < vibration.high < USUAL[0]
    assert vibration.value > USUAL[1]


def test_since_is_within_the_kind_of_work_and_no_older_than_it():
    pumps = fleet(4, wears=(5.0, 5.01), third=THIRD)
    for day in (9.0, 12.5, 14.0):
        seen = np.flatnonzero(pumps.day < day)[-1_600 * PUMPS :]
        rows, stream, days = pumps.rows[seen], pumps.stream[seen], pumps.day[seen]
        found, _, _ = compare(rows, stream, PUMPS)
        assert found
        for each in found:
            inside = (stream == WORN) & ~np.isnan(rows[:, each.feature])
            inside[np.flatnonzero(stream == WORN)[:-1_600]] = False
            for feature, side, value in each.where:
                inside &= rows[:, feature] > value if side == "above" else rows[:, feature] <= value
            own = np.flatnonzero(inside)
            assert each.row in own
            assert each.is_first == (each.row == own[0]) == (day > 10.0)
            # It wore out in half an hour; a block has 20 records.
            assert each.is_first or abs(np.count_nonzero(days[own] < 5.0) - np.searchsorted(own, each.row)) < 20


def test_a_pump_that_rests_and_one_that_runs_seldom_are_healthy():
    pumps = fleet(4, third=20.0, wears=(20.0, 21.0))
    for day in np.arange(11.0, 16.01, 0.5):
        assert compared(pumps, day).unlike == []


@pytest.mark.parametrize("work", [0, 1])
def test_a_pump_whose_last_record_is_repeated_is_named_whatever_it_did_then(work):
    rows, stream = until(fleet(4), 4.0, 1_600)
    rows = rows[:, :5]
    own = stream == 9
    last = rows[own & ~np.isnan(rows).any(axis=1) & ((rows[:, 0] > 700.0) == work)][-1]
    rows[own] = np.where(np.isnan(rows[own]), np.nan, last)
    unlike = compare(rows, stream, PUMPS).unlike
    assert {(each.stream, each.change) for each in unlike} == {(9, "varies less")}
    assert {FEATURES[each.feature] for each in unlike} >= {"rpm", "vibration", "temp"}
    # Where all stand still while they rest it is no news.
    resting = rows[:, 0] < 700.0
    rows[resting] = np.where(np.isnan(rows[resting]), np.nan, [0.0, 0.1, 0.5, 30.0, 1.0])
    rows[own] = [0.0, 0.1, 0.5, 30.0, 1.0]
    assert compare(rows, stream, PUMPS).unlike == []


def test_a_pump_that_breaks_in_all_kinds_of_work_is_named_without_them():
    pumps = fleet(4)
    rows, stream = until(pumps, 4.0, 1_600)
    rows[stream == 9, 4] = rows[stream == 9, 4] * 14.5 + 100
    found, _, kinds = compare(rows, stream, PUMPS)
    assert len(kinds) == 2
    assert [(each.stream, FEATURES[each.feature], each.change, each.where) for each in found] == [
        (9, "pressure", "high", ())
    ]


def test_the_order_of_streams_and_the_units_of_features_change_nothing():
    rows, stream = until(fleet(4), 14.0, 1_600)
    found, _, kinds = compare(rows, stream, PUMPS)
    order = np.random.default_rng(1).permutation(PUMPS)
    other = compare(rows, order[stream], PUMPS)
    assert other.kinds == kinds
    assert {each._replace(stream=order[each.stream]) for each in found} == set(other.unlike)
    factors = np.array([2.0**-40, 2.0**300, 1_000.0, 1.0, 2.0**-3, 1.0])
    scaled = compare(rows * factors, stream, PUMPS)
    assert [(each[:3], [condition[:2] for condition in each.where]) for each in scaled.unlike] == [
        (each[:3], [condition[:2] for condition in each.where]) for each in found
    ]
    np.testing.assert_allclose([each.far for each in scaled.unlike], [each.far for each in found])
