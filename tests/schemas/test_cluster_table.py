"""The table of a downstream consumer: present clusters, and what became of the others."""

import doctest

import orjson
import pytest
from resonance.schemas import ClusterTable, EventGapError, cluster_table

from tests.pipeline.streams import points, records, run, settings, task
from tests.pipeline.task.test_partition_task import KEYS, ONE_AND_A_TREE, changed


def snapshot(name, size=30):
    return {"id": name, "size": size, "centre": {"cpu": 0.5}, "spread": {"cpu": 0.1}, "nodes": 2}


def event(seq, kind, cluster, after=(), **more):
    own = {"stream": "p0", "version": 1, "level": 1, "time": "2026-01-01T00:00:00.000Z", "before": []}
    return {**own, "kind": kind, "seq": seq, "cluster": cluster, "after": [snapshot(name) for name in after], **more}


STORY = [
    event(0, "emerged", "p0/1/0", ("p0/1/0",)),
    event(1, "emerged", "p0/1/1", ("p0/1/1",)),
    event(2, "split", "p0/1/2", ("p0/1/1", "p0/1/2"), other="p0/1/1"),
    event(3, "absorbed", "p0/1/2", ("p0/1/0",), other="p0/1/0"),
    event(4, "absorbed", "p0/1/0", ("p0/1/1",), other="p0/1/1"),
]


def folded_from(*events):
    table = ClusterTable()
    for each in events:
        assert table.apply(each)
    return table


def test_the_example_of_its_documentation_runs():
    assert doctest.testmod(cluster_table).failed == 0


@pytest.mark.parametrize("engine", ONE_AND_A_TREE)
def test_the_folded_clusters_are_those_of_the_models_at_every_record(engine):
    worker = task(changed(engine, stream="key", output__clusters_grace=1.0))
    table, compacted = ClusterTable(), ClusterTable()
    ids = {}
    for record in records(points(1500).tolist(), keys=KEYS[:2]):
        outputs = worker.process([record])
        for message in outputs.cluster_events:
            assert table.apply(message.value)
            assert not table.apply(orjson.loads(message.value))
            ids.update(dict.fromkeys(cluster["id"] for cluster in orjson.loads(message.value)["after"]))
        for message in outputs.clusters:
            compacted.apply_cluster(message.key or b"", message.value)
        if outputs.cluster_events:
            for stream in worker.models.names:
                present = {cluster["id"] for cluster in worker.models.clusters(stream)}
                for each in (table, compacted):
                    assert set(each.clusters(stream)) == present if stream in each.streams else not present
    assert table.streams
    assert compacted.clusters() == table.clusters()
    assert {name: compacted.resolve(name) for name in ids} == {name: table.resolve(name) for name in ids}
    for stream in table.streams:
        assert (compacted.seq(stream), compacted.version(stream)) == (table.seq(stream), 1)
    assert {table.resolve(name) for name in ids} - {None} <= set(table.clusters())


def test_an_ended_cluster_resolves_to_what_it_became_through_others():
    table = folded_from(*STORY)
    assert table.resolve("p0/1/0") == table.resolve("p0/1/2") == table.resolve("p0/1/1") == "p0/1/1"
    table.apply(event(5, "vanished", "p0/1/1"))
    assert [table.resolve(f"p0/1/{n}") for n in range(3)] == [None] * 3
    assert table.clusters("p0") == {}


def test_a_cluster_that_others_split_from_goes_on_as_itself():
    table = folded_from(*STORY[:3])
    assert [table.resolve(f"p0/1/{n}") for n in range(3)] == ["p0/1/0", "p0/1/1", "p0/1/2"]


def test_a_version_ends_every_cluster_of_its_stream():
    other = {**event(0, "emerged", "p1/1/0", ("p1/1/0",)), "stream": "p1"}
    started = event(4, "version_started", None, version=2, before=[snapshot("p0/1/0"), snapshot("p0/1/1")])
    table = folded_from(*STORY[:4], other, started, event(5, "emerged", "p0/2/0", ("p0/2/0",), version=2))
    assert [table.resolve(f"p0/1/{n}") for n in range(3)] == [None] * 3
    assert (set(table.clusters()), table.version("p0")) == ({"p0/2/0", "p1/1/0"}, 2)
    assert not table.apply(STORY[4])
    # Models that were reset begin to count anew.
    again = event(0, "version_started", None, version=3)
    assert table.apply(again)
    assert not table.apply(again)
    assert table.clusters("p0") == {}


