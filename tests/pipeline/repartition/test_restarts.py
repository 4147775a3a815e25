"""Both hops after crashes, repeats and recoveries: as if nothing had happened, or by name."""

from collections import defaultdict
from dataclasses import replace

import orjson
import pytest
from resonance.pipeline import mismatches
from resonance.pipeline.checkpoint import restore
from resonance.pipeline.checkpoint.deployment_context import DeploymentContext
from resonance.pipeline.errors import BrokerError, MismatchError
from resonance.pipeline.inspect import listing
from resonance.pipeline.inspect.inspection import inspect
from resonance.pipeline.kafka.positions import Position, Span
from resonance.pipeline.records import Record
from resonance.pipeline.recovery import recovery, reset, rollback
from resonance.pipeline.recovery.reset import plan_stream_reset
from resonance.pipeline.task.stream_task import TaskContext
from resonance.pipeline.tasks import make_task
from resonance.pipeline.verify import verify

from tests.pipeline.memory_deployment import EMITTED, KEYED, rekeyed
from tests.pipeline.repartition.two_hops import ROUTES, Hops, settings
from tests.pipeline.streams import STAMP, TOPIC, value_of
from tests.pipeline.streams import settings as any_settings

MORE = {"snapshots__records": 120, "snapshots__ratio": 0}


def written(deployment, *, once=False):
    """Everything on the output topics; each message once if so."""
    found = {}
    for kind in EMITTED:
        for partition in range(3):
            log = deployment.logs.get((deployment.given.topic(kind), partition), [])
            some = [(record.key, record.value, tuple(map(tuple, record.headers))) for record in log]
            found[kind, partition] = list(dict.fromkeys(some)) if once else some
    return found


def by_stream(deployment):
    """What stands on the output topics of each stream, in its order."""
    found = defaultdict(list)
    for place, messages in written(deployment).items():
        for message in messages:
            found[place, orjson.loads(message[1] or b"{}").get("stream")].append(message)
    return dict(found)


def sources_of_answers(deployment, partitions=2):
    logs = [deployment.logs[deployment.given.topic("assignments"), partition] for partition in range(partitions)]
    return [tuple(orjson.loads(record.value)["source"].values()) for log in logs for record in log]


def test_a_run_in_pieces_is_one_that_never_stopped(monkeypatch):
    calm = rekeyed(monkeypatch, **MORE)
    calm.turn()
    # The same order of learning.
    broken = rekeyed(monkeypatch, **MORE)
    broken.turn(only=TOPIC)
    for share in (0.1, 0.4, 0.0, 0.7, 1.0):
        broken.turn(share, only=ROUTES)
    assert broken.models() == calm.models()
    # The answers of streams that are learned in several places take turns in a partition as it happens.
    assert (by_stream(broken), len(calm.models())) == (by_stream(calm), 3)


def test_where_the_first_hop_stands_is_written_now_and_then(monkeypatch):
    deployment = rekeyed(monkeypatch, partitions=1, snapshots__records=100)
    for _ in range(3):
        deployment.turn(0.3, only=TOPIC)
    record = restore.read_tables(deployment, deployment.source, {0})[0].records()[TOPIC]
    assert deployment.offsets[TOPIC, 0] - record.position < 300
    seen = len(deployment.seen)
    deployment.turn(0, only=TOPIC)
    read = [r for r in deployment.seen[seen:] if r.topic == TOPIC]
    assert len(read) == deployment.offsets[TOPIC, 0] - record.position


def test_a_reset_begins_behind_the_routes_with_a_version_that_was_never_used(monkeypatch):
    deployment = rekeyed(monkeypatch)
    deployment.turn(everything=True)
    deployment.turn(only=TOPIC)
    changes = reset.plan_reset(deployment.source)
    to = {change.at: change.offset for change in changes}
    assert {to[TOPIC, p] for p in range(2)} == {0}
    assert all(to[ROUTES, p] == deployment.bounds([(ROUTES, p)])[ROUTES, p][1] for p in range(3))
    assert sorted(s.stream for c in changes for s in c.streams) == ["DE", "FR", "IT"]
    assert all(c.at[0] == ROUTES for c in changes if c.streams)
    deployment.write(deployment.source, changes)
    said = deployment.turn()
    answers = [orjson.loads(m.value) for at in said for m in said[at].assignments]
    assert len(answers) == 900
    assert {answer["version"] for answer in answers} == {2}


