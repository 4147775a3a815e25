"""The telemetry of the demo tells its stories, to the engine as it is set by default."""

from collections import Counter

import numpy as np
import orjson
import pytest
from resonance.engine import make_engine
from resonance.engine.prepare import Preparation
from resonance.pipeline.demo.telemetry import FEATURES, REGIONS, Telemetry
from resonance.pipeline.kafka.embedded import BUDGET, RECORD_OVERHEAD


@pytest.fixture(scope="module")
def telemetry():
    return Telemetry()


def events(telemetry, partition):
    """Events after the first tenth, in which the seven kinds of requests are found."""
    values = telemetry.values[partition]
    preparation = Preparation(FEATURES)
    preparation.hold(values[:200])
    step = make_engine("caea", {}).learn(np.vstack([preparation.freeze(), preparation.apply(values[200:])]))
    begun = [event for event in step.events if event.index < telemetry.records // 10]
    assert [event.kind for event in begun] == ["emerged"] * 7
    return step.events[len(begun) :]


def test_a_deploy_splits_a_cluster_and_the_rollback_merges_it(telemetry):
    split, absorbed = events(telemetry, 0)
    deploy, rollback = (incident.at for incident in telemetry.incidents if incident.partition == 0)
    assert (split.kind, absorbed.kind) == ("split", "absorbed")
    assert deploy < split.index < rollback < absorbed.index
    assert (absorbed.cluster, absorbed.other) == (split.cluster, split.other)


def test_a_new_kind_of_client_becomes_a_cluster(telemetry):
    (emerged,) = events(telemetry, 1)
    arrival = next(incident.at for incident in telemetry.incidents if incident.partition == 1)
    assert emerged.kind == "emerged"
    assert arrival < emerged.index < arrival + 1000


def test_a_cluster_that_drifts_keeps_its_id(telemetry):
    assert events(telemetry, 2) == []
    reports = telemetry.values[2][telemetry.truth[2] == "reports", FEATURES.index("latency_ms")]
    assert reports[-100:].mean() - reports[:100].mean() > 150


def test_where_nothing_happens_nothing_is_reported(telemetry):
    assert events(telemetry, 3) == []


def test_records_fit_the_embedded_broker_and_do_not_carry_the_truth(telemetry):
    used = Counter()
    for sample in telemetry:
        assert len(sample.value) <= 300
        used[sample.partition] += len(sample.value) + len(sample.key) + RECORD_OVERHEAD
    assert max(used.values()) < BUDGET
    assert set(orjson.loads(telemetry.sample(0, 0).value)) == {"id", "time", *FEATURES}


def test_two_runs_have_the_same_bytes():
    first, second = Telemetry(50), Telemetry(50)
    assert list(first) == list(second)
    assert len(list(first)) == len(first) == 50 * len(REGIONS)
