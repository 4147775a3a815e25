"""The split score is that of its description, in every number of components and both likelihoods."""

import numpy as np
import pytest
from resonance.engine.evq.split import room_for, score

from tests.engine.evq import plain_mixture
from tests.engine.evq.plain_mixture import Limits


def samples(count=60, seed=0):
    rng = np.random.default_rng(seed)
    for _ in range(count):
        bumps = int(rng.integers(1, 7))
        centres = rng.normal(size=bumps) * rng.uniform(0, 8)
        spread = rng.uniform(0.2, 2.0, size=bumps)
        own = rng.integers(bumps, size=int(rng.integers(4, 301)))
        yield np.sort(centres[own] + rng.normal(size=len(own)) * spread[own])


@pytest.mark.parametrize("limits", [Limits(), Limits(by_class=True), Limits(kmax=8, margin=0.0, crit=12.0)])
def test_the_score_is_the_plain_one(limits):
    room, split, components = room_for(300), 0, set()
    for p in samples():
        expected = plain_mixture.score(p, limits)
        np.testing.assert_allclose(score(p, len(p), limits, room), expected, rtol=1e-7)
        split += expected[0] > 0
        components.add(expected[2])
    assert split > 5
    assert len(components) > 2


def test_many_records_in_many_components_stay_numbers():
    rng = np.random.default_rng(1)
    p = np.sort(rng.integers(8, size=2000) * 5.0 + rng.normal(size=2000))
    limits = Limits(kmax=8, crit=100.0)
    np.testing.assert_allclose(score(p, 2000, limits, room_for(2000)), plain_mixture.score(p, limits), rtol=1e-7)


@pytest.mark.parametrize(
    "p", [np.full(60, 3.0), np.zeros(60), np.repeat([1.0, 2.0], 30), np.array([0.0, 1.0, 2.0, 3.0])]
)
def test_repeated_and_few_values_are_never_split(p):
    assert score(p, len(p), Limits(), room_for(60)) == (0.0, 0.0, 0, 0.0)
    assert plain_mixture.score(p, Limits())[0] == 0.0


def test_scale_and_offset_change_nothing():
    p = np.sort(
        np.concatenate([np.random.default_rng(2).normal(size=80), 9 + np.random.default_rng(3).normal(size=70)])
    )
    separation, cut, components, gain = score(p, 150, Limits(), room_for(150))
    for scale, offset in ((1e-9, 0.0), (1e12, 0.0), (1.0, 1e6)):
        found = score(p * scale + offset, 150, Limits(), room_for(150))
        assert found[2] == components
        np.testing.assert_allclose(found[0], separation, rtol=1e-6)
        np.testing.assert_allclose(found[1], cut * scale + offset, rtol=1e-6)
        np.testing.assert_allclose(found[3], gain, rtol=1e-6)
