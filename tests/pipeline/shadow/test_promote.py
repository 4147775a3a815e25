"""The models of a shadow take the place of the live ones: at one offset, under ids that were never used."""

from collections import Counter

import jsonschema
import orjson
import pytest
from resonance.pipeline.checkpoint.deployment_context import DeploymentContext
from resonance.pipeline.errors import ConfigurationError, MismatchError
from resonance.pipeline.shadow import promote as module
from resonance.pipeline.shadow.promote import plan_promotion
from resonance.schemas import ClusterTable, load_schema

from tests.pipeline.commands import run
from tests.pipeline.shadow.two import LIVE, SHADOW, Both, both
from tests.pipeline.streams import TOPIC, payloads, settings

__all__ = ["both"]

AT = (TOPIC, 0)


@pytest.fixture
def promote(monkeypatch):
    return lambda *options: run(monkeypatch, "promote", SHADOW, "--over", LIVE, *options)


def events(deployment):
    return payloads(deployment.recorded("cluster_events"))


def ids_begun(deployment):
    """Every id that events of a deployment let begin, in their order."""
    for event in events(deployment):
        known = {cluster["id"] for cluster in event["before"]}
        if event["kind"] in ("emerged", "split"):
            yield event["cluster"]
        elif event["kind"] == "version_started":
            yield from (cluster["id"] for cluster in event["after"] if cluster["id"] not in known)


def folded(deployment):
    table = ClusterTable()
    for event in events(deployment):
        table.apply(event)
    return table


def present(deployment):
    part = deployment.restored(TOPIC)[AT]
    return {name: {one["id"] for one in part.task.models.clusters(name)} for name in part.task.models.names}


def test_the_live_one_goes_on_with_the_models_of_the_shadow(both, promote):
    assert promote("--yes") == 0
    assert both.live.offsets == {AT: 600}
    both.promoted()
    ours, theirs = (one.restored(TOPIC)[AT].task.models for one in (both.live, both.shadow))
    for name in theirs.names:
        mine, other = ours.named(name), theirs.named(name)
        assert (mine.engine.state(), mine.preparation.state()) == (other.engine.state(), other.preparation.state())
        assert (mine.version, other.version) == (2, 1)
    both.live.grow(900)
    both.live.work(900, everything=True)
    both.shadow.work(900, everything=True)
    later = [one for one in payloads(both.live.recorded()) if one["source"]["offset"] >= 600]
    same = [one for one in payloads(both.shadow.recorded()) if one["source"]["offset"] >= 600]

    def renamed(answer):
        text = orjson.dumps(answer).decode().replace("/1/", "/2/").replace('"version":1', '"version":2')
        return orjson.loads(text)

    assert later == list(map(renamed, same))


def test_no_id_comes_twice_events_have_no_gap_and_what_is_recorded_is_identical(both, promote):
    assert both.live.verify().identical
    promote("--yes")
    both.promoted()
    both.live.grow(900)
    both.live.work(700, archive=True)
    both.live.work(900, everything=True)
    assert set(Counter(ids_begun(both.live)).values()) == {1}
    table = folded(both.live)
    for name, clusters in present(both.live).items():
        assert set(table.clusters(name)) == clusters
    by_topic = ClusterTable.from_clusters(
        (one.key, orjson.loads(one.value or b"null")) for one in both.live.recorded("clusters")
    )
    assert by_topic.clusters().keys() == table.clusters().keys()
    (part,) = both.live.verify().parts
    assert (part.difference, part.begin, part.records) == (None, 600, 300)
    assert part.events > 2


