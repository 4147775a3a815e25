"""Both hops of a keyed hierarchy after crashes and recoveries, and what verify says of that."""

from itertools import pairwise

import orjson
import pytest
from resonance.pipeline import mismatches
from resonance.pipeline.errors import BrokerError, MismatchError
from resonance.pipeline.kafka.ranges import Span
from resonance.pipeline.records import Message
from resonance.pipeline.recovery import drain_subtrees, recovery
from resonance.pipeline.recovery.reset_stream import plan_stream_reset
from resonance.pipeline.repartition.keyed.operation_records import EMITTED, HEAD, Reader
from resonance.pipeline.task.partition_task import PartitionTask
from resonance.pipeline.verify import verify as verifying
from resonance.schemas import ClusterTable

from tests.pipeline.memory_deployment import KEYED, rekeyed
from tests.pipeline.repartition.two_hops import ROUTES, by_id, by_record, settings, without_routes_offset
from tests.pipeline.streams import TOPIC


@pytest.fixture
def deployment(monkeypatch):
    return rekeyed(monkeypatch, **KEYED, snapshots__records=150)


def emitted(deployment, kind):
    """What stands on a topic, each message once."""
    logs = [deployment.logs.get((deployment.given.topic(kind), partition), []) for partition in range(3)]
    found = [Message(record.key, record.value, without_routes_offset(record.headers)) for log in logs for record in log]
    return list({repr(message): message for message in found}.values())


def same_as_local(deployment):
    """Each record and each event emitted as by one task, and nothing else."""
    whole = settings(**{**KEYED, "hierarchy": "local", "input__id_path": "id"})
    assignments, events = {}, {}
    for partition in deployment.partitions:
        outputs = PartitionTask(whole, TOPIC, partition).process(deployment.logs[TOPIC, partition])
        assignments |= by_record(outputs.assignments)
        events |= by_id(outputs.cluster_events)
    assert by_record(emitted(deployment, "assignments")) == assignments
    assert by_id(emitted(deployment, "cluster_events")) == events
    assert sum(orjson.loads(message.value)["level"] > 1 for message in emitted(deployment, "cluster_events")) > 20


def crashing(deployment):
    """Some turns as of workers that deliver at least once; their first hop sends a third of its messages twice."""
    deployment.turn(0.4, archive=True)
    deployment.turn(0.3, only=TOPIC, lost=True)
    deployment.turn(0.7, only=ROUTES)
    deployment.turn(0.5, only=TOPIC, lost=True)
    deployment.turn(0.4, archive=True)
    deployment.turn(0.5, only=ROUTES, lost=True)
    deployment.turn()
    deployment.turn()


def test_crashes_of_either_hop_change_nothing(deployment):
    crashing(deployment)
    same_as_local(deployment)


@pytest.mark.parametrize("topic", [TOPIC, ROUTES])
def test_lost_offsets_are_repaired_by_the_snapshots_of_either_hop(deployment, topic):
    deployment.turn(0.6)
    deployment.turn(0.6, everything=True)
    for at in [at for at in deployment.source.logs if at[0] == topic]:
        del deployment.offsets[at]
    with pytest.raises(MismatchError, match="no committed offset") as stopped:
        deployment.turn()
    assert mismatches.RESUME in stopped.value.remedies
    changed = recovery.recover(mismatches.RESUME, deployment.given, deployment.source)
    assert changed == (2 if topic == TOPIC else 3)
    deployment.turn()
    deployment.turn()
    same_as_local(deployment)


def verify(deployment, **span):
    return verifying.verify(deployment.given, Span.parse(**span))


def test_what_was_sent_and_said_twice_is_verified(deployment):
    crashing(deployment)
    verdict = verify(deployment)
    assert verdict.identical, verdict.differences()
    assert verdict.total("assignments") == 900
    assert verdict.total("events") == len(emitted(deployment, "cluster_events"))
    assert verdict.total("repeats") > 200


def test_a_range_of_what_was_sent_twice_is_verified_from_an_archive(deployment):
    crashing(deployment)
    verdict = verify(deployment, begin="200")
    assert verdict.identical, verdict.differences()
    starts = {part.start for part in verdict.parts if part.compared}
    assert any(start.startswith("from the archive") for start in starts)


