"""Where clusters need more landmarks than a model may have, the metrics and `inspect` say so."""

import numpy as np
import pytest
from resonance.pipeline.inspect.inspection import _crowded

from tests.pipeline.streams import named_records, plain_settings, run, task


@pytest.mark.parametrize(("most", "crowded"), [(64, 1), (2048, 0)])
def test_a_model_with_too_few_landmarks_is_counted_and_named(most, crowded):
    worker = task(plain_settings(engine__landmarks=64, engine__max_landmarks=most, engine__memory=1000))
    rng = np.random.default_rng(1)
    X = rng.random((60, 8))[rng.integers(60, size=6000)] + rng.normal(size=(6000, 8)) * 0.01
    run(worker, named_records(X[:, None].tolist(), ["features"], gap=0), 500)
    assert worker.counts.totals.crowded == crowded
    (model,) = worker.models
    assert ("raise engine.max_landmarks" in _crowded(model)) == bool(crowded)