def test_clusters_that_agree_name_their_successors(both, promote, monkeypatch, capsys):
    run(monkeypatch, "compare", LIVE, SHADOW, "--json")
    agreeing = orjson.loads(capsys.readouterr().out)["agreeing"]
    before = present(both.live)
    there = {one for clusters in present(both.shadow).values() for one in clusters}
    promote("--yes")
    both.promoted()
    both.live.grow(640)
    both.live.work(640, everything=True)
    begun = [event for event in events(both.live) if event["kind"] == "version_started"]
    assert {event["stream"] for event in begun} == {"p0:a", "p0:b"}
    named = {cluster["id"]: cluster.get("successor") for event in begun for cluster in event["before"]}
    assert set(named) == set().union(*before.values())
    wanted = {ours: theirs.replace("/1/", "/2/") for ours, theirs in agreeing.items() if theirs in there}
    assert {ours: theirs for ours, theirs in named.items() if theirs} == {
        ours: theirs for ours, theirs in wanted.items() if ours in named
    }
    assert len(wanted) > 2
    for event in begun:
        jsonschema.validate(event, load_schema("cluster_event"))
    table = folded(both.live)
    for ours, theirs in wanted.items():
        if ours in named:
            assert table.resolve(ours) == table.resolve(theirs)
    ended = {one["id"]: one for one in map(orjson.loads, (r.value for r in both.live.recorded("clusters") if r.value))}
    assert {ours: ended[ours]["successors"] for ours in named} == {
        ours: [theirs] if theirs else [] for ours, theirs in named.items()
    }


def test_nothing_is_changed_without_yes(both, promote, capsys):
    before = {at: len(log) for at, log in both.live.logs.items()}
    assert promote() == 0
    shown = capsys.readouterr()
    assert {at: len(log) for at, log in both.live.logs.items()} == before
    assert 'setting: engine was "modal", is "caea"' in shown.out
    assert "p0:a/1/0" in shown.out
    assert "version 1 at offset 600  version 2 at offset 600" in shown.out
    assert "nothing was changed; this does it: resonance promote orders-shadow --over orders --yes" in shown.out
    assert "workers of orders must then be started with the settings of orders-shadow" in shown.err


def test_a_worker_with_the_old_settings_does_not_start(both, promote):
    promote("--yes")
    with pytest.raises(MismatchError, match='learned with other settings: engine was "caea", is "modal"'):
        both.live.restored(TOPIC)


@pytest.mark.parametrize("until", [420, 600])
def test_a_shadow_that_stands_elsewhere_is_taken_at_the_live_offset(monkeypatch, promote, until):
    both = Both(monkeypatch, engine__name="caea")
    both.live.work(510, everything=True)
    both.shadow.work(300, archive=True)
    both.shadow.work(until, everything=True)
    assert promote("--yes") == 0
    both.promoted()
    assert both.live.offsets == {AT: 510}
    both.live.work(600, everything=True)
    if until < 600:
        both.shadow.work(600, everything=True)
    ours, theirs = (one.restored(TOPIC)[AT].task.models for one in (both.live, both.shadow))
    assert [ours.named(name).engine.state() for name in theirs.names] == [
        theirs.named(name).engine.state() for name in theirs.names
    ]
    assert both.live.verify().identical


def test_a_shadow_too_far_behind_for_a_comparison_has_no_successors(monkeypatch, promote, capsys):
    monkeypatch.setattr(module, "LOOK", 20)
    both = Both(monkeypatch, engine__name="caea")
    both.live.work(510, everything=True)
    both.shadow.work(420, everything=True)
    assert promote("--yes", "--json") == 0
    assert orjson.loads(capsys.readouterr().out)["successors"] == {}
    assert both.live.offsets == {AT: 510}


def test_a_stream_that_only_the_live_one_has_begins_a_new_model(monkeypatch, promote, capsys):
    both = Both(monkeypatch, engine__name="caea")
    log = both.live.logs[AT]
    # The shadow began later, where one of the streams has no records any more.
    log[300:400] = [record._replace(key=b"a") for record in log[300:400]]
    both.live.work(400, everything=True)
    both.shadow.firsts[AT] = 300
    both.shadow.work(400, everything=True)
    both.shadow.firsts.clear()
    assert promote("--yes") == 0
    both.promoted()
    capsys.readouterr()
    # Nor does the same command again begin one more.
    assert promote("--yes", "--json") == 0
    assert orjson.loads(capsys.readouterr().out)["partitions"] == []
    both.live.work(600, everything=True)
    begun = {event["stream"]: event for event in events(both.live) if event["kind"] == "version_started"}
    assert begun["p0:a"]["after"]
    assert begun["p0:b"]["before"]
    assert begun["p0:b"]["after"] == []
    assert set(Counter(ids_begun(both.live)).values()) == {1}
    folded(both.live)
    assert both.live.verify().identical


