"""What the clients of a deployment are configured with."""

from typing import Any

from resonance.pipeline.config.properties import OWNED
from resonance.pipeline.kafka import log_reader
from resonance.pipeline.kafka.log_reader import sizes
from resonance.pipeline.kafka.producer import producer_settings
from resonance.pipeline.memory_budget import MemoryBudget
from resonance.pipeline.worker.transport.client import TransportOptions, consumer_settings


def test_what_a_client_sets_for_its_work_is_refused_among_the_settings():
    budget = MemoryBudget.of("auto")
    given: dict[str, Any] = dict.fromkeys(("before_revoke", "positions", "failed"))
    options = TransportOptions(client={"client.id": "w"}, memory=budget, **given)
    own = {*producer_settings({}), *consumer_settings(options), *log_reader._SETTINGS, *sizes(budget, foreign=True)}
    # This one a user may change.
    assert own - {"compression.type"} <= OWNED.keys()
