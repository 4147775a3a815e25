"""Spans of a shop, as OpenTelemetry sends them: the incident names the service that became slow."""

import pytest
from resonance.pipeline.config.settings import Settings
from resonance.pipeline.incidents.incidents import IncidentTable
from resonance.pipeline.incidents.sign_table import FOLLOWED

from tests.night import seeds
from tests.pipeline.otlp import OF_SPANS, SERVICES, Shop
from tests.pipeline.repartition.two_hops import Hops
from tests.pipeline.streams import payloads


@pytest.mark.parametrize("seed", seeds(1, night=10))
def test_a_service_that_becomes_slow_is_named_within_a_minute(seed):
    slow, begins = SERVICES[seed % len(SERVICES)], 300
    hops, table = Hops(Settings.of(OF_SPANS)), IncidentTable()

    def named(messages):
        """Whether an incident of the service names the duration, after some more messages."""
        hops.send(messages)
        hops.learn()
        for kind in FOLLOWED:
            for payload in payloads(hops.outputs.of(kind)):
                table.apply(kind, payload)
        found = [each for each in table.incidents() if slow in each["streams"]]
        return any(feature["feature"] == "duration_ms" for each in found for feature in each["features"])

    log = list(Shop(seed, rate=5.0, seconds=begins + 60, slow=slow, slow_from=begins).messages())
    assert not named(log[:begins])
    assert named(log[begins:])