@pytest.fixture
def undone(monkeypatch, promote):
    """A live one that was archived at 150 and 300, promoted over at 600, and went back to 300 behind 900."""
    both = Both(monkeypatch, engine__name="caea")
    for until in (150, 300):
        both.live.work(until, everything=True, archive=True)
    for one in (both.live, both.shadow):
        one.work(600, everything=True)
    promote("--yes")
    given = both.live.given
    both.promoted()
    both.live.grow(900)
    both.live.work(700, archive=True)
    both.live.work(900, everything=True)
    both.live.take_settings(given)
    assert run(monkeypatch, "reset", "--to-archive", "500", "--yes") == 0
    return both


def test_undone_by_going_back_to_an_archive(undone):
    live = undone.live
    assert live.offsets == {AT: 300}
    before = payloads(live.recorded())[300:600]
    live.work(900, everything=True)
    after = payloads(live.recorded())[-600:-300]

    def place(answer):
        return answer["source"]["offset"], answer["score"], (answer["cluster"] or "//").rsplit("/")[-1]

    assert list(map(place, after)) == list(map(place, before))
    assert {answer["version"] for answer in after} == {3}
    assert set(Counter(ids_begun(live)).values()) == {1}
    table = folded(live)
    for name, clusters in present(live).items():
        assert set(table.clusters(name)) == clusters


def test_what_is_recorded_is_identical_after_it_was_undone(undone):
    undone.live.work(750, everything=True, archive=True)
    undone.live.work(900, everything=True)
    for begin in (None, "0", "200", "300", "650"):
        assert undone.live.verify(begin=begin).identical, begin


def test_it_can_be_promoted_once_more(undone, promote):
    undone.live.work(900, everything=True)
    undone.shadow.work(900, everything=True)
    assert promote("--yes") == 0
    undone.promoted()
    undone.live.grow(1_000)
    undone.live.work(1_000, everything=True)
    assert set(Counter(ids_begun(undone.live)).values()) == {1}
    assert all("/4/" in one for clusters in present(undone.live).values() for one in clusters)


def test_no_successor_is_promised_to_a_cluster_that_has_ended(both, promote, monkeypatch, capsys):
    agreeing = module.agreeing
    extra = {"p0:a/1/999": "p0:a/1/0", "p0:a/1/0": "p0:a/1/998"}
    monkeypatch.setattr(module, "agreeing", lambda *found: agreeing(*found) | extra)
    assert promote("--yes", "--json") == 0
    promised = orjson.loads(capsys.readouterr().out)["successors"]
    both.promoted()
    both.live.grow(700)
    both.live.work(700, everything=True)
    begun = [event for event in events(both.live) if event["kind"] == "version_started"]
    written = [one for event in begun for one in event["before"] if "successor" in one]
    assert set(promised) == {one["id"] for one in written}


def test_a_deployment_of_an_earlier_release_is_not_said_to_need_what_a_worker_needs(both, promote, capsys):
    both.live.grow(700)
    for one in (both.live, both.shadow):
        one.work(700)
    for (topic, _), log in both.live.logs.items():
        if topic.endswith("shadow.snapshots"):
            log[:] = [
                one._replace(value=one.value and one.value.replace(b'"revision":"', b'"revision":"0')) for one in log
            ]
    assert promote("--yes") == 65
    shown = capsys.readouterr().err
    assert "promote needs the models of orders-shadow as they are" in shown
    assert "worker --new-version" not in shown