def test_a_range_may_begin_between_two_messages_of_a_record(monkeypatch):
    deployment = rekeyed(monkeypatch, partitions=1, routes=1, records=400, **KEYED)
    monkeypatch.setattr("resonance.pipeline.repartition.keyed.operation_sizes.VECTORS_BYTES", 60)
    deployment.turn()
    deployment.turn()
    asks = Reader("").read(deployment.logs[ROUTES, 0])
    inner = [b for a, b in pairwise(asks) if (a.part, a.source_offset) == (b.part, b.source_offset)]
    assert len(inner) > 20
    for ask in inner[:3]:
        verdict = verify(deployment, begin=str(ask.offset))
        assert verdict.identical, verdict.differences()


def both(monkeypatch, **changes):
    """The same with a keyed hierarchy and with a local one, both standing in the middle of the input."""
    made = []
    for hierarchy in ("keyed", "local"):
        deployment = rekeyed(monkeypatch, **{**KEYED, **changes, "hierarchy": hierarchy})
        deployment.turn(0.4, everything=True)
        deployment.turn(0.5)
        made.append(deployment)
    return made[0], made[1]


def take(deployment, **changes):
    """Go on with other settings."""
    values = {**KEYED, "hierarchy": deployment.given.hierarchy, "input__id_path": "id", **changes}
    deployment.take_settings(settings(**values))


def test_a_new_version_ends_and_begins_all_levels_as_in_one_tree(monkeypatch):
    keyed, local = both(monkeypatch)
    for deployment in (keyed, local):
        deployment.serve(monkeypatch)
        take(deployment, engine__lambda=9)
        with pytest.raises(MismatchError, match=r"engine\.lambda was 6, is 9"):
            deployment.turn()
        behind = deployment.bounds([(ROUTES, 0)])[ROUTES, 0][1] - deployment.offsets.get((ROUTES, 0), 0)
        assert behind > 20 or deployment is local, "messages of the old version are on their way"
        assert recovery.recover(mismatches.NEW_VERSION, deployment.given, deployment.source) == 2
        for _ in range(3):
            deployment.turn(0.7)
        deployment.turn()
        deployment.turn()
    compared(keyed, local)
    verified(monkeypatch, keyed, records=900 - 2 * 315)
    assert {orjson.loads(m.value)["version"] for m in emitted(keyed, "assignments")} == {1, 2}


def test_a_new_version_carries_out_under_the_old_settings_what_has_not_begun(monkeypatch):
    keyed, whole = rekeyed(monkeypatch, **KEYED), rekeyed(monkeypatch, **KEYED)
    whole.turn(0.5, only=TOPIC)
    whole.turn(only=ROUTES)
    keyed.serve(monkeypatch)
    keyed.turn(0.5, only=TOPIC)
    take(keyed, engine__lambda=9)
    assert recovery.recover(mismatches.NEW_VERSION, keyed.given, keyed.source) == 2
    assert by_record(emitted(keyed, "assignments")) == by_record(emitted(whole, "assignments"))


def verified(monkeypatch, keyed, records):
    keyed.serve(monkeypatch)
    verdict = verify(keyed)
    assert verdict.identical, verdict.differences()
    assert sum(part.records for part in verdict.parts if part.topic == TOPIC) == records


def compared(keyed, local):
    assert by_record(emitted(keyed, "assignments")) == by_record(emitted(local, "assignments"))
    assert by_id(emitted(keyed, "cluster_events")) == by_id(emitted(local, "cluster_events"))
    tables = [ClusterTable(), ClusterTable()]
    for table, deployment in zip(tables, (keyed, local), strict=True):
        for message in emitted(deployment, "cluster_events"):
            table.apply(message.value)
    assert tables[0].clusters() == tables[1].clusters()
    log = [record for partition in range(3) for record in keyed.logs["resonance.clusters", partition]]
    assert ClusterTable.from_clusters((r.key or b"", r.value) for r in log).clusters() == tables[0].clusters()
    events = [orjson.loads(message.value) for message in emitted(keyed, "cluster_events")]
    ended = [cluster["id"] for event in events if event["kind"] == "version_started" for cluster in event["before"]]
    assert any("." in cluster.rpartition("/")[2] for cluster in ended), "those of the subtrees are listed, too"


