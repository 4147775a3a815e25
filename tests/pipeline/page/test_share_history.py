"""Shares over time, in a room that does not grow."""

from resonance.pipeline.page.share_history import FIRST_STEP, MOST_CLUSTERS, MOST_STEP, STEPS, ShareHistory


def test_records_are_counted_by_time_and_cluster():
    history = ShareHistory()
    for second in range(10):
        history.add(1_000_000 + 1000 * second, ["p0/1/0"], 3)
        history.add(1_000_000 + 1000 * second, ["p0/1/1"])
    found = history.as_json()
    assert (found["start"], found["step"], found["total"]) == (1_000_000, FIRST_STEP, [4] * 10)
    assert found["series"] == {"p0/1/0": [3] * 10, "p0/1/1": [1] * 10}
    assert history.recent("p0/1/0") == 0.75
    assert history.recent("p0/1/9") == 0


def test_a_long_time_is_kept_in_longer_steps_and_no_record_is_lost():
    history = ShareHistory()
    for second in range(20_000):
        history.add(1000 * second + 7, ["a"] if second % 4 else [])
    found = history.as_json()
    assert len(found["total"]) <= STEPS
    assert sum(found["total"]) == 20_000
    assert sum(found["series"]["a"]) == 15_000
    assert found["start"] == 0


def test_the_first_step_keeps_its_place_in_longer_ones():
    history = ShareHistory()
    for second in range(1_001, 1_001 + STEPS + 1):
        history.add(1000 * second, ["a", "b"] if second == 1_001 else ["a"])
    found = history.as_json()
    assert (found["start"], found["step"]) == (1_000_000, 2 * FIRST_STEP)
    assert found["total"] == found["series"]["a"] == [1] + [2] * (STEPS // 2)
    assert found["series"]["b"] == [1] + [0] * (STEPS // 2)


def test_beyond_the_longest_step_the_oldest_go():
    history = ShareHistory()
    for step in range(3 * STEPS):
        history.add(MOST_STEP * step, ["old"] if step < STEPS else ["new"])
    found = history.as_json()
    assert found["step"] == MOST_STEP
    assert len(found["total"]) <= STEPS
    assert list(found["series"]) == ["new"]
    history.add(MOST_STEP * 100_000, ["new"])
    assert history.as_json()["start"] == MOST_STEP * 100_000


def test_late_records_and_clusters_without_end_take_no_room():
    history = ShareHistory()
    history.add(90_000, ["a"])
    history.add(0, ["a"])
    for number in range(2 * MOST_CLUSTERS):
        history.add(90_000, [str(number)])
    found = history.as_json()
    assert found["total"] == [2 + 2 * MOST_CLUSTERS]
    assert len(found["series"]) == MOST_CLUSTERS
    assert ShareHistory().recent("a") is None
