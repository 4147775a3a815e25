"""Both hops of a keyed hierarchy after crashes and what mends a stop, and what verify says of that."""

from typing import Any

import orjson
import pytest
from resonance.pipeline import stops
from resonance.pipeline.errors import MismatchError
from resonance.pipeline.mending import mending
from resonance.pipeline.partition import PartitionTask
from resonance.pipeline.records import Message
from resonance.pipeline.replay import verifying
from resonance.pipeline.replay.ranges import Span
from resonance.pipeline.tasks import make_task

from tests.pipeline.replay.deployment import put_behind_commands
from tests.pipeline.routing.deployment import KEYED, RekeyedDeployment
from tests.pipeline.routing.keyed_deployment import by_id, by_record
from tests.pipeline.routing.two_hops import ROUTES, settings
from tests.pipeline.streams import TOPIC


@pytest.fixture
def deployment(monkeypatch: pytest.MonkeyPatch) -> RekeyedDeployment:
    made = RekeyedDeployment(monkeypatch, **KEYED, snapshots__records=150)
    put_behind_commands(monkeypatch, made)
    return made


def told(deployment: RekeyedDeployment, kind: str) -> list[Message]:
    """What stands on a topic, each message once."""
    logs = [deployment.logs.get((deployment.given.topic(kind), partition), []) for partition in range(3)]
    found = [Message(record.key, record.value, list(record.headers)) for log in logs for record in log]
    return list({repr(message): message for message in found}.values())


def same_as_local(deployment: RekeyedDeployment) -> None:
    """Each record and each event told by somebody as one task says it, and nothing else by anybody."""
    whole = settings(**{**KEYED, "hierarchy": "local", "input__id_path": "id"})
    assignments, events = {}, {}
    for partition in deployment.partitions:
        outputs = PartitionTask(whole, TOPIC, partition).process(deployment.logs[TOPIC, partition])
        assignments |= by_record(outputs.assignments)
        events |= by_id(outputs.events)
    assert by_record(told(deployment, "assignments")) == assignments
    assert by_id(told(deployment, "cluster_events")) == events
    assert sum(orjson.loads(message.value or b"")["level"] > 1 for message in told(deployment, "cluster_events")) > 20


def crashing(deployment: RekeyedDeployment) -> None:
    """Some turns as of workers that deliver at least once; their first hop sends a third of its messages twice."""
    deployment.turn(0.4, archive=True)
    deployment.turn(0.3, only=TOPIC, lost=True)
    deployment.turn(0.7, only=ROUTES)
    deployment.turn(0.5, only=TOPIC, lost=True)
    deployment.turn(0.4, archive=True)
    deployment.turn(0.5, only=ROUTES, lost=True)
    deployment.turn()
    deployment.turn()


def test_crashes_of_either_hop_change_nothing(deployment: RekeyedDeployment) -> None:
    crashing(deployment)
    same_as_local(deployment)


@pytest.mark.parametrize("topic", [TOPIC, ROUTES])
def test_lost_offsets_are_mended_by_the_snapshots_of_either_hop(deployment: RekeyedDeployment, topic: str) -> None:
    deployment.turn(0.6)
    deployment.turn(0.6, everything=True)
    for at in [at for at in deployment.source.logs if at[0] == topic]:
        del deployment.offsets[at]
    with pytest.raises(MismatchError, match="no committed offset") as stopped:
        deployment.turn()
    assert stops.RESUME in stopped.value.remedies
    changed = mending.mend(stops.RESUME, deployment.given, deployment.source)
    assert changed == (2 if topic == TOPIC else 3)
    deployment.turn()
    deployment.turn()
    same_as_local(deployment)


def verify(deployment: RekeyedDeployment, **span: Any) -> verifying.Verdict:
    return verifying.verify(deployment.given, Span.parse(**span))


def test_what_was_sent_and_said_twice_is_verified(deployment: RekeyedDeployment) -> None:
    crashing(deployment)
    verdict = verify(deployment)
    assert verdict.identical, verdict.differences()
    assert verdict.total("assignments") == 900
    assert verdict.total("events") == len(told(deployment, "cluster_events"))
    assert verdict.total("repeats") > 200


def test_a_range_of_what_was_sent_twice_is_verified_from_an_archive(deployment: RekeyedDeployment) -> None:
    crashing(deployment)
    verdict = verify(deployment, begin="250")
    assert verdict.identical, verdict.differences()
    starts = {part.start for part in verdict.parts if part.compared}
    assert any(start.startswith("from the archive") for start in starts)


def test_a_changed_answer_is_found_among_repeats(deployment: RekeyedDeployment) -> None:
    crashing(deployment)
    log = deployment.logs["resonance.assignments", 1]
    content = orjson.loads(log[200].value or b"")
    log[200] = log[200]._replace(value=orjson.dumps({**content, "novel": not content["novel"]}))
    ((topic, difference),) = verify(deployment).differences()
    assert (topic, difference.kind, difference.what) == (ROUTES, "assignments", "other")


def test_tasks_of_both_hops_are_made(deployment: RekeyedDeployment) -> None:
    assert make_task(deployment.given, ROUTES, 0, 3).streams == []
