"""Topics that were just created: how long their leaders are waited for."""

from types import SimpleNamespace

import pytest
from resonance.pipeline.errors import BrokerError
from resonance.pipeline.kafka import admin
from resonance.pipeline.kafka.admin import ClusterAdmin

NAMES = [f"t{number}" for number in range(6)]


@pytest.fixture
def cluster(monkeypatch):
    """A cluster whose topics get a leader each 8 s, the last ones never, with the time as the test sees it."""
    made = ClusterAdmin.__new__(ClusterAdmin)
    made.servers, made._timeout, made.now = "broker:9092", 10.0, 0.0

    def described(_):
        leaders = {name: int(made.now > 8 * number and number < 5) - 1 for number, name in enumerate(NAMES)}
        topics = {
            name: SimpleNamespace(partitions={0: SimpleNamespace(leader=0), 1: SimpleNamespace(leader=leader)})
            for name, leader in leaders.items()
        }
        return SimpleNamespace(topics=topics)

    def sleep(seconds):
        made.now += seconds

    made._metadata = described
    monkeypatch.setattr(admin, "time", SimpleNamespace(monotonic=lambda: made.now, sleep=sleep))
    return made


def test_leaders_are_waited_for_as_long_as_more_topics_get_theirs(cluster):
    cluster.wait_for_leaders(NAMES[:5])
    assert cluster.now > 3 * cluster._timeout


def test_an_error_names_the_topics_without_leaders_alone_and_the_setting(cluster):
    with pytest.raises(BrokerError, match=r"^topics t5, there are none on .* after 10 s \(broker\.answer_timeout\)"):
        cluster.wait_for_leaders(["t0", "t5", "there are none"])
    assert cluster.now == pytest.approx(10.0, abs=1)