def test_a_list_of_what_was_learned_silently_is_a_beginning():
    listing = event(6, "version_started", None, ("p0/1/0", "p0/1/4"))
    assert set(folded_from(listing).clusters("p0")) == {"p0/1/0", "p0/1/4"}
    table = folded_from(listing, event(7, "absorbed", "p0/1/4", ("p0/1/0",), other="p0/1/0"))
    assert (set(table.clusters("p0")), table.resolve("p0/1/4")) == ({"p0/1/0"}, "p0/1/0")


def test_a_list_in_parts_is_whole_with_its_last_part():
    def part(number, *after, **more):
        return event(6, "version_started", None, after, version=2, part=number, parts=3, **more)

    parts = [part(1, before=[snapshot("p0/1/1")]), part(2, "p0/2/0"), part(3, "p0/2/1")]
    following = event(7, "absorbed", "p0/2/1", ("p0/2/0",), other="p0/2/0", version=2)
    table = folded_from(*STORY, *parts[:2])
    for missing in (following, {**parts[2], "seq": 7}):
        with pytest.raises(EventGapError):
            table.apply(missing)
    assert not any(map(table.apply, parts[:2]))
    assert table.apply(parts[2])
    assert not any(map(table.apply, parts))
    assert (set(table.clusters()), table.resolve("p0/1/1")) == ({"p0/2/0", "p0/2/1"}, None)
    assert table.apply(following)
    for first in (parts[1], parts[2]):
        with pytest.raises(EventGapError):
            folded_from(*STORY).apply(first)


def test_a_gap_is_an_error_that_changes_nothing():
    table = folded_from(*STORY[:2])
    with pytest.raises(EventGapError, match="stream p0: event 3 came where event 2 was to come") as caught:
        table.apply(STORY[3])
    assert (caught.value.stream, caught.value.expected, caught.value.found) == ("p0", 2, 3)
    assert (table.seq("p0"), set(table.clusters())) == (1, {"p0/1/0", "p0/1/1"})
    with pytest.raises(EventGapError, match=r"event 1 came where event 0 was to come.*apply_cluster"):
        ClusterTable().apply(STORY[1])
    with pytest.raises(EventGapError):
        table.apply(event(2, "emerged", "p0/2/0", ("p0/2/0",), version=2))


def test_what_is_unknown_says_so():
    table = folded_from(*STORY)
    for unknown in ("p0/1/9", "p7/1/0", "nonsense", ""):
        with pytest.raises(KeyError, match="is unknown"):
            table.resolve(unknown)
    with pytest.raises(KeyError, match="nothing is known of stream 'p7'"):
        table.clusters("p7")


def test_ended_clusters_are_forgotten_in_the_order_of_their_ends():
    table = ClusterTable(remember=1)
    for each in STORY:
        table.apply(each)
    assert table.resolve("p0/1/0") == "p0/1/1"
    with pytest.raises(KeyError, match="more than 1 ends ago"):
        table.resolve("p0/1/2")


def test_a_late_subscriber_reads_the_compacted_topic_and_then_the_events():
    log = records(points(1500).tolist(), keys=KEYS[:2])
    worker = task(settings(stream="key", output__clusters_grace=0.5))
    first, rest = run(worker, log[:900]), run(worker, log[900:])
    # What compaction leaves, tombstones gone.
    left = {message.key: message.value for message in first.clusters}
    whole = ClusterTable()
    for message in first.cluster_events + rest.cluster_events:
        whole.apply(message.value)
    for overlap in (0, 3):
        table = ClusterTable.from_clusters((key or b"", value) for key, value in left.items() if value is not None)
        late = first.cluster_events[len(first.cluster_events) - overlap :] + rest.cluster_events
        for message in late:
            table.apply(message.value)
        assert table.clusters() == whole.clusters()
        assert {stream: table.seq(stream) for stream in table.streams} == {s: whole.seq(s) for s in whole.streams}


