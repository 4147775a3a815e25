"""A deployment whose streams end: what its commands find, and what a consumer knows of it."""

import orjson
import pytest
from resonance.pipeline.errors import ConfigurationError
from resonance.pipeline.kafka.positions import Position
from resonance.pipeline.recovery import recovery, reset, rollback
from resonance.pipeline.replay.opening import Span
from resonance.pipeline.replay.replaying import ReplayOutput, replay_topics
from resonance.schemas import ClusterTable

from tests.pipeline.commands import run
from tests.pipeline.memory_deployment import MemoryDeployment
from tests.pipeline.streams import TOPIC, payloads
from tests.pipeline.task.test_stream_ttl import OWN, ends, given, log_of

pytestmark = pytest.mark.usefixtures("blocks_of_one")

AT = (TOPIC, 0)


@pytest.fixture
def deployment(monkeypatch):
    """One partition whose streams come and go, worked on in four parts, archived behind three of them."""
    made = MemoryDeployment(monkeypatch, records=0, **OWN)
    made.logs[AT] = log_of(7)
    for until in (230, 455, 700):
        made.work(until, archive=True)
    made.work(918)
    return made


def test_a_verification_finds_every_end(deployment):
    assert len([event for event in deployment.recorded("cluster_events") if b"stream_ended" in event.value]) > 5
    for span in ({}, {"begin": "300"}, {"begin": "700"}):
        verdict = deployment.verify(**span)
        assert verdict.identical
        assert verdict.parts[0].older == 0
        assert span or verdict.parts[0].events == len(deployment.recorded("cluster_events"))
        assert not [note for note in verdict.parts[0].notes if "version" in note]


def test_a_replay_gives_the_same_bytes(deployment, tmp_path):
    span = Span.parse(begin="300", end="800")
    (part,) = replay_topics(deployment.given, [TOPIC], span, ReplayOutput(tmp_path)).parts
    assert part.start.startswith("from the archive at offset 230")
    assert not part.notes
    wanted = [
        orjson.loads(event.value)
        for event in deployment.recorded("cluster_events")
        if 300 <= orjson.loads(event.value)["cause"]["source"]["offset"] < 800
    ]
    found = [orjson.loads(line) for line in (tmp_path / "cluster-events.jsonl").read_bytes().splitlines()]
    assert [each.get("value", each) for each in found] == wanted
    assert "stream_ended" in {event["kind"] for event in wanted}


def test_a_consumer_knows_the_living_streams_alone(deployment):
    table, late = ClusterTable(), ClusterTable()
    for event in deployment.recorded("cluster_events"):
        assert table.apply(event.value)
    for event in deployment.recorded("cluster_events")[-40:]:
        assert not table.apply(event.value)
    for record in deployment.recorded("clusters"):
        late.apply_cluster(record.key, record.value)
    models = deployment.restored(TOPIC)[AT].task.models
    present = {cluster["id"] for name in models.names for cluster in models.clusters(name)}
    assert present
    assert {*table.clusters()} == {*late.clusters()} == present
    assert {*table.streams} <= {*models.names}
    assert {*late.streams} <= {*models.names}


def test_a_rollback_behind_an_end_is_done_again_by_the_log(deployment):
    recorded = [(event.key, event.value) for event in deployment.recorded("cluster_events")]
    changes, _ = rollback.plan_return(deployment.source, Position(offset=300))
    deployment.write(deployment.source, changes)
    assert deployment.committed([AT])[AT] == 230
    again = deployment.work(918)
    found = [(event.key, event.value) for event in again.cluster_events]
    assert found == recorded[-len(found) :]
    assert "stream_ended" in {event["kind"] for event in payloads(again.cluster_events)}


def test_a_reset_under_other_settings_uses_no_version_again(deployment):
    used = {event["version"] for event in map(orjson.loads, (e.value for e in deployment.recorded("cluster_events")))}
    deployment.take_settings(deployment.changed(**OWN, engine__lambda=21))
    reset.reset(deployment.source)
    outputs = deployment.work(918)
    versions = {event["version"] for event in payloads(outputs.cluster_events)}
    assert min(versions) > max(used)


