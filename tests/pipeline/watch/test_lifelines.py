"""The life of each cluster follows from the outputs of its stream."""

import numpy as np
import pytest
from resonance.pipeline.watch import lifelines
from resonance.pipeline.watch.lifelines import LifeLine, in_order, stream_lives

MINUTE = "2026-01-05T08:{:02}:00.000Z"


def described(name, **centre):
    return {"id": name, "size": 30, "centre": centre, "spread": dict.fromkeys(centre, 1.0), "nodes": 2}


def source(offset):
    return {"topic": "t", "partition": 0, "offset": offset}


def event(kind, name, offset, other=None, before=(), after=(), level=1, stream="s"):
    value = {"kind": kind, "stream": stream, "level": level, "cluster": name, "other": other, "time": moment(offset)}
    return value | {"before": before, "after": after, "cause": {"source": source(offset)}}


def moment(offset):
    return MINUTE.format(offset // 20)


def answers(names, stream="s"):
    return [
        {"stream": stream, "source": source(n), "clusters": list(each), "time": moment(n)}
        for n, each in enumerate(names)
    ]


def one_life(names, events, drifts=(), clusters=()):
    ((life,), left_out) = stream_lives(answers(names), events, drifts, clusters)
    assert left_out == 0
    return life


def test_a_line_lives_from_its_first_event_to_its_last_with_its_share_of_the_records():
    names = [()] * 100 + [("a",)] * 100 + [("a",), ("b",)] * 200 + [("a",)] * 400
    events = [event("emerged", "a", 99), event("split", "b", 200, "a"), event("absorbed", "b", 600, "a")]
    # Delivered at least once.
    life = one_life(names, [events[0], *events])
    a, b = life.lines
    assert (a.born, a.ended, b.born, b.ended, b.parent, b.heir) == (99, 1000, 200, 600, "a", "a")
    assert (life.records, life.found, life.present, life.counted) == (1000, 2, 1, True)
    middle = np.searchsorted(a.x, 400)
    assert (a.share[0] > 0.9, a.share[middle], a.share[-1]) == (True, pytest.approx(0.5, abs=0.1), 1.0)
    assert b.share[len(b.share) // 2] == pytest.approx(0.5, abs=0.1)


def test_recent_is_the_share_of_the_last_thousand_answers_unless_it_is_given():
    names = [("a",)] * 900 + [("b",)] * 100 + [("b",), (None,)] * 300 + [("a",)] * 300
    events = [event("emerged", name, n) for n, name in enumerate("ab")]
    a, b = sorted(one_life(names, events).lines, key=lambda line: line.name)
    assert (a.recent, b.recent) == (0.3, 0.4)
    ((life,), _) = stream_lives(answers(names), events, [], [], recent={"b": 0.7})
    assert {line.name: line.recent for line in life.lines} == {"a": 0.0, "b": 0.7}


def test_each_level_has_its_own_lines_below_the_cluster_that_they_divide():
    names = [("a", "a.1"), ("b",), ("a", "a.2")] * 1_000
    events = [event("emerged", name, n, level=name.count(".") + 1) for n, name in enumerate(("a", "b", "a.1", "a.2"))]
    life = one_life(names, events)
    assert [(line.name, line.level, line.within) for line in life.lines] == [
        *(("a", 1, None), ("a.1", 2, "a"), ("a.2", 2, "a"), ("b", 1, None)),
    ]
    assert [round(float(line.share[-1]), 1) for line in life.lines] == [0.7, 0.3, 0.3, 0.3]


def test_a_new_version_ends_the_clusters_of_the_one_before():
    started = event("version_started", None, 60, before=[described("a"), described("b")], after=[described("b")])
    life = one_life([("a",)] * 100, [event("emerged", "a", 5), event("emerged", "b", 6), started])
    assert [(line.name, line.ended) for line in life.lines] == [("a", 60), ("b", 100)]


def test_clusters_whose_events_are_gone_are_there_from_the_beginning():
    clusters = [{"stream": "s", **described("s/1/4", x=2.0)}, {"stream": "s", **described("s/1/7.0", x=3.0)}]
    life = one_life([("s/1/4",)] * 10, [], clusters=clusters)
    assert [(line.name, line.born, line.level) for line in life.lines] == [("s/1/4", 0, 1), ("s/1/7.0", 0, 2)]
    assert life.clusters["s/1/4"]["centre"] == {"x": 2.0}


def test_events_about_records_that_are_not_known_have_their_place_by_time():
    answered = answers([("a",)] * 100)[40:]
    events = [event("emerged", "a", 3), event("emerged", "b", 70) | {"cause": {"source": source(9_999)}}]
    ((life,), _) = stream_lives(answered, events, [], [])
    assert [line.born for line in life.lines] == [0, 20]


def test_without_assignments_lines_count_the_time():
    drift = {"kind": "drift", "stream": "s", "cause": {"source": source(100)}, "time": moment(100)}
    life = one_life([], [event("emerged", "a", 0), event("vanished", "a", 60), event("emerged", "b", 20)], [drift])
    assert (life.records, life.counted) == (306_001, False)
    assert [(line.name, line.born, line.ended) for line in life.lines] == [("a", 0, 180_000), ("b", 60_000, 306_001)]
    assert all(np.isnan(line.share).all() for line in life.lines)
    assert [at for at, _ in life.drifts] == [300_000]


def test_only_the_largest_streams_and_clusters_are_shown(monkeypatch):
    monkeypatch.setattr(lifelines, "MOST_STREAMS", 2)
    monkeypatch.setattr(lifelines, "MOST_LINES", 3)
    outputs = [each for n in range(4) for each in answers([(f"c{n % 5}",) for n in range(20 * n + 9)], f"s{n}")]
    events = [event("emerged", f"c{n}", n, stream="s3") for n in range(5)]
    lives, left_out = stream_lives(outputs, events, [], [])
    assert ([life.stream for life in lives], left_out) == (["s3", "s2"], 2)
    assert ([line.name for line in lives[0].lines], lives[0].found) == (["c0", "c1", "c2"], 5)


def test_times_are_known_of_few_records_of_a_long_stream(monkeypatch):
    monkeypatch.setattr(lifelines, "_TIMES", 10)
    life = one_life([("a",)] * 200, [event("emerged", "a", 0)])
    places = [at for at, _ in life.times]
    assert len(places) <= 11
    assert places == list(range(0, 200, places[1]))
    ((life,), _) = stream_lives(
        [each | {"time": "1970-01-01T00:00:00.000Z"} for each in answers([("a",)] * 9)], [], [], []
    )
    assert life.times == [], "the records had no time"


def test_lines_are_near_those_they_come_from_even_in_a_circle():
    lines = [LifeLine("a", 0, 9), LifeLine("b", 0, 5, heir="d"), LifeLine("c", 3, 9, parent="a"), LifeLine("d", 4, 9)]
    assert [line.name for line in in_order(lines)] == ["a", "c", "d", "b"]
    circle = [LifeLine("a", 0, 5, heir="b"), LifeLine("b", 2, 9, parent="a"), LifeLine("c", 0, 9)]
    assert [line.name for line in in_order(circle)] == ["c", "a", "b"]
