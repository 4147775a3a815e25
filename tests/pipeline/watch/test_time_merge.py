"""Outputs of several partitions come by their times, with a bounded number that wait."""

import orjson
import pytest
from resonance.pipeline.records import Record
from resonance.pipeline.watch.time_merge import TimeMerge
from resonance.pipeline.watch.watch import Filter, Watch


def test_partitions_are_merged_as_soon_as_none_can_have_an_earlier_output():
    merge = TimeMerge()
    for time in "bdf":
        merge.add("x", time, f"x{time}")
    assert merge.take(["x", "y"]) == []
    for time in "ac":
        merge.add("y", time, f"y{time}")
    assert merge.take(["x", "y"]) == ["ya", "xb", "yc"]
    assert merge.take(["x"]) == ["xd", "xf"]
    merge.add("y", "e", "ye")
    assert merge.take([]) == ["ye"]


def test_a_partition_keeps_its_order_and_one_without_times_too():
    merge = TimeMerge()
    for at, time in (("x", "b"), ("x", ""), ("x", "a"), ("x", "d"), ("y", "c"), ("z", "")):
        merge.add(at, time, at + time)
    assert merge.take([]) == ["z", "xb", "x", "xa", "yc", "xd"]


def test_an_output_years_ahead_delays_what_is_behind_it_only_once():
    merge = TimeMerge()
    merge.add("x", "2036", "x2036")
    assert merge.take([]) == ["x2036"]
    for at, time in (("x", "2026a"), ("x", "2026c"), ("y", "2026b")):
        merge.add(at, time, at + time)
    assert merge.take([]) == ["x2026a", "y2026b", "x2026c"]


def test_no_more_than_the_bound_wait():
    merge = TimeMerge(most=3)
    for number in range(5):
        merge.add("x", str(number), number)
    assert merge.take(["x", "y"]) == [0, 1]
    assert merge.take(["x"]) == [2, 3, 4]


class OneTopicAfterTheOther:
    """A reader that brings whole partitions, and nothing behind them."""

    trouble = ""

    def __init__(self, parts):
        self.parts, self.positions = list(parts.items()), dict.fromkeys(parts, 0)

    def poll(self, timeout):
        if not self.parts:
            return []
        at, times = self.parts.pop(0)
        self.positions[at] = len(times)
        return [
            Record(*at, n, 0, None, orjson.dumps({"stream": "s", "kind": "drift", "time": time}), ())
            for n, time in enumerate(times)
        ]

    def has_reached(self, ends):
        return all(self.positions[at] >= end for at, end in ends.items())


PARTS = {("a", 0): ["1", "4"], ("b", 0): ["2", "5"], ("b", 1): ["3"]}


@pytest.mark.parametrize(
    ("stored", "follow"),
    [(True, False), (True, True), (False, True)],
    ids=["stored, to the end", "stored, then followed", "as it arrives"],
)
def test_a_watch_shows_topics_by_time_whether_stored_or_as_they_arrive(stored, follow):
    ends = {at: len(times) if stored else 0 for at, times in PARTS.items()}
    watch = Watch(OneTopicAfterTheOther(PARTS), "x", {"a": "drift", "b": "alerts"}, Filter())
    found = []
    for batch in watch.batches(ends, follow=follow):
        found += [output.payload["time"] for output in batch]
        if len(found) == 5:
            break
    assert "".join(found) == "12345"


def test_a_partition_that_gives_nothing_holds_up_the_others_for_a_while_only(monkeypatch):
    monkeypatch.setattr("resonance.pipeline.watch.watch.STALLED_SECONDS", 0.0)
    ends = {("a", 0): 2, ("b", 0): 2}
    watch = Watch(OneTopicAfterTheOther({("a", 0): ["1", "4"]}), "x", {"a": "drift", "b": "alerts"}, Filter())
    watch._reader.positions[("b", 0)] = 0
    batch = next(watch.batches(ends, follow=True))
    assert [output.payload["time"] for output in batch] == ["1", "4"]
