"""The clock of the consumer's thread."""

import pytest
from resonance.pipeline.worker.transport import client

from tests.pipeline.worker.transport.fakes import Clock


@pytest.fixture
def clock(monkeypatch):
    """Return a clock, by which the thread goes, that only waits move on."""
    made = Clock()
    monkeypatch.setattr(client, "time", made)
    return made