def test_the_compacted_topic_alone_tells_of_a_new_version():
    log = records(points(900).tolist())
    worker = task()
    messages = run(worker, log[:500]).clusters
    fresh = task()
    fresh.restore(worker.models.snapshot("p0"), new_version=True)
    begun = fresh.process(log[500:501])
    following = run(fresh, log[501:]).cluster_events
    table = ClusterTable.from_clusters((message.key or b"", message.value) for message in messages)
    old = set(table.clusters())
    for message in begun.clusters:
        table.apply_cluster(message.key or b"", message.value)
    assert table.clusters("p0") == {}
    assert {table.resolve(name) for name in old} == {None}
    # The event that began the version was read before; the one that follows is not a gap.
    assert table.apply(following[0].value)
    assert table.version("p0") == 2
    assert not table.apply(begun.cluster_events[0].value or b"")


def test_a_stream_whose_clusters_are_all_gone_may_go_on_at_any_event():
    # Nothing of it is left on the compacted topic, and so nothing of it is missing.
    table = ClusterTable.from_clusters([])
    assert table.apply(event(13, "emerged", "p0/1/7", ("p0/1/7",)))
    assert list(table.clusters("p0")) == ["p0/1/7"]
    with pytest.raises(EventGapError):
        table.apply(event(15, "vanished", "p0/1/7"))


def test_a_stream_that_has_ended_is_forgotten_but_its_repeats_are_known():
    end = event(5, "stream_ended", None, before=[snapshot("p0/1/1")])
    table = folded_from(*STORY, end)
    assert (table.streams, table.clusters(), table.resolve("p0/1/0")) == ([], {}, None)
    with pytest.raises(KeyError, match="nothing is known of stream 'p0'"):
        table.clusters("p0")
    assert not any(map(table.apply, (*STORY, end)))
    again = event(0, "version_started", None, version=2)
    assert table.apply(again)
    assert (table.streams, table.version("p0")) == (["p0"], 2)
    assert table.apply(event(1, "emerged", "p0/2/0", ("p0/2/0",), version=2))
    assert not any(map(table.apply, (*STORY, end, again)))
    assert {*table.clusters("p0")} == {"p0/2/0"}
    with pytest.raises(EventGapError):
        folded_from(*STORY, end).apply(event(1, "emerged", "p0/2/0", ("p0/2/0",), version=2))


def test_a_stream_that_ended_with_a_long_list_goes_with_its_last_part():
    def part(number, name):
        return event(5, "stream_ended", None, before=[snapshot(name)], part=number, parts=2)

    table = folded_from(*STORY, part(1, "p0/1/1"))
    assert (table.streams, table.clusters()) == (["p0"], {})
    assert table.apply(part(2, "p0/1/3"))
    assert not table.apply(part(2, "p0/1/3"))
    assert table.streams == []
    with pytest.raises(EventGapError):
        folded_from(*STORY).apply(part(2, "p0/1/3"))


def test_ended_streams_are_forgotten_in_the_order_of_their_ends():
    table = ClusterTable(remember=1)
    for stream in ("p0:a", "p0:b"):
        table.apply({**event(0, "stream_ended", None), "stream": stream})
    assert [stream for stream in ("p0:a", "p0:b") if stream in table._over] == ["p0:b"]


@pytest.mark.usefixtures("blocks_of_one")
def test_the_compacted_topic_alone_tells_of_the_end_of_a_stream():
    log = [(b"a", 4 * i, i) for i in range(150)] + [(b"b", 600 + 4 * i, 150 + i) for i in range(300)]
    rows = points(1500).tolist()
    made = [
        record._replace(key=key, timestamp=record.timestamp + at, value=record.value)
        for record, (key, at, _) in zip(records(rows[:450]), log, strict=True)
    ]
    given = settings(engine__name="caea", stream="key", limits__stream_ttl=1.0, prepare__warmup_records=10)
    worker = task(given)
    outputs = run(worker, made)
    table = ClusterTable.from_clusters((message.key, message.value) for message in outputs.clusters)
    assert table.streams == ["p0:b"]
    # What its last events say again is known.
    ended = [message.value for message in outputs.cluster_events if b"p0:a" in message.value]
    assert ended
    assert not any(map(table.apply, ended))
