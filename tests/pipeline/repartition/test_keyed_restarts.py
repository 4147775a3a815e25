"""Both hops of a keyed hierarchy after crashes and recoveries, and what verify says of that."""

from itertools import pairwise

import orjson
import pytest
from resonance.pipeline import mismatches
from resonance.pipeline.errors import MismatchError
from resonance.pipeline.kafka.positions import Span
from resonance.pipeline.records import Message
from resonance.pipeline.recovery import recovery
from resonance.pipeline.repartition.keyed.operation_records import Reader
from resonance.pipeline.task.partition_task import PartitionTask
from resonance.pipeline.verify import verify as verifying

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


def verify(deployment, **span):
    return verifying.verify(deployment.given, Span.parse(**span))


def test_crashes_of_either_hop_change_nothing_and_what_came_between_them_is_verified(deployment):
    deployment.turn(0.4, archive=True)
    deployment.turn(0.3, only=TOPIC, lost=True)
    deployment.turn(0.7, only=ROUTES)
    deployment.turn(0.5, only=TOPIC, lost=True)
    deployment.turn(0.4, archive=True)
    deployment.turn(0.5, only=ROUTES, lost=True)
    deployment.turn()
    deployment.turn()
    same_as_local(deployment)
    verdict = verify(deployment)
    assert verdict.identical, verdict.differences()
    assert verdict.total("assignments") == 900
    assert verdict.total("events") == len(emitted(deployment, "cluster_events"))
    verdict = verify(deployment, begin="200")
    assert verdict.identical, verdict.differences()
    assert any(part.start.startswith("from the archive") for part in verdict.parts if part.compared)


@pytest.mark.parametrize("topic", [TOPIC, ROUTES])
def test_lost_offsets_are_repaired_by_the_snapshots_of_either_hop(deployment, topic):
    deployment.turn(0.6)
    deployment.turn(0.6, everything=True)
    for at in [at for at in deployment.source.logs if at[0] == topic]:
        del deployment.offsets[at]
    with pytest.raises(MismatchError, match="no committed offset") as stopped:
        deployment.turn()
    assert mismatches.RESUME in stopped.value.remedies
    changed = recovery.recover(mismatches.RESUME, deployment.source)
    assert changed == (2 if topic == TOPIC else 3)
    deployment.turn()
    deployment.turn()
    same_as_local(deployment)


def test_a_range_may_begin_between_two_messages_of_a_record(monkeypatch):
    deployment = rekeyed(monkeypatch, partitions=1, routes=1, records=400, **KEYED)
    monkeypatch.setattr("resonance.pipeline.repartition.keyed.operation_records.VECTORS_BYTES", 60)
    deployment.turn()
    deployment.turn()
    asks = Reader("").read(deployment.logs[ROUTES, 0])
    inner = [b for a, b in pairwise(asks) if (a.part, a.source_offset) == (b.part, b.source_offset)]
    assert len(inner) > 20
    for ask in inner[:3]:
        verdict = verify(deployment, begin=str(ask.offset))
        assert verdict.identical, verdict.differences()


def take(deployment, **changes):
    """Go on with other settings."""
    values = {**KEYED, "hierarchy": deployment.given.hierarchy, "input__id_path": "id", **changes}
    deployment.take_settings(settings(**values))


def test_under_other_settings_all_levels_begin_anew_by_a_reset(deployment):
    deployment.turn(0.6, everything=True)
    deployment.turn(0.6)
    take(deployment, engine__lambda=9)
    with pytest.raises(MismatchError, match=r"engine\.lambda was 6, is 9.*keyed there is only --reset"):
        deployment.turn()
    assert recovery.recover(mismatches.RESET, deployment.source) == 5
    deployment.turn()
    deployment.turn()
    verdict = verify(deployment)
    assert verdict.identical, verdict.differences()
    answers = [orjson.loads(message.value) for message in emitted(deployment, "assignments")]
    assert sum(answer["version"] == 2 for answer in answers) == 900


def test_a_reset_emits_everything_again_with_the_same_bytes(deployment):
    found = []
    for _ in range(2):
        deployment.turn(everything=True)
        deployment.turn(everything=True)
        found.append([sorted(map(repr, emitted(deployment, kind))) for kind in ("assignments", "cluster_events")])
        recovery.recover(mismatches.RESET, deployment.source)
    assert found[0] == found[1]
    assert sum(len(deployment.recorded("assignments", partition)) for partition in range(3)) == 2 * len(found[0][0])


def test_a_change_of_hierarchy_is_a_stop_that_no_new_version_repairs(deployment):
    deployment.turn(0.5, everything=True)
    take(deployment, hierarchy="local")
    with pytest.raises(MismatchError, match="learned with hierarchy = keyed, it is local") as stopped:
        deployment.turn()
    assert stopped.value.remedies == ()
    assert recovery.recover(mismatches.NEW_VERSION, deployment.source) == 0
