"""A feature that leaves its range again and again is named, and one that an incident moved is not."""

import logging

import numpy as np
import orjson
from resonance.pipeline.records import Record
from resonance.pipeline.task.range_changes import RangeChanges, together

from tests.pipeline.streams import STAMP, TOPIC, run, settings, task

MINUTE = 60_000


def found(*changes, looks=8):
    """What is known after changes (stream, feature, day), each stream looked at a few times."""
    ranges = RangeChanges()
    for stream, feature, day in changes:
        ranges.changed(stream, feature, f"2026-01-{day:02}T00:00:00.000Z")
    for stream in {stream for stream, *_ in changes} | {"quiet"}:
        for _ in range(looks):
            ranges.looked(stream)
    return ranges


def test_six_changes_within_a_week_in_half_of_the_streams_are_a_hint():
    often = [("a", "ambient_c", day) for day in (1, 2, 3, 4, 5, 6, 19)]
    assert found(*often).found().hint == (
        "ambient_c left its range 7 times in 1 of 2 streams with many records: a feature that only grows makes "
        "clusters of its own; leave it out of input.features (docs/tuning.md#quality)"
    )


def test_an_incident_rare_changes_and_one_strange_device_are_none():
    assert not found(("a", "temp", 1), ("a", "temp", 2)).found().hint
    assert not found(*(("a", "temp", day) for day in range(1, 31, 2))).found().hint
    strange = [("a", "temp", day) for day in range(1, 7)]
    assert not found(*strange, ("b", "flow", 1)).found().hint


def test_partitions_are_added_and_streams_that_ended_are_forgotten():
    first, second = (found(*((stream, "ambient_c", day) for day in range(1, 7))) for stream in "ab")
    both = together([first.found(), second.found()])
    assert (both.streams, both.changes["ambient_c"], both.restless["ambient_c"]) == (4, 12, 2)
    assert "12 times in 2 of 4 streams" in both.hint
    second.ended("b")
    assert not second.found().hint


def log_of(days, daily=0.0, growing=0.0):
    """A record a minute of two kinds, with a temperature that follows the day, or a counter, where that is wanted."""
    rng = np.random.default_rng(0)
    log = []
    for i in range(days * 1_440):
        row = rng.normal([[0.0, 1.0], [5.0, 9.0]][rng.integers(2)], 0.3).tolist()
        ambient = 18.0 + daily * np.sin(2 * np.pi * i / 1_440) + growing * i + rng.normal() * 0.6
        value = orjson.dumps({"cpu": row[0], "latency_ms": row[1], "net": {"in": float(ambient)}})
        log.append(Record(TOPIC, 0, i, STAMP + MINUTE * i, None, value))
    return log


def test_a_feature_that_grows_is_named_after_a_few_days_and_no_line_is_logged_for_each_change(caplog):
    caplog.set_level(logging.INFO)
    own = task(settings(stream="partition"))
    run(own, log_of(6, growing=0.5), 512)
    assert own.health.ranges.found().hint.startswith("net.in left its range ")
    assert "1 of 1 stream with many records:" in own.health.ranges.found().hint
    assert not caplog.records


def test_a_feature_that_follows_the_day_is_not_named():
    own = task(settings(stream="partition"))
    run(own, log_of(6, daily=8.0), 512)
    assert not own.health.ranges.found().hint
