"""Streams whose features change their unit, through the partition task: the scale follows, and so do the clusters."""

from functools import partial

import numpy as np
import pytest
from jsonschema import Draft202012Validator
from resonance.schemas import load_schema
from sklearn.metrics import adjusted_rand_score

from tests.night import at_night
from tests.pipeline.streams import alike, named_records, payloads, plain_settings, run, task

KEYS = [b"a", b"b"]


given = partial(plain_settings, input__features=["x", "y", "z"], prepare__robust=False)


def log_of(n, keys=False):
    """Records of five blobs, alike in the first feature, which is a hundredfold after a third; and the blob of each."""
    rng = np.random.default_rng(0)
    own = rng.integers(5, size=n)
    X = rng.random((5, 3))[own] + 0.03 * rng.normal(size=(n, 3))
    X[:, 0] = rng.random(n)
    X[n // 3 :, 0] *= 100.0
    log = named_records(X.tolist(), "xyz")
    log[5::331] = [record._replace(value=b"{}") for record in log[5::331]]
    return [record._replace(key=KEYS[i % 2]) for i, record in enumerate(log)] if keys else log, own


def agreement(answers, own):
    last = answers[-1_500:]
    return float(adjusted_rand_score([own[a["source"]["offset"]] for a in last], [str(a["cluster"]) for a in last]))


def test_clusters_are_told_apart_again_and_described_in_the_units_of_the_input():
    log, own = log_of(9_000)
    healed, frozen = task(given()), task(given(prepare__rescale=False))
    answers = [payloads(run(worker, log, 512).assignments) for worker in (healed, frozen)]
    healed_agreement, frozen_agreement = (agreement(found, own) for found in answers)
    assert healed_agreement > 0.85
    assert frozen_agreement < 0.1
    centres = [cluster["centre"] for cluster in healed.models.clusters("p0")]
    assert max(centre["x"] for centre in centres) > 20.0
    assert all(-0.5 < centre["y"] < 1.5 for centre in centres)


def test_a_range_that_is_another_one_is_a_drift_event():
    log, _ = log_of(9_000)
    (event,) = payloads(run(task(given(drift__detect=False)), log, 512).drift_events)
    Draft202012Validator(load_schema("drift_event")).validate(event)
    assert (event["kind"], event["feature"], event["seq"], event["detector"]) == ("rescaled", "x", 0, "prepare")
    # More than half of 1,000 records have left it: it is seen with the next one, 1,500 to 2,000 behind the change.
    assert 3_500 < event["cause"]["source"]["offset"] < 5_100
    assert event["range_before"] == pytest.approx([0.0, 1.0], abs=0.05)
    assert event["range"] == pytest.approx([0.0, 100.0], abs=5.0)
    assert event["value"] == pytest.approx(100.0, abs=8.0)
    assert event["threshold"] == pytest.approx(1.0, abs=0.08)


@pytest.mark.parametrize("stream", [at_night("partition"), "key"])
def test_however_the_log_is_cut_and_wherever_it_is_restored_the_bytes_are_the_same(stream):
    settings = given(stream=stream, snapshots__records=300)
    log, _ = log_of(7_000, keys=stream == "key")
    _, expected = alike(settings, log, (3_400, 4_212, 4_213))
    assert expected.cluster_events
    assert expected.drift_events
