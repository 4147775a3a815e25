"""Names of clusters: those that people gave, over what became of the clusters, and those that their features give."""

import pytest
from resonance.schemas import AutomaticNames, ClusterNames, ClusterTable

TIME = "2026-01-05T08:00:{:02d}.000Z"


def cluster(name, size=30, **centre):
    return {"id": name, "size": size, "centre": centre, "spread": dict.fromkeys(centre, 1.0), "nodes": 2}


def event(seq, kind, name, other=None, before=(), after=(), version=1, **more):
    own = {"stream": "p0", "version": version, "seq": seq, "kind": kind, "cluster": name, "time": TIME.format(seq)}
    own["level"] = 1
    return own | {"before": list(before), "after": list(after)} | ({"other": other} if other else {}) | more


def lives(*events):
    table = ClusterTable(strict=False)
    for each in events:
        table.apply(each)
    return table


def named(table, **given):
    names = ClusterNames(table)
    for number, text in given.items():
        key = f"p0/1/{number.removeprefix('c')}"
        assert names.apply(key, {"cluster": key, "name": text, "time": TIME.format(0)})
    return names


A, B, C, D = (f"p0/1/{number}" for number in range(4))
HISTORY = (
    event(0, "emerged", A, after=[cluster(A)]),
    event(1, "emerged", B, after=[cluster(B)]),
    event(2, "split", C, A, before=[cluster(A)], after=[cluster(A, 20), cluster(C, 10)]),
    event(3, "split", D, C, before=[cluster(C, 10)], after=[cluster(C, 6), cluster(D, 4)]),
    event(4, "absorbed", B, A, before=[cluster(B, 40), cluster(A, 20)], after=[cluster(A, 60)]),
)


def test_a_survivor_keeps_its_name_and_gets_none_from_what_it_absorbed():
    names = named(lives(*HISTORY), c0="checkout", c1="night batch")
    assert names.of(A) == ("checkout", None)
    assert str(names.of(A)) == "checkout"
    assert not named(lives(*HISTORY), c1="night batch").of(A)


def test_what_split_is_called_after_what_it_came_from_until_it_has_a_name():
    names = named(lives(*HISTORY), c0="checkout")
    assert [str(names.of(name)) for name in (C, D)] == ["from checkout", "from checkout"]
    assert str(named(lives(*HISTORY), c0="checkout", c2="refunds").of(D)) == "from refunds"
    assert str(named(lives(*HISTORY), c0="checkout", c3="probes").of(D)) == "probes"


def test_a_cluster_that_goes_on_in_the_next_version_keeps_its_name():
    next_ = "p0/2/0"
    started = event(
        5, "version_started", None, version=2, before=[cluster(A) | {"successor": next_}], after=[cluster(next_)]
    )
    names = named(lives(*HISTORY, started), c0="checkout")
    assert str(names.of(next_)) == "checkout"


def test_two_clusters_that_came_from_each_other_end_the_search():
    back = event(5, "absorbed", A, C, before=[cluster(A), cluster(C)], after=[cluster(C, 90)])
    names = named(lives(*HISTORY, back), c3="probes")
    assert not names.of(A)
    assert not names.of(C)


def test_a_name_is_removed_by_a_tombstone_and_foreign_messages_are_left_out():
    names = named(lives(), c0="checkout")
    long = {"cluster": A, "name": "x" * 81}
    for key, value in ((None, "{}"), (A, "no JSON"), (A, {"cluster": B, "name": "x"}), (b"\xff", "{}"), (A, long)):
        assert not names.apply(key, value)
    assert not names.apply(A, {"cluster": A, "name": "two\nlines"})
    assert str(names.of(A)) == "checkout"
    assert names.apply(A.encode(), None)
    assert not names.of(A)


def test_the_lives_have_sizes_times_and_ties_and_repeats_change_nothing():
    known = lives(*HISTORY, *HISTORY[-1:], HISTORY[2]).lives
    life = known[B]
    assert (life.size, life.began, life.beginning) == (40, TIME.format(1), "emerged")
    assert (life.ended, life.end, life.heir) == (TIME.format(4), "absorbed", A)
    assert (known[A].absorbed, known[A].splits) == ((B,), (C,))
    assert (known[D].origin, known[C].origin, known[A].origin) == (C, A, None)
    late = ClusterTable(strict=False)
    assert [late.apply(each) for each in (HISTORY[4], *HISTORY)] == [True] + [False] * 5
    # The events from before are read behind it.
    assert late.lives == known == lives(*HISTORY).lives


def test_a_stream_that_ends_or_begins_anew_ends_its_clusters():
    ended = lives(HISTORY[0], event(1, "stream_ended", None, before=[cluster(A)]))
    assert ended.lives[A].end == "stream_ended"
    begun = lives(HISTORY[0], event(0, "version_started", None, version=2, before=[cluster(A)]))
    assert begun.lives[A].end == "version_started"
    silent = lives(event(7, "version_started", None, after=[cluster(A)]))
    assert (silent.lives[A].beginning, silent.lives[A].ended) == ("version_started", None)


FOUR = [
    cluster("p0/1/0", latency=10.0, hits=90.0, same=5.0),
    cluster("p0/1/1", latency=50.0, hits=90.0, same=5.0),
    cluster("p0/1/2", latency=10.0, hits=10.0, same=5.0),
    cluster("p0/1/3", latency=50.0, hits=10.0, same=5.0),
]


def test_an_automatic_name_has_the_features_that_set_a_cluster_apart():
    automatic = AutomaticNames()
    three = [cluster(f"p0/1/{n}", other=1.0, latency=value) for n, value in enumerate((10.0, 50.0, 90.0))]
    assert [automatic.name(each, three) for each in three] == ["latency low", "latency near 50", "latency high"]
    found = [AutomaticNames().name(each, FOUR) for each in FOUR]
    assert len(set(found)) == 4
    assert all("latency" in name and "hits" in name and "same" not in name for name in found)
    assert AutomaticNames().name(FOUR[0], FOUR[:1]) == ""


def test_an_automatic_name_stays_while_it_is_true():
    automatic = AutomaticNames()
    low, high = cluster("p0/1/0", a=10.0, b=10.0), cluster("p0/1/1", a=50.0, b=49.0)
    assert automatic.name(high, [low, high]) == "a high"
    # By now b sets it apart more, but a still does.
    changed = cluster("p0/1/1", a=50.0, b=99.0)
    assert automatic.name(changed, [low, changed]) == "a high"
    assert AutomaticNames().name(changed, [low, changed]) == "b high"
    higher = cluster("p0/1/2", a=80.0, b=10.0)
    assert automatic.name(changed, [low, changed, higher]) == "b high"
    assert automatic.last("p0/1/1") == "b high"


def test_an_automatic_name_is_of_the_events_and_of_one_level():
    automatic = AutomaticNames()
    automatic.apply(event(0, "emerged", A, after=[cluster(A, a=1.0)]))
    automatic.apply(event(1, "emerged", B, after=[cluster(B, a=90.0)]))
    automatic.apply({"kind": "of a later release"})
    assert automatic.last(B) == "a high"
    below = cluster("p0/1/0.4", a=99.0)
    assert automatic.name(below, [cluster(A, a=1.0), below]) == ""
    salient = cluster("p0/1/5", a=1.0) | {"salient": [{"feature": "a", "salience": 1.0, "weight": 1.0}]}
    assert automatic.name(salient, [salient]) == "a"


@pytest.mark.parametrize("given", ["", " x", "a\tb", None, 7])
def test_what_is_no_line_of_text_is_no_name(given):
    assert not ClusterNames().apply(A, {"cluster": A, "name": given})
