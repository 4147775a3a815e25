"""The newest entries, filtered."""

import re
from collections import Counter

from resonance.pipeline.page import timeline
from resonance.pipeline.page.timeline import Timeline, entry_of
from resonance.pipeline.watch.watch import WatchedOutput
from resonance.schemas import ClusterNames

from tests.pipeline.page import outputs
from tests.pipeline.page.outputs import record


def entry(kind, value):
    return entry_of(WatchedOutput(kind, record(value), value))


def test_entries_say_what_happened_and_how_urgent_it_is():
    emerged = entry("events", outputs.event("emerged", "p0/1/2", second=9))
    assert (emerged.what, emerged.stream, emerged.cluster, emerged.severity) == ("emerged", "p0", "p0/1/2", "info")
    assert emerged.time == outputs.time_of(9)
    assert emerged.text == "cluster p0/1/2 emerged: errors 2, latency_ms 300; 100 records"
    assert entry("drift", outputs.drift("drift", "p0/1/2")).severity == "warning"
    assert entry("drift", outputs.drift("settled", "p0/1/2")).severity == "info"
    opened, cleared = (entry("alerts", outputs.alert(kind, "p0")) for kind in ("opened", "cleared"))
    assert (opened.what, opened.severity, cleared.severity) == ("unlike opened", "critical", "info")


def test_long_sentences_are_cut():
    long = outputs.alert("opened", "p0") | {"text": "x" * 5000}
    assert len(entry("alerts", long).text) == timeline.TEXT + 1


def test_entries_are_selected_the_newest_first():
    news = Timeline()
    for number in range(6):
        news.add(entry("events", outputs.event("emerged", f"p{number % 2}/1/{number}")))
    third = news.since(2)[0]
    news.add(entry("events", outputs.event("absorbed", "p0/1/2", other="p0/1/4")))
    news.add(entry("drift", outputs.drift("drift", "p1/1/1")))

    def numbers(most=10, **filters):
        return [each.number for each in news.select(most, **filters)]

    assert numbers(3) == [8, 7, 6]
    assert numbers(before=(third.time, third.number)) == [2, 1]
    assert numbers(stream="p1") == [8, 6, 4, 2]
    assert numbers(cluster="p0/1/4") == [7, 5]
    assert numbers(kinds=["drift"]) == [8]
    assert numbers(kinds=["absorbed", "drift"]) == [8, 7]
    assert numbers(severities=["warning", "critical"]) == [8]
    assert numbers(search="ABSORBED by") == [7]
    assert [each.number for each in news.since(6)] == [7, 8]
    assert news.newest == 8


def test_they_are_in_the_order_of_their_times_whatever_came_first():
    news = Timeline()
    for partition in range(2):
        for number in range(4):
            name = f"p{partition}/1/{number}"
            news.add(entry("events", outputs.event("emerged", name, seq=number, second=2 * number + partition)))
    shown = news.select(5)
    assert [each.time for each in shown] == [outputs.time_of(second) for second in (7, 6, 5, 4, 3)]
    rest = news.select(9, before=(shown[-1].time, shown[-1].number))
    assert [each.time for each in rest] == [outputs.time_of(second) for second in (2, 1, 0)]


def test_only_those_that_came_last_are_kept(monkeypatch):
    monkeypatch.setattr(timeline, "KEPT", 4)
    news = Timeline()
    for number in range(10):
        news.add(entry("events", outputs.event("emerged", f"p0/1/{number}", second=9 - number)))
    assert [each.number for each in news] == [7, 8, 9, 10]
    assert [each.number for each in news.select(9)] == [7, 8, 9, 10]


def test_a_search_looks_each_name_up_once_and_compiles_nothing(monkeypatch):
    """One that found nothing took a second: a pattern was compiled for each entry and name."""
    news, names, clusters = Timeline(), ClusterNames(), 500
    for number in range(timeline.KEPT):
        event = outputs.event("absorbed", f"p0/1/{number % clusters}", other=f"p0/1/{(number + 1) % clusters}")
        news.add(entry("events", event))
    for number in range(clusters):
        cluster = f"p0/1/{number}"
        assert names.apply(cluster, {"cluster": cluster, "name": f"shift {number}", "time": outputs.time_of(0)})
    looked_up, compiled = Counter(), []
    of, compile_ = ClusterNames.of, re._compile
    monkeypatch.setattr(ClusterNames, "of", lambda self, cluster: looked_up.update([cluster]) or of(self, cluster))
    monkeypatch.setattr(re, "_compile", lambda *what: compiled.append(what) or compile_(*what))
    assert news.select(9, search="no sentence has this", names=names) == []
    assert set(looked_up.values()) == {1}
    assert len(looked_up) == clusters
    assert compiled == []
    assert len(news.select(9, search="p0/1/7 (shift 7) was ABSORBED by p0/1/8 (shift 8)", names=names)) == 9


def test_an_output_with_a_time_that_is_none_can_be_paged_past():
    news = Timeline()
    for time in ("yesterday", outputs.time_of(3), None):
        news.add(entry("drift", outputs.drift("drift", "p0/1/0") | {"time": time}))
    assert [each.time for each in news.select(9)] == [outputs.time_of(3), "", ""]
    last = news.select(2)[-1]
    assert len(news.select(9, before=(last.time, last.number))) == 1
