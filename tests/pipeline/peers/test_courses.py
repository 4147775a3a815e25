"""A machine is named whose level is unlike its peers', though each has its own and all share a daily wave."""

import numpy as np
import pytest
from resonance.pipeline.peers.comparison import compare

from tests.night import seeds

FEATURES = ["temp", "pressure", "flow", "vibration"]
MACHINES, BROKEN, MINUTES, BEGIN = 14, 2, 4_320, 1_440
NIGHT, BY_DAY, OWN, NOISE = np.array([[55, 6.2, 120, 2.1], [9, 0.5, 35, 0.5], [1, 0.15, 6, 0.2], [0.6, 0.08, 2, 0.12]])


def fleet(seed, factor=1.3):
    """Records of machines, one a minute for three days; shape (machines, minutes, features)."""
    rng = np.random.default_rng(seed)
    rows = NIGHT + OWN * rng.normal(size=(MACHINES, 1, 4)) + NOISE * rng.normal(size=(MACHINES, MINUTES, 4))
    ahead = rng.normal(0, 0.15, size=(MACHINES, 1))
    rows += BY_DAY * (0.5 + 0.5 * np.sin(2 * np.pi * np.arange(MINUTES) / 1_440 + ahead))[:, :, np.newaxis]
    rows[BROKEN, BEGIN:, 1] *= factor
    return rows


def seen(rows, minute, unit=60_000):
    """What a comparison at a minute says: stream, feature and change."""
    last = rows[:, max(minute - 1_600, 0) : minute]
    minutes = last.shape[1]
    stream = np.tile(np.arange(MACHINES), minutes)
    time = unit * np.repeat(np.arange(minutes), MACHINES)
    found = compare(last.transpose(1, 0, 2).reshape(-1, 4), stream, MACHINES, time).unlike
    return {(each.stream, FEATURES[each.feature], each.change) for each in found}


LOOKS = range(BEGIN + 600, MINUTES + 1, 360)
"""From the time on from which what began is in all that is compared, four a day."""


@pytest.mark.parametrize("seed", seeds(5, night=20))
def test_a_lasting_step_of_one_feature_of_one_machine_is_named_at_any_hour(seed):
    found = [seen(fleet(seed), minute) for minute in LOOKS]
    # With the wave in the values there is nothing in more than a quarter of the looks.
    assert found == len(found) * [{(BROKEN, "pressure", "high")}]


@pytest.mark.parametrize("seed", seeds(5, night=20))
def test_of_healthy_machines_none_is(seed):
    rows = fleet(seed, factor=1.0)
    assert not any(seen(rows, minute) for minute in LOOKS)


def resting(rows):
    rows[5, 2_400:] = NIGHT + NOISE * np.random.default_rng(3).normal(size=rows[5, 2_400:].shape)


def in_another_zone(rows):
    rows[5] = np.roll(rows[5], 480, axis=0)


@pytest.mark.parametrize("change", [resting, in_another_zone])
def test_a_machine_that_does_not_follow_the_wave_is_usual_as_it_is_without_times(change):
    for seed in range(5):
        rows = fleet(seed, factor=1.0)
        change(rows)
        for minute in LOOKS:
            assert seen(rows, minute) == seen(rows, minute, unit=0)


def test_a_clock_that_is_wrong_changes_nothing_for_the_others():
    rows = fleet(1)[:, 2_000:3_600]
    stream = np.tile(np.arange(MACHINES), 1_600)
    time = 60_000 * np.repeat(np.arange(1_600), MACHINES)
    for wrong in (-(10**12), 10**13):
        shifted = np.where(stream == 7, time + wrong, time)
        found = compare(rows.transpose(1, 0, 2).reshape(-1, 4), stream, MACHINES, shifted).unlike
        assert [(each.stream, each.feature, each.change) for each in found] == [(BROKEN, 1, "high")]