def test_where_the_old_subtrees_cannot_be_rebuilt_what_is_on_its_way_is_answered_by_the_roots(deployment):
    deployment.turn(0.4, everything=True)
    deployment.turn(0.5)
    at = (ROUTES, 0)
    # Deleted before it was carried out: no state has the subtrees there any more, so that roots must begin anew.
    waiting = [record for record in deployment.logs[at] if record.offset >= deployment.offsets[at]]
    deployment.logs[at] = waiting[5:]
    deployment.firsts[at] = waiting[5].offset
    with pytest.raises(MismatchError, match="were deleted by the topic's retention") as stopped:
        deployment.turn()
    assert mismatches.NEW_VERSION in stopped.value.remedies
    assert recovery.recover(mismatches.NEW_VERSION, deployment.given, deployment.source) == 2
    while any(deployment.bounds([one])[one][1] - 1 > deployment.offsets[one] for one in deployment.source.logs):
        deployment.turn()
    answers = by_record(emitted(deployment, "assignments"))
    assert len(answers) == 900 - len([ask for ask in Reader(ROUTES).read(waiting[:5]) if ask.emitted])
    paths = [orjson.loads(value)["path"] for _, value, _ in answers.values()]
    assert any(path[1] >= 0 for path in paths if len(path) > 1)


def test_one_stream_is_forgotten_with_all_its_levels(monkeypatch):
    keyed, local = both(monkeypatch, stream="key")
    for deployment in (keyed, local):
        deployment.serve(monkeypatch)
        changed = plan_stream_reset(deployment.given, deployment.source, "p1:k1")
        assert (changed[0].at, [stream.stream for stream in changed[0].streams]) == ((TOPIC, 1), ["p1:k1"])
        deployment.write(deployment.source, changed, atomic=True)
        for _ in range(3):
            deployment.turn(0.7)
        deployment.turn()
        deployment.turn()
    compared(keyed, local)
    verified(monkeypatch, keyed, records=450 + 135)
    answers = [orjson.loads(message.value) for message in emitted(keyed, "assignments")]
    assert {a["stream"] for a in answers if a["version"] == 2} == {"p1:k1"}


def test_what_was_sent_and_does_not_count_is_left_to_the_new_models(monkeypatch):
    for command in (mismatches.NEW_VERSION, "reset --stream"):
        keyed = rekeyed(monkeypatch, **KEYED)
        keyed.serve(monkeypatch)
        keyed.turn(0.4, everything=True)
        keyed.turn(0.5, only=TOPIC, lost=True)
        begin = keyed.offsets[TOPIC, 1]
        if command == mismatches.NEW_VERSION:
            take(keyed, engine__lambda=9)
            assert recovery.recover(command, keyed.given, keyed.source) == 2
        else:
            keyed.write(keyed.source, plan_stream_reset(keyed.given, keyed.source, "p1"), atomic=False)
        keyed.turn()
        keyed.turn()
        answers = by_record(emitted(keyed, "assignments"))
        assert len(answers) == 900
        own = {place[2]: orjson.loads(value) for place, (_, value, _) in answers.items() if place[1] == 1}
        assert {offset: 1 + (offset >= begin) for offset in own} == {o: answer["version"] for o, answer in own.items()}


@pytest.mark.parametrize("rebuilt", [True, False])
def test_what_no_output_has_a_place_for_is_named_before_anything_is_written(monkeypatch, deployment, *, rebuilt):
    deployment.turn(0.4, everything=True)
    deployment.turn(0.5)
    at = (ROUTES, 0)
    log = deployment.logs[at]
    place = next(i for i, one in enumerate(log) if one.offset >= deployment.offsets[at] and one.value[3] & EMITTED)
    fields = list(HEAD.unpack_from(log[place].value))
    fields[3] = 7
    log[place] = log[place]._replace(value=HEAD.pack(*fields) + log[place].value[HEAD.size :])
    if not rebuilt:
        monkeypatch.setattr(drain_subtrees, "models_then", lambda *_: None)
    written = len(deployment.written)
    with pytest.raises(BrokerError, match=rf"names features\[7\]@{fields[4]}, and that topic had 2 partitions"):
        plan_stream_reset(deployment.given, deployment.source, "p1")
    assert len(deployment.written) == written


def test_a_change_of_hierarchy_is_a_stop_that_no_new_version_repairs(deployment):
    deployment.turn(0.5, everything=True)
    take(deployment, hierarchy="local")
    with pytest.raises(MismatchError, match="learned with hierarchy = keyed, it is local") as stopped:
        deployment.turn()
    assert stopped.value.remedies == ()
    assert recovery.recover(mismatches.NEW_VERSION, deployment.given, deployment.source) == 0
