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
from resonance.pipeline.kafka.positions import Position
from resonance.pipeline.kafka.ranges import Span
from resonance.pipeline.records import Record
from resonance.pipeline.recovery import past_models, recovery, reset, rollback
from resonance.pipeline.recovery.reset_stream import plan_stream_reset
from resonance.pipeline.repartition.deduplication import Deduplicator
from resonance.pipeline.repartition.envelope import read_route
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


def test_what_the_first_hop_writes_again_is_learned_once(monkeypatch):
    deployment = rekeyed(monkeypatch, **MORE)
    for share, lost in ((0.2, False), (0.5, True), (0.3, True), (0.5, False), (0.4, True), (1.0, False)):
        deployment.turn(share, only=TOPIC, lost=lost)
        deployment.turn(0.6, only=ROUTES)
    deployment.turn()
    routes = [record for p in range(3) for record in deployment.logs[ROUTES, p]]
    sources = {(record.partition, record.source_offset) for record, _ in map(read_route, routes)}
    assert len(sources) == 900 < len(routes)
    assert len(set(sources_of_answers(deployment))) == len(sources_of_answers(deployment)) == 900
    # From the routes alone, in one go.
    for partition in range(3):
        task = deployment.task(ROUTES, partition)
        task.process(deployment.logs[ROUTES, partition])
        assert {
            name: task.models.named(name).state() for name in task.models.names
        }.items() <= deployment.models().items()


def test_the_second_hop_learns_again_what_it_had_not_snapshotted_without_the_repeats_among_it(monkeypatch):
    deployment = rekeyed(monkeypatch, snapshots__records=10_000)
    deployment.turn(0.3)
    deployment.turn(0.5, only=TOPIC, lost=True)
    deployment.turn(0.5, only=TOPIC)
    deployment.turn(only=ROUTES)
    # Behind the repeats, with none of the streams snapshotted.
    restarted = deployment.models()
    deployment.turn(everything=True)
    fresh = rekeyed(monkeypatch, snapshots__records=10_000)
    fresh.logs[ROUTES, 0], fresh.logs[ROUTES, 1], fresh.logs[ROUTES, 2] = (deployment.logs[ROUTES, p] for p in range(3))
    fresh.turn(only=ROUTES)
    assert (fresh.models(), set(restarted)) == (deployment.models(), set(fresh.models()))


def route(number, before, offset, partition=0):
    source = b'["%b",%d,%d,%d,%d]' % (TOPIC.encode(), partition, number, STAMP, before)
    headers = (("resonance.source", source), ("resonance.key", None))
    return read_route(Record(ROUTES, 0, offset, STAMP, b"DE", b"{}", headers))


def numbers(repeats, *given, first=0):
    routes = [route(number, before, first + i) for i, (number, before) in enumerate(given)]
    return [record.source_offset for record in repeats.kept(routes)]


def test_repeats_are_dropped_and_what_comes_too_early_waits_for_its_predecessor():
    repeats = Deduplicator(ROUTES, 0)
    assert numbers(repeats, (3, -1), (5, 3), (3, -1), (5, 3), (6, 5)) == [3, 5, 6]
    # 8 was not stored: it and what followed it come again.
    assert numbers(repeats, (9, 8), (12, 9), (8, 6), (9, 8), (12, 9), first=5) == [8, 9, 12]
    assert (repeats.repeated, repeats.early) == (2, 2)
    # Who begins anew knows no predecessor.
    assert numbers(repeats, (12, -1), (14, -1), first=10) == [14]


def test_what_was_dropped_is_dropped_when_it_is_read_again():
    given = [(3, -1), (3, -1), (5, 3), (3, -1), (5, 3), (6, 5)]
    repeats = Deduplicator(ROUTES, 0)
    numbers(repeats, *given)
    again = Deduplicator(ROUTES, 0)
    again.restore(orjson.loads(orjson.dumps(repeats.state(0))))
    assert numbers(again, *given) == [3, 5, 6]
    assert numbers(again, (6, 5), (7, 6), first=6) == [7]


def test_the_oldest_runs_are_forgotten_and_nothing_is_guessed_then(monkeypatch):
    monkeypatch.setattr("resonance.pipeline.repartition.deduplication.KEPT", 1)
    repeats = Deduplicator(ROUTES, 0)
    numbers(repeats, (3, -1), (3, -1), (5, 3), (3, -1), (6, 5))
    kept, cut = repeats.state(0), repeats.state(4)
    assert (kept["dropped"], cut["dropped"], cut["forgotten"]) == ([[1, 1], [3, 3]], [[3, 3]], 1)
    again = Deduplicator(ROUTES, 0)
    again.restore(cut)
    assert numbers(again, (5, 3), (3, -1), (6, 5), first=2) == [5, 6]
    with pytest.raises(MismatchError, match="repeats; begin anew"):
        numbers(again, (3, -1), first=1)