def test_more_routes_are_told_apart_and_a_reset_uses_no_version_again(monkeypatch):
    deployment = rekeyed(monkeypatch)
    deployment.turn(everything=True)
    more = replace(deployment.source.deployment, routes=5)
    for kind in ("routes", "snapshots", "cluster_events", "clusters", "archive"):
        for partition in (3, 4):
            deployment.logs[deployment.given.topic(kind), partition] = []
    deployment.source = DeploymentContext.of(deployment.given, {}, more)
    with pytest.raises(MismatchError, match=r"the routes .* have 5 partitions") as stopped:
        deployment.models()
    assert stopped.value.remedies == (mismatches.RESET,)
    deployment.write(deployment.source, reset.plan_reset(deployment.source))
    said = deployment.turn()
    assert {orjson.loads(m.value)["version"] for at in said for m in said[at].assignments} == {2}


def test_the_input_may_get_partitions(monkeypatch):
    deployment = rekeyed(monkeypatch)
    deployment.turn(everything=True)
    for kind in ("input", "assignments", "dead_letters"):
        deployment.logs[TOPIC if kind == "input" else deployment.given.topic(kind), 2] = []
    deployment.logs[TOPIC, 2] = [record._replace(partition=2) for record in deployment.logs[TOPIC, 0][:50]]
    more = replace(deployment.source.deployment, partitions=3)
    deployment.source = DeploymentContext.of(deployment.given, {}, more)
    said = deployment.turn()
    answers = [orjson.loads(m.value) for at in said for m in said[at].assignments]
    assert {(a["source"]["partition"], a["version"]) for a in answers} == {(2, 1)}
    assert len(answers) == 50
    # What was emitted before is what would be emitted now.
    verdict = verify.verify(deployment.given, Span.parse())
    assert verdict.identical, verdict.differences()
    assert [part.records for part in verdict.parts if part.topic == TOPIC] == [450, 450, 50]


@pytest.mark.parametrize("changes", [{}, KEYED])
def test_what_is_routed_from_a_partition_that_is_not_known_yet_is_lost_nowhere(monkeypatch, changes):
    calm, early = (rekeyed(monkeypatch, partitions=3, **MORE, **changes) for _ in range(2))
    calm.turn()
    early.turn(only=TOPIC)
    now = early.source
    before = DeploymentContext.of(early.given, {}, replace(now.deployment, partitions=2))
    early.source = before
    with pytest.raises(BrokerError, match=r"names features\[2\]@\d+, and that topic had 2 partitions.* start again"):
        early.turn(only=ROUTES)
    early.source = now
    early.turn(0.5, only=ROUTES)
    known = early.models()
    # Models are the log's, whatever their builder knows of the input.
    early.source = before
    assert early.models() == known
    early.source = now
    early.turn(only=ROUTES)
    assert early.models() == calm.models()
    assert {place: sorted(map(repr, found)) for place, found in written(early).items()} == {
        place: sorted(map(repr, found)) for place, found in written(calm).items()
    }
    assert len(sources_of_answers(early, 3)) == 900


def test_with_a_keyed_hierarchy_the_input_may_not(monkeypatch):
    deployment = rekeyed(monkeypatch, **KEYED)
    deployment.turn(everything=True)
    for kind in ("input", "assignments", "dead_letters"):
        deployment.logs[TOPIC if kind == "input" else deployment.given.topic(kind), 2] = []
    more = replace(deployment.source.deployment, partitions=3)
    deployment.source = restore.DeploymentContext.of(deployment.given, {}, more)
    # Keys are in other partitions now than their models.
    with pytest.raises(MismatchError, match=r"has 3 partitions, .* when it had 2") as stopped:
        deployment.turn()
    assert stopped.value.remedies == (mismatches.NEW_VERSION, mismatches.RESET)


