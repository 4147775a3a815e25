"""What differs by next to nothing is no more than info."""

import pytest
from resonance.pipeline.incidents.differences import STEPS, is_little
from resonance.pipeline.incidents.signs import NewCluster, Sign, Value

STREAM = "p0:tank"


def clusters(*places, spread=0.0):
    """Clusters of a stream, each with about one value of a feature, and with many of another."""
    return [
        NewCluster(f"{STREAM}/1/{n}", STREAM, n, n, {"salt": place, "heat": 20.0 + n}, {"salt": spread, "heat": 1.0})
        for n, place in enumerate(places)
    ]


def is_info(known, **values):
    unlike = Sign(f"{STREAM}/1/0", STREAM, STREAM, "unlike", "critical", 100.0, 90.0, "", values=values)
    return is_little(unlike, known, [])


@pytest.mark.parametrize(
    ("known", "value", "little"),
    [
        ((2.5, 2.6), 2.4, True),
        ((2.5, 2.5, 2.6), 2.2, True),
        ((2.5, 2.6), 2.1, False),
        ((13.5, 14.0, 15.0), 15.5, True),
        # One place of two is no step, nor is a value between steps one of them.
        ((2.5, 2.5), 2.4, False),
        ((2.5, 2.6), 2.4321, False),
        # Few whole numbers may stand for kinds.
        ((2.0, 3.0), 4.0, False),
        ((2.0, 3.0, 4.0, 5.0), 6.0, False),
        ((2.0, 3.0, 4.0, 5.0, 6.0), 7.0, True),
        ((2.0, 3.0, 4.0, 5.0, 6.0), 17.0, False),
    ],
)
def test_few_steps_of_a_coarse_sensor_are_little(known, value, little):
    usual = min(known, key=lambda each: abs(each - value))
    salt = Value(value + 2e-6, usual - 0.0075, usual + 0.0075)
    assert STEPS == 3
    assert is_info(clusters(*known), salt=salt) == little
    assert not is_info(clusters(*known, spread=0.04), salt=salt)


def test_what_is_hardly_outside_beside_a_coarse_sensor_does_not_count_and_what_is_far_does():
    salt = Value(2.4, 2.4925, 2.5075)
    assert is_info(clusters(2.5, 2.6), salt=salt, heat=Value(77.0, 78.0, 86.0))
    assert not is_info(clusters(2.5, 2.6), salt=salt, heat=Value(60.0, 78.0, 86.0))


@pytest.mark.parametrize(("salt", "heat", "little"), [(2.8, 20.6, True), (3.5, 20.6, False), (2.8, 24.0, False)])
def test_a_cluster_within_a_spread_of_another_is_little_where_its_alert_names_nothing(salt, heat, little):
    known = clusters(2.5, 1.0, spread=0.4)
    came = known[0]._replace(key=f"{STREAM}/1/9", time=95.0, centre={"salt": salt, "heat": heat})
    assert is_info([*known, came]) == little
