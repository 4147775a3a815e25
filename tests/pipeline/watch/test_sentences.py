"""Events are sentences that name clusters and the features that changed."""

import pytest
from resonance.pipeline.errors import number
from resonance.pipeline.watch.drift_sentences import drift_sentence
from resonance.pipeline.watch.sentences import sentence
from resonance.schemas.sets_apart import columns


def cluster(name, size=100, spread=10.0, **centre):
    return {"id": name, "size": size, "centre": centre, "spread": dict.fromkeys(centre, spread), "nodes": 3}


def event(kind, cluster=None, other=None, before=(), after=(), **more):
    given = {"kind": kind, "stream": "p0", "version": 1, "level": 1, "seq": 0, "cluster": cluster} | more
    given |= {"before": list(before), "after": list(after), "time": "2026-01-05T08:00:00.000Z"}
    return given | ({"other": other} if other else {})


def test_a_split_says_from_what_and_where_it_went():
    old, new = cluster("p0/1/3", latency_ms=80, cpu=5), cluster("p0/1/7", latency_ms=420, cpu=6)
    text = sentence(event("split", "p0/1/7", "p0/1/3", [cluster("p0/1/3", latency_ms=200, cpu=5)], [old, new]))
    assert text == "p0/1/7 split from p0/1/3: latency_ms 80 -> 420"


def test_the_features_that_moved_most_for_their_spread_come_first():
    old, new = cluster("a", x=0, y=0, z=0, u=0), cluster("b", x=30, y=900, z=-60, u=25)
    assert sentence(event("split", "b", "a", after=[old, new])) == "b split from a: y 0 -> 900, z 0 -> -60"


def test_a_split_in_which_nothing_moved_much_still_names_one_feature():
    old, new = cluster("a", x=1, y=1), cluster("b", x=1, y=4)
    assert sentence(event("split", "b", "a", after=[old, new])) == "b split from a: y 1 -> 4"


def test_of_many_features_those_are_shown_that_differ_most_in_their_order():
    one, other = cluster("a", x=0, y=0, z=500, u=0), cluster("b", x=1, y=40, z=501, u=90)
    assert columns([one, other], 2) == ["y", "u"]
    assert columns([one, other], 9) == ["x", "y", "z", "u"]
    assert columns([one], 2) == ["x", "y"]
    assert columns([], 2) == []


def test_an_absorption_says_how_long_the_cluster_lived_and_what_became_of_it():
    before = [cluster("b", 1204, x=50), cluster("a", x=10)]
    text = sentence(event("absorbed", "b", "a", before, [cluster("a", 2304, x=20)]))
    assert text == "b was absorbed by a after 1,204 records: x 50 -> 20; 2,304 records together"


def test_an_emerged_cluster_is_described_by_its_first_features():
    text = sentence(event("emerged", "a", after=[cluster("a", 31, x=1.2345, y=2, z=12345.6, u=0)]))
    assert text == "a emerged: x 1.23, y 2, z 12,346; 31 records"


def test_an_emerged_cluster_is_described_by_what_sets_it_apart_from_its_peers():
    new = cluster("c", 31, x=1, y=500, z=3, u=4)
    peers = [cluster("a", x=1, y=0, z=90, u=4), cluster("b", x=900, y=10, z=3, u=4)]
    assert sentence(event("emerged", "c", after=[new]), peers).startswith("c emerged: y 500, ")


def test_a_cluster_that_explains_itself_is_described_by_its_salient_features():
    salient = [{"feature": name, "salience": 0.9, "weight": 0.5} for name in ("oil", "left_out", "price")]
    new = cluster("c", 31, a=1, oil=0.5, price=0.25) | {"salient": salient}
    assert (
        sentence(event("emerged", "c", after=[new]), [cluster("b", a=0)])
        == "c emerged: oil 0.5, price 0.25; 31 records"
    )


def test_a_vanished_cluster_and_a_new_version():
    assert sentence(event("vanished", "a", before=[cluster("a", 1, x=1)])) == "a vanished after 1 record: x 1"
    text = sentence(event("version_started", before=[cluster("a"), cluster("b")], version=2))
    assert text == "p0 began version 2: 2 clusters ended"
    part = event("version_started", before=[cluster("c")], after=[], version=2, part=2, parts=3)
    assert sentence(part) == "p0 version 2, part 2 of 3 of its list: 1 cluster ended, 0 clusters there"


def test_a_stream_that_ended():
    ended = event("stream_ended", before=[cluster("a"), cluster("b")], version=2)
    assert sentence(ended) == "p0 ended, version 2: 2 clusters ended"
    part = {**ended, "part": 1, "parts": 3}
    assert sentence(part) == "p0 ended, version 2, part 1 of 3 of its list: 2 clusters ended"


def test_what_the_event_does_not_describe_is_left_out():
    assert sentence(event("split", "b", "a")) == "b split from a"


@pytest.mark.parametrize(
    ("value", "text"), [(0.04561, "0.0456"), (420.4, "420"), (12345.6, "12,346"), (-3.0, "-3"), (999.7, "1,000")]
)
def test_numbers_are_short(value, text):
    assert number(value) == text
    listed = event("version_started", after=[cluster("a"), cluster("b")])
    assert sentence(listed) == "p0 is emitted from here on, version 1: 2 clusters there"
    listed["before"] = [cluster("c")]
    assert sentence(listed) == "p0 is emitted from here on, version 1: 2 clusters there, 1 cluster of before ended"
    listed["before"] = [{**cluster("c"), "successor": "a"}, {**cluster("d"), "successor": "b"}]
    assert sentence(listed).endswith("2 clusters there, 2 clusters of before ended, of which 2 go on")


@pytest.mark.parametrize(("seen", "said"), [(140, ", seen at 140"), (35, "")])
def test_where_drift_was_seen_is_left_out_in_another_topic_than_where_it_began(seen, said):
    since = {"offset": 120, "time": "2026-01-05T08:00:00.000Z"}
    change = {"cluster": "a", "change": ["together"], "features": []}
    drift = {"kind": "drift", "stream": "s", "units": [change], "since": since, "cause": {"source": {"offset": seen}}}
    assert drift_sentence(drift) == f"a's features vary together differently, since about offset 120 (08:00:00){said}"


def test_what_a_feature_is_beside_the_others_is_said_so():
    moved = {"feature": "warm", "change": "moved", "before": 43.0, "after": 55.2, "shift": 8.1, "ratio": 1.0}
    unit = {"cluster": None, "change": ["moved"], "features": [moved], "beside": True}
    drift = {"kind": "drift", "stream": "p0:m03", "units": [unit]}
    assert drift_sentence(drift) == "p0:m03 moved: warm 43 -> 55.2 (+8.1 spreads) beside what would be usual"


def test_the_other_cluster_of_a_drift_is_named():
    units = [
        {
            "cluster": f"p0/1/{n}",
            "change": ["more"],
            "share": {"before": 0.1, "after": 0.2 + n / 10},
            "features": [],
            "score": 9.0 - n,
        }
        for n in range(3)
    ]
    drift = {
        "kind": "drift",
        "stream": "p0",
        "version": 1,
        "seq": 0,
        "since": {"offset": 5, "time": "2026-01-05T08:00:00Z"},
    }
    assert "; also p0/1/" in drift_sentence({**drift, "units": units[:2]})
    assert "; also 2 more (--json names them)" in drift_sentence({**drift, "units": units})
