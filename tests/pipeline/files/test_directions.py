"""Which numbers up to 360 are directions: those that say so, and those that go past north."""

import numpy as np
import pytest
from resonance.pipeline.files.directions import is_direction
from resonance.pipeline.files.suggest import suggest
from resonance.pipeline.files.survey import FileSurvey

RNG = np.random.default_rng(5)


def turning(count=500, step=7.0):
    """Return degrees that go on from each other, all over the circle."""
    return ((40 + step * RNG.normal(0, 1, count).cumsum() + np.linspace(0, 2_000, count)) % 360).tolist()


def switched(level, count=500, noise=4.0):
    """Return a flow that is off, at 0, or about at a level."""
    on = np.repeat(RNG.integers(0, 2, count // 5), 5)
    return np.where(on == 1, np.minimum(level + noise * RNG.normal(0, 1, count), 360), 0).round().tolist()


def found(name, values):
    return is_direction(name, FileSurvey([{name: each} for each in values]).columns[name.replace(".", "\\.")])


@pytest.mark.parametrize("level", [250, 300, 335, 350, 358])
@pytest.mark.parametrize("name", ["flow", "Blutfluss [ml/min]", "Slew (deg/min)", "Heat (°C)"])
def test_what_is_switched_off_and_on_is_no_direction(level, name):
    assert not found(name, switched(level))


@pytest.mark.parametrize("name", ["a", "Course [°]", "Course (deg)", "Nacelle position (deg)", "course (mean)"])
def test_what_goes_past_north_in_small_steps_is_a_direction(name):
    assert found(name, turning())


@pytest.mark.parametrize("name", ["a [m]", "Flow (l/h)", "Kurs [mm]", "Bearing (°C)", "dir [rpm]", "heading (m)"])
def test_a_unit_that_is_none_of_angles_rules_a_direction_out(name):
    assert not found(name, turning())


@pytest.mark.parametrize(
    "name", ["wind_dir", "Wind direction (deg)", "WindDir [°]", "heading (true)", "Wind direction (10 m)", "hdg_deg"]
)
def test_a_name_says_of_any_numbers_that_they_are_a_direction(name):
    assert found(name, RNG.uniform(0, 360, 300).tolist())


def test_a_unit_of_angles_says_so_of_numbers_all_over_the_circle():
    anywhere = RNG.uniform(0, 360, 500)
    assert found("Crank [°]", anywhere.tolist()) and not found("Crank", anywhere.tolist())
    assert not found("Valve [°]", (anywhere / 1.8).tolist()) and not found("Oven [°C]", anywhere.tolist())


def test_a_flow_that_is_switched_is_a_feature():
    rows = [{"Flow [ml/min]": flow, "heat": heat} for flow, heat in zip(switched(350), turning(), strict=True)]
    assert suggest(FileSurvey(rows)).features == ["Flow [ml/min]"]