def test_what_cannot_be_promoted_touches_nothing(monkeypatch, promote, capsys):
    both = Both(monkeypatch, given={"delivery__mode": "at_least_once"})
    for one in (both.live, both.shadow):
        one.work(300, everything=True)
    monkeypatch.setattr("resonance.pipeline.recovery.rewrite.end_open_transaction", lambda _: pytest.fail("opened"))
    assert promote("--yes") == 2
    assert "promote needs delivery.mode = exactly_once" in capsys.readouterr().err
    assert both.live.waited == []


@pytest.mark.parametrize("way", [("reset", "--to-archive", "310"), ("reset",)], ids=["archive", "beginning"])
@pytest.mark.parametrize("snapshots", [True, False])
@pytest.mark.usefixtures("blocks_of_one")
def test_going_back_before_the_end_of_a_stream_leaves_no_version_to_be_used_twice(monkeypatch, promote, way, snapshots):
    both = Both(monkeypatch, engine__name="caea", records=900, given={"limits__stream_ttl": 40})
    log = both.live.logs[AT]
    log[350:450] = [record._replace(key=b"a") for record in log[350:450]]
    both.live.work(300, everything=True, archive=True)
    both.live.work(340, everything=True)
    # The stream b ends, and comes back.
    both.live.work(900, everything=snapshots, snapshots=snapshots)
    assert run(monkeypatch, *way, "--yes") == 0
    both.live.work(320, everything=True)
    both.shadow.work(320, everything=True)
    assert promote("--yes") == 0
    both.promoted()
    both.live.work(900, everything=True)
    begun = [one for one in ids_begun(both.live) if "p0:b/" in one]
    again = {one for one, count in Counter(begun).items() if count > 1}
    # What was emitted again from the archive on is the same; the versions behind it are others.
    assert all("/1/" in one for one in again)


@pytest.mark.parametrize(
    ("new", "live", "text"),
    [
        ({"stream": "partition"}, {"stream": "key"}, "learned with stream = partition, orders with stream = key"),
        ({"stream": "field:id"}, {"stream": "field:id"}, "orders-shadow learns behind routes of its own"),
    ],
)
def test_what_cannot_go_on_in_the_other_is_refused(new, live, text):
    given = ((SHADOW, {"stream": "key", **new}), (LIVE, {"stream": "key", **live}))
    found = [DeploymentContext(settings(name=name, **changes), {}, None, {}) for name, changes in given]
    with pytest.raises(ConfigurationError, match=text):
        plan_promotion(*found)


def test_a_shadow_too_far_ahead_without_an_archive(monkeypatch, promote, capsys):
    both = Both(monkeypatch, engine__name="caea", given={"snapshots__archive_interval": 0})
    both.live.work(300, everything=True)
    both.shadow.work(600, everything=True)
    both.shadow.expire(TOPIC, 10)
    assert promote("--yes") == 65
    assert (
        "orders-shadow stands at offset 600, and its models at offset 300, where orders stands, are in no archive"
        in (capsys.readouterr().err)
    )


@pytest.mark.usefixtures("blocks_of_one")
def test_streams_that_end_end_as_those_of_the_shadow(monkeypatch, promote):
    both = Both(monkeypatch, engine__name="caea", records=900, given={"limits__stream_ttl": 40})
    log = both.live.logs[AT]
    for first in (350, 700):
        log[first : first + 100] = [record._replace(key=b"a") for record in log[first : first + 100]]
    for one in (both.live, both.shadow):
        one.work(600, everything=True)
    promote("--yes")
    both.promoted()
    for until in (720, 900):
        both.live.work(until, everything=True, archive=True)
    assert [one["cause"]["source"]["offset"] > 600 for one in events(both.live) if one["kind"] == "stream_ended"] == [
        False,
        True,
    ]
    assert set(Counter(ids_begun(both.live)).values()) == {1}
    folded(both.live)
    assert both.live.verify().identical
