"""Since when a feature is where it is, as far as drift events say it."""

import orjson
import pytest
from resonance.pipeline.peers.beginnings import Beginnings


def drift(*features, second=5, stream="p0:a", change=("moved",), began=None):
    """A drift event of one unit, whose features are name, change, before and after."""
    unit = {
        "cluster": None,
        "change": list(change),
        "features": [dict(zip(("feature", "change", "before", "after"), feature, strict=True)) for feature in features],
    }
    if began is not None:
        unit["since"] = {"offset": 1, "time": time(began)}
    return {"kind": "drift", "stream": stream, "time": time(second), "units": [unit]}


def time(second):
    return f"2026-01-01T00:00:{second:02}.000Z"


def of(events, feature="x", change="high", newest=30):
    found = Beginnings({"p0:a": time(newest)})
    for event in events:
        found.read(event if isinstance(event, bytes | None) else orjson.dumps(event))
    since, by = found.of("p0:a", feature, change)
    assert not (since and by)
    return since or (by and f"by {by}")


def test_it_is_the_newest_drift_of_the_feature_in_that_direction():
    events = [
        drift(("x", "moved", 1, 2), second=5, began=3),
        drift(("x", "moved", 1, 4), second=8, began=7),
        drift(("x", "moved", 4, 3), ("y", "moved", 1, 2), second=12, began=11),
        drift(("x", "moved", 1, 9), second=14, stream="p0:b"),
        {**drift(("x", "moved", 1, 9), second=16), "kind": "settled"},
    ]
    assert of(events) == time(7)
    assert of(events, change="low") == of(events, "y") == time(11)
    assert of(events, "z") is None


def test_how_much_a_feature_varies_is_another_change_than_where_it_is():
    events = [
        drift(("x", "widened", 1, 1), second=2),
        drift(("x", "narrowed", 1, 2), second=4),
        drift(("x", "moved", 1, 2), second=6),
    ]
    assert of(events, change="varies more") == time(2)
    assert of(events, change="varies less") == time(4)
    assert of(events, change="high") == time(6)
    assert of(events, change="low") is None


def test_by_another_range_a_feature_had_changed_in_that_direction():
    event = {"kind": "rescaled", "stream": "p0:a", "time": time(9), "feature": "x"}
    event |= {"range": [570, 670], "range_before": [5.7, 6.7]}
    assert of([event]) == of([event], change="varies more") == f"by {time(9)}"
    assert of([event, drift(("x", "moved", 1, 2), second=5)]) == time(5)
    assert of([event], change="low") is None
    assert of([event], "y") is None


def test_features_together_stand_for_any_that_has_no_drift_of_its_own():
    events = [drift(("y", "moved", 1, 2), second=3), drift(second=7, change=["together"], began=6)]
    assert of(events) == time(6)
    assert of(events, "y") == time(3)


def test_what_came_after_the_newest_record_does_not_count():
    events = [drift(("x", "moved", 1, 2), second=5), drift(("x", "moved", 1, 2), second=9)]
    assert of(events, newest=9) == time(9)
    assert of(events, newest=8) == time(5)
    assert of(events, newest=4) is None


@pytest.mark.parametrize(
    "value",
    [
        *(None, b"", b"{", b"3", b"[1]", b"null"),
        *({}, {"stream": ["p0:a"]}, {"stream": "p0:a"}, {"kind": "drift", "stream": "p0:a", "time": 3}),
        {"kind": "rescaled", "stream": "p0:a", "time": time(9), "feature": "x"},
        {**drift(second=9), "units": None},
        {**drift(second=9), "units": [3]},
        drift(("x", "moved", 1, "2"), second=9),
        {**drift(second=9), "units": [{"change": ["moved"]}]},
        {**drift(second=9), "units": [{"change": ["together"], "since": {"time": 4}, "features": []}]},
    ],
)
def test_values_of_another_form_are_left_out(value):
    assert of([drift(("x", "moved", 1, 2), second=5), value]) == time(5)
