"""A fleet on a real broker: a device breaks, its alert clears because its model has learned that, and it is named."""

import json

import numpy as np
import pytest

from tests.brokers import produce
from tests.integration.workers import Deployment
from tests.pipeline.commands import run

pytestmark = [pytest.mark.broker, pytest.mark.timeout(180)]

DEVICES, RECORDS, BROKEN, BREAKS = 12, 1_200, 7, 500


def fleet():
    """Yield the records of devices with two states, which come in turns; of one the vibration grows twelvefold."""
    rng = np.random.default_rng(1)
    busy = rng.integers(2, size=(RECORDS, DEVICES))
    temp, vibration = 20 + 5 * busy + 0.3 * rng.normal(size=busy.shape), 1 + busy + 0.1 * rng.normal(size=busy.shape)
    vibration[BREAKS:, BROKEN] *= 12
    for number in range(RECORDS):
        for device in range(DEVICES):
            features = [temp[number, device], vibration[number, device]]
            value = json.dumps({"temp": features[0], "vibration": features[1]}).encode()
            yield device % 2, b"dev%d" % device, value


def test_a_broken_device_whose_alert_has_cleared_is_unlike_its_peers(broker, monkeypatch, capsys):
    settings = {"stream": "key", "input.features": "temp,vibration", "prepare.scale": "warmup"}
    deployment = Deployment(broker, partitions=2, settings=settings)
    produce(broker, deployment.input, fleet())
    deployment.work(DEVICES * RECORDS)
    unlike = [each for each in deployment.payloads("alerts") if each["rule"] == "unlike"]
    assert [(each["stream"], each["kind"]) for each in unlike] == [("p1:dev7", "opened"), ("p1:dev7", "cleared")]

    options = [f"--set={name}={value}" for name, value in deployment.settings.items()]
    assert run(monkeypatch, "inspect", "--peers", "--json", *options) == 0
    found = json.loads(capsys.readouterr().out)
    assert (found["streams"], found["compared"]) == (DEVICES, DEVICES)
    (only,) = found["unlike"]
    assert (only["stream"], only["feature"], only["change"]) == ("p1:dev7", "vibration", "high")
    assert only["since"] is not None
    assert run(monkeypatch, "inspect", *options) == 0
    assert "1 of 12 streams is unlike its peers: resonance inspect --peers" in capsys.readouterr().out
