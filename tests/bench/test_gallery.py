"""What the default engine makes of short forms of the gallery's streams, as a user would try it first."""

import json
from dataclasses import replace

import numpy as np
import pytest
from resonance.pipeline.config.sections import EngineSection

from bench.gallery.measures import NO_ANSWER, History, first_of_their_own, shares
from bench.gallery.runs import Cuts, run
from bench.gallery.sets import public
from bench.gallery.streams import named
from bench.live import RefusedError, halved

ENGINE = EngineSection().name
SEEDS = (1, 2)
"""Other ones than those of the gallery itself."""
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
    ("shapes", "overlapping", 0.62, 5, 0.5),
    ("sensors", "sensors", 0.84, 22, 5.5),
]


@pytest.mark.parametrize("seed", SEEDS)
@pytest.mark.parametrize(("group", "stream", "least", "clusters", "events"), BOUNDS)
def test_a_practitioner_sees_the_clusters_that_are_there_and_few_events(group, stream, least, clusters, events, seed):
    line = run(named(group, stream), ENGINE, RECORDS, seed, {})
    assert line.refused is None
    found = line.largest if line.classes == 1 else line.ari
    assert found >= least
    assert line.answering <= clusters
    assert line.events <= events


def test_a_refusal_is_a_line_that_says_why():
    line = run(named("ladder", "unit d384 k10 seed 0"), "evq", 300, None, {"prepare.project": 0})
    assert "384 features" in line.refused
    assert (line.ari, json.loads(json.dumps(line.as_dict()))["failed"]) == (None, None)


def test_a_setting_that_is_none_is_a_refusal():
    line = run(named("shapes", "rings"), "evq", 300, None, {"engine.no_such": "1"})
    assert "no_such" in line.refused
    assert line.failed is None


def test_a_fault_costs_its_own_line_only(capsys):
    def broken(n, seed):
        raise ZeroDivisionError("nothing to divide by")

    line = run(replace(named("shapes", "rings"), make=broken), "evq", 300, None, {})
    assert line.failed == line.refused == "ZeroDivisionError: nothing to divide by"
    assert "broken" in capsys.readouterr().err


def test_a_set_that_is_not_on_the_machine_is_left_out():
    with pytest.raises(RefusedError, match="not on this machine"):
        public(0, 0, "no_such_set")


def test_a_novelty_of_the_sensors_is_found_in_time():
    line = run(named("sensors", "sensors"), ENGINE, RECORDS, 1, {})
    assert set(line.emerged) == {"unit change", "new kind"}
    assert all(records is not None and records <= 500 for records in line.emerged.values())


def event(kind, cluster, other, before, after, level=1):
    """What the bus has of an event, as far as the gallery reads it."""
    return {
        "kind": kind,
        "level": level,
        "cluster": cluster,
        "other": other,
        "before": [{"id": each} for each in before],
        "after": [{"id": each} for each in after],
    }


def test_a_split_is_taken_back_when_both_parts_are_one_again():
    history = History()
    history.add(event("emerged", "a", None, "", "a"))
    history.add(event("emerged", "z", None, "", "z"))
    history.add(event("split", "b", "a", "a", "ab"))
    history.add(event("split", "c", "a", "a", "ac"))
    assert history.present == {"a", "b", "c", "z"}
    # b goes into c, which goes into a: both splits are undone by the second.
    history.add(event("absorbed", "b", "c", "bc", "c"))
    assert (history.splits, history.taken_back) == (2, 0)
    history.add(event("absorbed", "c", "a", "ac", "a"))
    assert (history.splits, history.taken_back) == (2, 2)
    history.add(event("absorbed", "z", "a", "az", "a"))
    assert (history.events, history.taken_back, history.present) == (7, 2, {"a"})


def test_clusters_of_deeper_levels_are_not_counted_as_present():
    history = History()
    history.add(event("emerged", "a.1", None, "", ["a.1"], level=2))
    assert (history.events, history.present) == (1, set())


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
    answers = np.array([3, 3, 3, 3, 5, NO_ANSWER, 5, NO_ANSWER])
    assert halved(y, answers.tolist()) == 1.0
    second = shares(y, answers)
    assert (second.classes, second.answering, second.largest, second.nulls) == (2, 1, 0.5, 0.5)


def test_a_stream_is_cut_where_its_measures_begin_and_end():
    cuts = Cuts.of(4_321)
    assert set(cuts.all) >= {0, 432, 864, 2160, 3889, 4321, 500, 4000}
    assert max(np.diff(cuts.all)) <= 500
