"""What the default engine makes of short forms of the benchmark's streams, as a user would try it first."""

import numpy as np
import pytest
from resonance.pipeline.config.sections import EngineSection

from bench.quality.contest import NO_ANSWER, first_of_their_own, halved, measured, numbers
from bench.quality.contestants import engine
from bench.quality.streams import named
from tests.night import at_night

ENGINE = engine(EngineSection().name)
SEEDS = (1, 2)
"""Other ones than those of the benchmark itself."""
RECORDS = 8_000

BOUNDS = [
    # group, stream; at least: ARI, or the largest cluster's share where there is one class; at most: clusters that
    # answer, and events per 1,000 records of the second half
    ("long", "3 blobs d4", 0.99, 3, 0.1),
    ("long", "one Gaussian d8", 0.99, 1, 0.1),
    ("long", "10 blobs d16", 0.99, 10, 0.1),
    ("long", "30 clusters d16", 0.99, 30, 0.1),
    ("long", "100 clusters d16", 0.99, 100, 0.3),
    ("long", "99:1 d8", 0.99, 2, 0.1),
    ("long", "90:9:1 d3", 0.99, 3, 0.1),
    ("long", "+5 constants", 0.99, 3, 0.1),
    ("long", "first 60 equal", 0.99, 3, 0.1),
    ("long", "every record ten times", 0.98, 4, 0.3),
    ("long", "x10 after a third", 0.7, 3, 0.6),
    ("long", "Student t, 2 degrees", 0.93, 6, 0.1),
    ("long", "one ends half way", 0.99, 5, 0.1),
    ("shapes", "slanted", 0.83, 7, 1.5),
    ("shapes", "unequal", 0.98, 3, 1.0),
    ("shapes", "nothing", 0.99, 1, 0.1),
    ("shapes", "overlapping", 0.58, 5, 0.5),  # 0.57 to 0.84 over eight seeds
    ("sensors", "sensors", 0.84, 22, 5.5),
]


@pytest.mark.parametrize("seed", [SEEDS[0], *(at_night(each) for each in SEEDS[1:])])
@pytest.mark.parametrize(("group", "stream", "least", "clusters", "events"), BOUNDS)
def test_a_practitioner_sees_the_clusters_that_are_there_and_few_events(group, stream, least, clusters, events, seed):
    line = measured(named(group, stream), ENGINE, length=RECORDS, seed=seed)
    assert line.refused == ""
    found = line.largest if line.classes == 1 else line.ari
    assert found >= least
    assert line.answering <= clusters
    assert line.events <= events


def test_digits_are_told_apart_live_with_default_settings():
    lines = [measured(named("sets", "digits"), ENGINE, seed=seed) for seed in range(3)]
    assert sum(line.ari for line in lines) >= 3 * 0.6
    assert all(line.events <= 16 and 9 <= line.present <= 11 for line in lines)


def test_a_novelty_of_the_sensors_is_found_in_time():
    line = measured(named("sensors", "sensors"), ENGINE, length=RECORDS, seed=1)
    assert set(line.novelties) == {"unit change", "new kind"}
    assert all(records is not None and records <= 500 for records in line.novelties.values())


@pytest.mark.parametrize(
    ("group", "stream", "setting", "reason"),
    [
        ("ladder", "unit d384 k10 seed 0", {"prepare.project": 0}, "384 features"),
        ("shapes", "rings", {"engine.no_such": "1"}, "no_such"),
    ],
)
def test_a_refusal_is_a_line_that_says_why(group, stream, setting, reason):
    line = measured(named(group, stream), engine("evq"), setting, 300)
    assert reason in line.refused
    assert line.ari is None


def test_a_cluster_is_a_noveltys_own_only_if_it_is_new_and_mostly_of_it():
    member = np.array([False] * 4 + [True, False] * 6)
    answers = np.zeros(16, dtype=np.int64)
    assert first_of_their_own(answers, member) is None
    # The third record of the novelty, and the first that cluster 7 answers; cluster 8 is mostly of others.
    answers[8::2] = 7
    answers[5::2] = 8
    answers[4] = 8
    assert first_of_their_own(answers, member) == 2
    assert first_of_their_own(answers, np.zeros(16, dtype=np.bool_)) is None


def test_no_answer_is_a_group_of_its_own_and_noise_does_not_count():
    y = np.array([0, 0, 0, 0, 0, 1, -1, 1])
    answers = numbers(["a", "a", "a", "a", "b", None, "b", None])
    assert answers.tolist() == [0, 0, 0, 0, 1, NO_ANSWER, 1, NO_ANSWER]
    assert halved(y, answers) == 1.0
