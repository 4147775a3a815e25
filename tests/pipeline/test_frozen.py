"""Every byte on the topics of a dozen deployments is the one that stood there before."""

import orjson
import pytest

from tests.pipeline.frozen import DIGESTS, SCENARIOS, digests

KNOWN = orjson.loads(DIGESTS.read_bytes())


@pytest.mark.parametrize("name", SCENARIOS)
def test_the_bytes_on_the_topics_are_those_of_before(monkeypatch, name):
    assert digests(SCENARIOS[name](monkeypatch)) == KNOWN[name]


def test_every_digest_has_its_scenario():
    assert set(KNOWN) == set(SCENARIOS)
