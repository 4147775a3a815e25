"""Every byte on the topics of a dozen deployments is the one that stood there before."""

import orjson
import pytest
from resonance.pipeline.task.model_store import ModelStore

from tests.pipeline.frozen import DIGESTS, SCENARIOS, digests

KNOWN = orjson.loads(DIGESTS.read_bytes())


@pytest.mark.parametrize("name", SCENARIOS)
def test_the_bytes_on_the_topics_are_those_of_before(monkeypatch, name):
    assert digests(SCENARIOS[name](monkeypatch)) == KNOWN[name]


@pytest.mark.parametrize("name", SCENARIOS)
def test_they_are_the_same_with_one_model_in_memory(monkeypatch, name):
    made = ModelStore.__init__
    monkeypatch.setattr(ModelStore, "__init__", lambda store, limit: made(store, 1))
    assert digests(SCENARIOS[name](monkeypatch)) == KNOWN[name]


def test_every_digest_has_its_scenario():
    assert set(KNOWN) == set(SCENARIOS)
