"""Writing the changes of a deployment."""

import pytest
from confluent_kafka import KafkaError, KafkaException
from resonance.pipeline.checkpoint.deployment_context import DeploymentContext
from resonance.pipeline.errors import DeniedError
from resonance.pipeline.kafka.groups import GroupMember, GroupState
from resonance.pipeline.kafka.topology import Deployment
from resonance.pipeline.recovery import rewrite

from tests.pipeline.streams import TOPIC, settings


class MadeError(Exception):
    """The producer was made; its settings are all that counts."""


@pytest.mark.parametrize("command", [rewrite.end_open_transaction, lambda source: rewrite.write(source, [CHANGE])])
def test_a_change_may_be_written_for_as_long_as_the_transaction_of_a_worker(monkeypatch, command):
    def made(own, *_, **__):
        raise MadeError(own)

    for name in ("Producer", "Outlet"):
        monkeypatch.setattr(rewrite, name, made)
    given = settings(delivery__transaction_timeout=600)
    source = DeploymentContext.of(given, {"bootstrap.servers": "kafka:9092"}, Deployment(1, {TOPIC: "id"}))
    with pytest.raises(MadeError) as found:
        command(source)
    own = found.value.args[0]
    assert (own["transactional.id"], own["transaction.timeout.ms"]) == (f"{given.group}-recovery", 600_000)


CHANGE = rewrite.Change((TOPIC, 0), [], 0)


@pytest.mark.parametrize(
    ("state", "expected"),
    [
        (None, None),
        (GroupState("Empty", []), None),
        (GroupState("PreparingRebalance", []), []),
        (GroupState("Stable", [GroupMember("shop-1", "/10.0.0.1", b"")]), ["shop-1 on /10.0.0.1"]),
    ],
)
def test_members_are_read_by_the_call_that_cannot_end_the_process(monkeypatch, state, expected):
    monkeypatch.setattr(rewrite, "group_offsets", lambda *_: [])
    monkeypatch.setattr(rewrite, "group_state", lambda *_: state)
    assert rewrite.members_of(SOURCE) == expected


def test_a_group_that_this_user_may_not_see_does_not_count_as_empty(monkeypatch):
    def refused(*_):
        raise KafkaException(KafkaError(KafkaError.GROUP_AUTHORIZATION_FAILED))

    monkeypatch.setattr(rewrite, "group_offsets", refused)
    monkeypatch.setattr(rewrite, "group_state", lambda *_: None)
    with pytest.raises(DeniedError, match="no right to Read group"):
        rewrite.members_of(SOURCE)


SOURCE = DeploymentContext.of(settings(), {"bootstrap.servers": "kafka:9092"}, Deployment(1, {TOPIC: "id"}))
