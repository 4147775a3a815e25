"""Which numbers go one way for each source, and now and then jump back, as those of a tank do."""

from itertools import pairwise

import numpy as np
import pytest
from resonance.pipeline.files.counters import jumping_back
from resonance.pipeline.files.survey import HEAD, FileSurvey

from tests.pipeline.files.surveyed import measured, noted, stamp, surveyed

RECORDS = 3_000
TIMES = np.arange(RECORDS)


def drawn(number):
    return np.random.default_rng(number)


def tank(number, cycle=400, way=-1.0):
    """Return what is in a tank that is filled up at once, by a clock of its own."""
    draw = drawn(number)
    used = way * draw.exponential(1 / cycle, RECORDS).cumsum() + draw.random()
    return np.round(100 * (used % 1.0) + draw.normal(0, 0.2, RECORDS), 1)


def charge(number):
    """Return the charge of a battery that is loaded within five records, of which there is none for most hours."""
    level = np.interp((TIMES + 61 * number) % 300, (0, 295, 300), (100, 20, 100))
    return np.round(level)


def day(number, rise=0.5, noise=0.02):
    level = np.interp(TIMES % 288 / 288, (0, rise, 1), (0, 1, 0))
    return level + drawn(number).normal(0, noise, RECORDS)


def walk(number):
    return drawn(number).normal(0, 1, RECORDS).cumsum()


def burst(number):
    """Return what dies away after each of some bursts."""
    came, left = drawn(number).random(RECORDS) < 0.03, np.zeros(RECORDS)
    for n in range(1, RECORDS):
        left[n] = 0.9 * left[n - 1] + came[n]
    return np.round(left, 3)


def of_sources(course, count=6):
    """Return records of several sources that come in any order."""
    own = [course(number) for number in range(count)]
    order = drawn(99).permuted(np.repeat(np.arange(count), RECORDS))
    rows, gone = [], [0] * count
    for at, k in enumerate(order.tolist()):
        rows.append(measured(at=stamp(at // 10), van=f"v{k}", level=float(own[k][gone[k]])))
        gone[k] += 1
    return rows


@pytest.mark.parametrize(
    "course", [tank, charge, lambda number: tank(number, 1_000), lambda number: tank(number, way=1)]
)
def test_what_goes_one_way_and_jumps_back_is_no_feature_and_a_note_says_why(course):
    rows = of_sources(course)
    why = "goes one way for each van and now and then jumps back: a tank, which input.features may name"
    assert noted(rows).left_out == {"level": why}
    alone = surveyed([{"level": row["level"]} for row in rows if row["van"] == "v3"])
    assert jumping_back(alone, ["level"], ()) == ["level"]


@pytest.mark.parametrize(
    "course",
    [
        day,
        lambda number: day(number, rise=0.15),
        lambda number: day(number, noise=0.3),
        walk,
        burst,
        lambda number: drawn(number).normal(0, 1, RECORDS),
        lambda number: drawn(number).lognormal(0, 1, RECORDS),
        lambda number: drawn(number).poisson(3, RECORDS) * 7,
        lambda number: np.repeat(walk(number), 100)[:RECORDS],
    ],
)
def test_waves_walks_noise_bursts_and_settings_are_features(course):
    rows = of_sources(course)
    assert "level" in noted(rows).features
    assert not jumping_back(surveyed([row for row in rows if row["van"] == "v3"]), ["level"], ())


@pytest.mark.parametrize("batch", [1, 7, 999, 30_000])
def test_spaced_records_are_from_everywhere_in_bounded_memory_whatever_the_batches(batch):
    rows = [{"n": n} for n in range(30_000)]
    seen = FileSurvey()
    for start in range(0, len(rows), batch):
        seen.add(rows[start : start + batch])
    kept = [row["n"] for row in seen.spaced]
    assert HEAD <= len(kept) < 2 * HEAD
    assert {after - before for before, after in pairwise(kept)} == {12, 13}
    # Of sources that take turns each is there.
    assert {n % 8 for n in kept} == {*range(8)}
