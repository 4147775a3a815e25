"""The plain CAEA that the engine is measured against is itself right."""

import json
from pathlib import Path

import numpy as np
import pytest

from tests.engine.plain_caea import PlainCAEA

SHARED = Path(__file__).resolve().parents[2].parent / "shared"
KINDS = {"emerged": 0, "absorbed": 1, "split": 2, "vanished": 3}
FAST = ["compound_s1_l20_g2_affinity", "iris_s1_l28_g0_components", "wine_file_l28_g0_affinity"]


@pytest.mark.golden
@pytest.mark.parametrize("name", FAST)
def test_answers_events_and_nodes_are_those_of_the_golden_vectors(name):
    path = SHARED / "conformance" / "reading" / f"{name}.npz"
    if not path.exists():
        pytest.skip("the golden vectors lie beside the repository, and are not there")
    golden = np.load(path, allow_pickle=False)
    with np.load(SHARED / "data" / f"{golden['dataset']}.npz", allow_pickle=False) as data:
        X = data["X"]
    width = np.ptp(X, axis=0)
    X = ((X - X.min(axis=0)) / np.where(width, width, 1.0))[golden["order"]]
    p = json.loads(str(golden["params"]))
    model = PlainCAEA(p["lam"], p["age_max"], p["grace"], p["reading"], p["tau"], p["min_records"], 0, "all", 0)
    answers = [model.learn(x).cluster for x in X]
    np.testing.assert_array_equal(answers, golden["step_cluster"])
    events = [(n - 1, KINDS[kind], cluster, other) for n, kind, cluster, other in model.events]
    np.testing.assert_array_equal(np.array(events).reshape(-1, 4), golden["events"])
    np.testing.assert_array_equal(model.ids, golden["node_id"])
    np.testing.assert_array_equal(model.cluster, golden["node_cluster"])
    np.testing.assert_array_equal(model.A, golden["cowin"])