@pytest.mark.parametrize("stream", ["key", "topic"])
def test_another_choice_of_streams_is_a_stop_that_only_a_reset_repairs(monkeypatch, stream):
    deployment = rekeyed(monkeypatch)
    deployment.turn(everything=True)
    deployment.given = any_settings(stream=stream, input__id_path="id")
    deployment.source = DeploymentContext.of(deployment.given, {}, deployment.source.deployment)
    with pytest.raises(MismatchError, match=f"learned with stream = field:country, it is {stream}") as stopped:
        restore.restore_partitions(deployment.source, [(TOPIC, 0)], deployment.task)
    assert stopped.value.remedies == (mismatches.RESET,)


def test_a_new_version_learns_each_route_once(monkeypatch):
    deployment = rekeyed(monkeypatch, snapshots__records=10_000)
    deployment.turn(0.4)
    deployment.turn(0.5, only=TOPIC)
    deployment.given = settings("field:country", input__id_path="id", snapshots__records=10_000, engine__memory=300)
    deployment.source = restore.DeploymentContext.of(deployment.given, {}, deployment.source.deployment)
    assert recovery.recover(mismatches.NEW_VERSION, deployment.source) == 5
    deployment.turn()
    answered = sources_of_answers(deployment)
    assert len(set(answered)) == len(answered) == 900


def test_one_stream_is_forgotten_where_it_is_learned(monkeypatch):
    deployment = rekeyed(monkeypatch)
    deployment.turn(0.7)
    change = plan_stream_reset(deployment.source, "FR")
    assert change.at[0] == ROUTES
    assert [s.stream for s in change.streams] == ["FR"]
    deployment.write(deployment.source, [change])
    said = deployment.turn()
    answers = [orjson.loads(m.value) for at in said for m in said[at].assignments]
    assert {(a["stream"], a["version"]) for a in answers} == {("DE", 1), ("FR", 2), ("IT", 1)}


def test_going_back_to_archives_emits_the_same_again(monkeypatch):
    deployment = rekeyed(monkeypatch)
    deployment.turn(0.5, archive=True, everything=True)
    places = dict(deployment.offsets)
    deployment.turn(0.5, everything=True)
    before, models = written(deployment, once=True), deployment.models()
    changes, _ = rollback.plan_return(deployment.source, Position(offset=max(places.values())))
    assert {change.at[0] for change in changes} == {ROUTES}
    deployment.write(deployment.source, changes)
    deployment.turn(0.6)
    deployment.turn(0.5)
    after = written(deployment, once=True)
    for place, some in before.items():
        assert after[place][: len(some)] == some
    assert set(models) == set(deployment.models())


def test_a_stream_is_inspected_where_it_is_learned(monkeypatch):
    deployment = rekeyed(monkeypatch)
    deployment.turn(everything=True)
    states = listing.read_states(deployment.source, deployment)
    assert [state.at[0] for state in states] == [TOPIC] * 2 + [ROUTES] * 3
    (found,) = inspect(deployment.given, deployment, states, "DE")
    assert (found.stream, found.topic, found.records) == ("DE", ROUTES, 360)
    assert found.clusters
    assert all(cluster.emerged is not None for cluster in found.clusters)
    # Its answers are in the partitions of its records.
    assert sum(cluster.recent for cluster in found.clusters) > 0.5
    assert make_task(deployment.given, ROUTES, 0).models.names == []


def test_both_hops_read_what_the_other_release_of_their_state_says():
    hops = Hops(settings())
    hops.send([Record(TOPIC, 0, 0, STAMP, None, value_of([1, 2, 3]))])
    state = hops.task(TOPIC, 0).partition_state()
    other = make_task(settings(), TOPIC, 0, TaskContext(routes=2))
    other.restore_partition(state)
    assert other.partition_state() == state
    with pytest.raises(MismatchError, match="cannot be read"):
        other.restore_partition(b"{}")