def test_a_log_that_begins_in_the_middle_takes_the_first_of_each_partition():
    repeats = Deduplicator(ROUTES, 0)
    repeats.accept_any_predecessor()
    assert numbers(repeats, (9, 8), (12, 9), (15, 13), (13, 12), (15, 13)) == [9, 12, 13, 15]


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
    changes = reset.plan_reset(deployment.source, deployment.task)
    to = {change.at: change.offset for change in changes}
    assert {to[TOPIC, p] for p in range(2)} == {0}
    assert all(to[ROUTES, p] == deployment.bounds([(ROUTES, p)])[ROUTES, p][1] for p in range(3))
    assert sorted(s.stream for c in changes for s in c.streams) == ["DE", "FR", "IT"]
    assert all(c.at[0] == ROUTES for c in changes if c.streams)
    deployment.write(deployment.source, changes, atomic=True)
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
    deployment.write(deployment.source, reset.plan_reset(deployment.source, deployment.task), atomic=True)
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


def timed_out(deployment):
    """Let the first hop send records of which it commits none, and of which one was never stored."""
    before = {partition: len(deployment.logs[ROUTES, partition]) for partition in range(3)}
    deployment.turn(0.3, only=TOPIC, lost=True)
    for partition, count in before.items():
        log = deployment.logs[ROUTES, partition]
        if len(log) > count:
            del log[count]


@pytest.mark.parametrize("seen", [False, True])
def test_a_new_version_learns_what_timed_out_before_it(monkeypatch, seen):
    deployment = rekeyed(monkeypatch, snapshots__records=10_000)
    deployment.turn(0.4, only=TOPIC)
    deployment.turn(only=ROUTES)
    timed_out(deployment)
    if seen:
        deployment.turn(only=ROUTES)
    deployment.given = settings("field:country", input__id_path="id", snapshots__records=10_000, engine__memory=300)
    deployment.source = restore.DeploymentContext.of(deployment.given, {}, deployment.source.deployment)
    assert recovery.recover(mismatches.NEW_VERSION, deployment.given, deployment.source) == 5
    deployment.turn()
    answered = sources_of_answers(deployment)
    assert len(set(answered)) == len(answered) == 900


@pytest.mark.parametrize("deleted", [False, True])
def test_a_new_version_without_the_old_models_learns_no_repeat(monkeypatch, deleted):
    deployment = rekeyed(monkeypatch, **MORE)
    deployment.turn(0.2)
    deployment.turn(only=ROUTES, everything=True)
    deployment.turn(0.5, only=TOPIC, lost=True)
    # Without a snapshot: what the routes before it left cannot be had but from them.
    deployment.turn(only=ROUTES, kept=False)
    if deleted:
        for at in [at for at in deployment.source.logs if at[0] == ROUTES and deployment.logs[at]]:
            log = deployment.logs[at]
            log[:] = log[len(log) // 2 :]
            deployment.firsts[at] = log[0].offset
    deployment.given = settings("field:country", input__id_path="id", engine__memory=300, **MORE)
    deployment.source = restore.DeploymentContext.of(deployment.given, {}, deployment.source.deployment)
    monkeypatch.setattr(past_models, "settings_then", lambda *_: settings("field:country", engine__memory=310))
    assert recovery.recover(mismatches.NEW_VERSION, deployment.given, deployment.source) == 5
    deployment.turn()
    answered = sources_of_answers(deployment)
    assert len(set(answered)) == len(answered) == 900


def test_one_stream_is_forgotten_where_it_is_learned(monkeypatch):
    deployment = rekeyed(monkeypatch)
    deployment.turn(0.7)
    change = plan_stream_reset(deployment.given, deployment.source, "FR")
    assert change.at[0] == ROUTES
    assert [s.stream for s in change.streams] == ["FR"]
    deployment.write(deployment.source, [change], atomic=True)
    said = deployment.turn()
    answers = [orjson.loads(m.value) for at in said for m in said[at].assignments]
    assert {(a["stream"], a["version"]) for a in answers} == {("DE", 1), ("FR", 2), ("IT", 1)}


def test_going_back_to_archives_emits_the_same_again(monkeypatch):
    deployment = rekeyed(monkeypatch)
    deployment.turn(0.5, archive=True, everything=True)
    places = dict(deployment.offsets)
    deployment.turn(0.5, everything=True)
    before, models = written(deployment, once=True), deployment.models()
    changes, _ = rollback.plan_return(deployment.given, deployment.source, Position(offset=max(places.values())))
    assert {change.at[0] for change in changes} == {TOPIC, ROUTES}
    deployment.write(deployment.source, changes, atomic=True)
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
    with pytest.raises(MismatchError, match="the state of the partition cannot be read"):
        make_task(settings(), ROUTES, 0).restore_partition(make_task(settings("key"), TOPIC, 0).partition_state())
