"""Writing the changes of a deployment."""

import pytest
from resonance.pipeline.checkpoint.deployment_context import DeploymentContext
from resonance.pipeline.kafka.topology import Deployment
from resonance.pipeline.recovery import rewrite

from tests.pipeline.streams import TOPIC, settings


class MadeError(Exception):
    """The producer was made; its settings are all that counts."""


@pytest.mark.parametrize(
    "command", [rewrite.end_open_transaction, lambda source: rewrite.write(source, [CHANGE], atomic=True)]
)
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
