"""Of a feature that has another range now, it is known which clusters have a mean of before."""

from resonance.pipeline.inspect.changed_ranges import changed_ranges, features_of_before, range_hint


def rescaled(feature, before, now, version=1, time="2026-05-08T00:01:04.000Z"):
    return {
        **{"kind": "rescaled", "feature": feature, "version": version, "time": time},
        **{"range": now, "range_before": before},
    }


def test_a_mean_nearer_to_the_range_of_before_is_of_before():
    drift = [{"kind": "drift", "version": 1}, rescaled("temp", [38.0, 67.0], [99.0, 154.0])]
    changes = changed_ranges(drift, 1)
    assert [(change.feature, change.time[:10]) for change in changes] == [("temp", "2026-05-08")]
    assert features_of_before({"temp": 41.0, "rpm": 310.0}, changes) == ["temp"]
    assert features_of_before({"temp": 70.0}, changes) == ["temp"]
    assert features_of_before({"temp": 106.0}, changes) == []
    assert features_of_before({"rpm": 310.0}, changes) == []


def test_the_newest_change_of_the_model_that_learns_now_counts():
    drift = [
        rescaled("temp", [0.0, 1.0], [100.0, 200.0]),
        rescaled("flow", [0.0, 1.0], [5.0, 6.0]),
        rescaled("temp", [100.0, 200.0], [0.0, 1.0]),
        rescaled("rpm", [0.0, 1.0], [5.0, 6.0], version=2),
    ]
    assert features_of_before({"temp": 0.5, "flow": 0.5, "rpm": 0.5}, changed_ranges(drift, 1)) == ["flow"]
    assert features_of_before({"temp": 150.0}, changed_ranges(drift, 1)) == ["temp"]


def test_a_range_that_changed_often_is_a_hint():
    days = [rescaled("ambient", [0.0, 1.0], [5.0, 6.0], time=f"2026-05-0{day}T00:01:04.000Z") for day in range(1, 7)]
    others = [{"kind": "drift", "version": 1}, rescaled("temp", [0.0, 1.0], [5.0, 6.0])]
    said = range_hint("p0", [*days, *others], 1)
    assert said.startswith(
        "ambient left its range 6 times in 1 of 1 stream with many records: a feature that only grows"
    )
    assert not range_hint("p0", [*days[:5], *others], 1)
    assert not range_hint("p0", days, 2)
