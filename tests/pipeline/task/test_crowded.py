"""Where clusters need more landmarks than a model may have, the metrics and `inspect` say so."""

import numpy as np
import orjson
import pytest
from resonance.pipeline.config.settings import Settings
from resonance.pipeline.inspect.inspection import _crowded
from resonance.pipeline.records import Record
from resonance.pipeline.task.partition_task import PartitionTask


@pytest.mark.parametrize(("most", "crowded"), [(64, 1), (2048, 0)])
def test_a_model_with_too_few_landmarks_is_counted_and_named(most, crowded):
    given = {"engine.landmarks": 64, "engine.max_landmarks": most, "engine.memory": 1000}
    task = PartitionTask(Settings.of({"stream": "partition", "input.topics": ["features"], **given}), "features", 0)
    rng = np.random.default_rng(1)
    X = rng.random((60, 8))[rng.integers(60, size=6000)] + rng.normal(size=(6000, 8)) * 0.01
    for begin in range(0, len(X), 500):
        rows = X[begin : begin + 500].tolist()
        values = [orjson.dumps({"features": row}) for row in rows]
        task.process([Record("features", 0, begin + i, 1_700_000_000_000, None, v) for i, v in enumerate(values)])
    assert task.counts.totals.crowded == crowded
    (model,) = task.models
    assert ("raise engine.max_landmarks" in _crowded(model)) == bool(crowded)
