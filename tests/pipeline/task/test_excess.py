"""Records that are far off in one of many features, a few in a row: seen, scored and alerted."""

import numpy as np
import pytest
from sklearn.metrics import roc_auc_score

from tests.pipeline.streams import named_records, payloads, plain_settings, run, task


def answered(X):
    """Return the assignments and the alerts of a stream."""
    names = [f"x{f}" for f in range(X.shape[1])]
    worker = task(plain_settings(stream="topic", input__features=names))
    outputs = run(worker, named_records(X.tolist(), names, gap=60_000), 500)
    return {each["source"]["offset"]: each for each in payloads(outputs.assignments)}, payloads(outputs.alerts)


def mixed(rng, n, d):
    """Return records of three kinds, whose features go together."""
    kind, turned = rng.integers(3, size=n), rng.normal(size=(d, d)) / np.sqrt(d)
    return 4.0 * rng.normal(size=(3, d))[kind] + rng.normal(size=(n, d)) @ turned + 0.3 * rng.normal(size=(n, d))


@pytest.mark.parametrize(("d", "deviations", "count"), [(18, 12.0, 20), (32, 100.0, 5), (8, 15.0, 10)])
def test_each_record_with_one_feature_far_off_is_novel_and_no_ordinary_one(d, deviations, count):
    rng = np.random.default_rng(d)
    X = mixed(rng, 3_000, d)
    off = np.arange(2_000, 2_000 + count)
    X[off, d // 2] += deviations * (X[:, d // 2] - X[:, d // 2].mean()).std()
    answers, alerts = answered(X)
    assert all(answers[at]["novel"] and answers[at]["score"] < 0.4 for at in off.tolist())
    assert sum(answers[at]["novel"] for at in range(500, 2_000)) <= 2
    assert next(each["rule"] for each in alerts if each["kind"] == "opened") == "unlike"
    scores = np.array([answers[at]["score"] for at in range(500, 3_000)])
    assert roc_auc_score(np.isin(np.arange(500, 3_000), off), -scores) > 0.99


@pytest.mark.parametrize("at", [1_500, 3_000])
def test_six_records_of_a_busy_processor_open_an_alert_within_them(at):
    rng = np.random.default_rng(at)
    X = np.column_stack([np.rint(rng.normal(30, 2.5, size=4_000)), np.rint(rng.normal(45, 3, size=4_000))])
    X[at : at + 6, 0] = 100.0
    answers, alerts = answered(X)
    assert all(answers[at + i]["novel"] for i in range(6))
    (opened,) = (each for each in alerts if each["kind"] == "opened" and each["rule"] == "unlike")
    assert at < opened["cause"]["source"]["offset"] < at + 6


@pytest.mark.parametrize("tail", ["t", "lognormal", "flags", "steps"])
def test_what_a_steady_stream_has_now_and_then_is_not_novel(tail):
    rng, n = np.random.default_rng(0), 8_000
    made = {
        "t": lambda: rng.standard_t(3, size=(n, 6)),
        "lognormal": lambda: np.exp(rng.normal(size=(n, 6))),
        "flags": lambda: np.column_stack([rng.normal(size=(n, 4)), rng.random((n, 2)) < 0.002]),
        "steps": lambda: np.floor(rng.normal(size=(n, 6)) * 3.0),
    }[tail]()
    answers, alerts = answered(made.astype(float))
    assert np.mean([answers[at]["novel"] for at in range(2_000, n)]) < 0.01
    assert [each for each in alerts if each["rule"] == "unlike"] == []