def test_after_the_setting_is_off_no_version_comes_again(deployment):
    deployment.work(918, everything=True)
    model = deployment.restored(TOPIC)[AT].task.models
    newest = model.new_version
    assert newest > 1
    changed = {**OWN, "limits__stream_ttl": 0.0}
    deployment.take_settings(deployment.changed(**changed))
    assert deployment.restored(TOPIC)[AT].task.models.new_version == newest
    deployment.logs[AT] += [record._replace(offset=record.offset + 918, key=b"new") for record in log_of(7)[:30]]
    outputs = deployment.work(949, everything=True)
    assert not ends(outputs)
    assert {answer["version"] for answer in payloads(outputs.assignments)} == {newest}
    assert deployment.restored(TOPIC)[AT].task.models.new_version == newest


def test_streams_from_before_the_setting_end_by_what_comes_after_it(monkeypatch):
    found = []
    for crash in (False, True):
        made = MemoryDeployment(monkeypatch, records=0, **{**OWN, "limits__stream_ttl": 0.0})
        made.logs[AT] = log_of(7)
        made.work(300, everything=True)
        before = made.restored(TOPIC)[AT].task.models.names
        made.take_settings(made.changed(**OWN))
        outputs = made.work(330)
        if crash:
            made.work(400)
        made.work(918)
        events = [orjson.loads(event.value) for event in made.recorded("cluster_events")]
        assert not ends(outputs)
        found.append([(e["stream"], e["cause"]["source"]["offset"]) for e in events if e["kind"] == "stream_ended"])
        assert {*before} & {stream for stream, _ in found[-1]}
    assert found[0] == found[1]


@pytest.mark.parametrize(
    ("changed", "remedy"),
    [
        ({"stream": "partition"}, "needs stream = key, and stream is partition: .* leave it out"),
        ({"stream": "topic"}, "needs stream = key, and stream is topic"),
        ({"stream": "field:country"}, "needs stream = key, and stream is field:country"),
        ({"stream": None}, "needs stream = key, and stream is not set"),
        ({"engine__name": "hcaea", "hierarchy": "keyed"}, "hierarchy = keyed, .* choose hierarchy = local"),
        ({"delivery__mode": "at_least_once"}, "needs delivery.mode = exactly_once, .* choose that mode"),
    ],
)
def test_what_does_not_go_together_is_refused(changed, remedy):
    with pytest.raises(ConfigurationError, match=f"limits.stream_ttl = 1.0: .*{remedy}"):
        given(**changed)


def test_a_new_version_begins_no_stream_that_has_ended(deployment):
    living = deployment.restored(TOPIC)[AT].task.models.names
    deployment.take_settings(deployment.changed(**OWN, engine__lambda=21))
    assert recovery.begin_versions(deployment.source) == 1
    models = deployment.restored(TOPIC)[AT].task.models
    assert {*models.names} == {*living}
    table = ClusterTable()
    for record in log_of(8):
        later = record._replace(offset=record.offset + 918, timestamp=record.timestamp + 30_000)
        deployment.logs[AT].append(later)
    deployment.work(1836)
    for event in deployment.recorded("cluster_events"):
        table.apply(event.value)
    models = deployment.restored(TOPIC)[AT].task.models
    assert {*table.clusters()} == {each["id"] for name in models.names for each in models.clusters(name)}


def _new_version(deployment):
    deployment.take_settings(deployment.changed(**OWN, engine__lambda=21))
    assert recovery.begin_versions(deployment.source) == 1


def _stream_resets(deployment):
    for stream in deployment.restored(TOPIC)[AT].task.models.names:
        change = reset.plan_stream_reset(deployment.source, stream)
        deployment.write(deployment.source, [change])


@pytest.mark.parametrize("begin_versions", [_new_version, _stream_resets])
@pytest.mark.parametrize("until", [230, 300])
def test_versions_that_begin_after_going_back_behind_an_end_were_never_used(deployment, begin_versions, until):
    used = {(event["stream"], event["version"]) for event in payloads(deployment.recorded("cluster_events"))}
    assert max(version for _, version in used) > 1
    changes, _ = rollback.plan_return(deployment.source, Position(offset=300))
    deployment.write(deployment.source, changes)
    deployment.work(until)
    living = {*deployment.restored(TOPIC)[AT].task.models.names}
    begin_versions(deployment)
    found = payloads(deployment.work(918).cluster_events)
    # A stream may end before it has a record of its new version.
    after = {(event["stream"], event["version"]) for event in found if event["kind"] != "stream_ended"}
    begun = {each for each in after if each[0] in living}
    assert begun
    assert used.isdisjoint(begun)


def test_a_stream_is_shown_as_its_snapshot_has_it(deployment, printed):
    models = deployment.restored(TOPIC)[AT].task.models
    assert orjson.loads(printed(run, "inspect", "--stream", models.names[0], "--json").out)
