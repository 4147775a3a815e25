"""hierarchy = "keyed" with projected records: vectors of principal axes travel, clusters have the features."""

import numpy as np
import orjson
import pytest
from resonance.pipeline.config.settings import Settings
from resonance.pipeline.records import Record
from resonance.pipeline.repartition.keyed import operation_records
from resonance.pipeline.repartition.keyed.operation_records import Reader
from resonance.pipeline.task.partition_task import PartitionTask

from tests.pipeline.repartition.two_hops import by_id, by_record, keyed_hops
from tests.pipeline.streams import STAMP, TOPIC

FEATURES = 40


def given(hierarchy):
    return Settings.of(
        {
            "input.topics": [TOPIC],
            "input.dimension": FEATURES,
            "stream": "key",
            "hierarchy": hierarchy,
            "engine.name": "hcaea",
            "engine.lambda": 6,
            "engine.min_cluster_records": 3,
            "engine.min_child_records": 3,
            "prepare.warmup_records": 60,
            "prepare.project": 6,
        }
    )


@pytest.fixture(scope="module")
def log():
    rng = np.random.default_rng(6)
    rows = rng.normal(size=(5, FEATURES))[rng.integers(5, size=900)] + 0.3 * rng.normal(size=(900, FEATURES))
    return [
        Record(TOPIC, 0, i, STAMP + i, b"ab"[i % 2 :][:1], orjson.dumps({"features": row}))
        for i, row in enumerate(rows.tolist())
    ]


@pytest.mark.parametrize("moving", [False, True])
def test_both_hops_say_what_one_task_says(log, moving):
    whole = PartitionTask(given("local"), TOPIC, 0).process(log)
    deployment = keyed_hops(given("keyed"), [log], 2, seed=1)
    got = deployment.run(moving=moving)
    assert by_record(got.assignments) == by_record(whole.assignments)
    assert by_id(got.cluster_events) == by_id(whole.cluster_events)
    below = [orjson.loads(message.value) for message in whole.cluster_events]
    described = [cluster for event in below if event["level"] > 1 for cluster in event["after"]]
    assert described
    assert {len(cluster["centre"]) for cluster in described} == {FEATURES}
    assert {len(ask.vectors) for ask in Reader("").read(deployment.routed) if ask.rows == 1} == {8 * 6}


def test_the_first_message_of_a_subtree_is_no_longer_than_was_reckoned_with():
    settings = given("keyed")
    preparation = settings.preparation([f"f{number}" for number in range(FEATURES)])
    before = len(preparation.state())
    preparation.hold(np.random.default_rng(0).normal(size=(60, FEATURES)))
    preparation.freeze()
    # All but a few digits of numbers in the header.
    assert len(preparation.frozen_state()) <= before + 100
    assert operation_records.operation_bytes(settings) > before
