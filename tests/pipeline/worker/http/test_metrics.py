"""What /metrics shows is text that Prometheus reads, with every name once and no label that grows with the data."""

import re
from pathlib import Path

import pytest
from prometheus_client import REGISTRY, parser
from prometheus_client.openmetrics import parser as openmetrics
from resonance.pipeline.worker.assignment import BOUNDS, Histograms
from resonance.pipeline.worker.http.metrics import METRICS, exposition, make_registry

from tests.series import series_names

PAGE = Path(__file__).resolve().parents[4] / "docs" / "metrics.md"
AT = ("in", "0")


def registry(samples=None, histograms=None):
    return make_registry(lambda: samples or {}, histograms or Histograms())


def read(text):
    return {family.name: family for family in parser.text_string_to_metric_families(text.decode())}


def test_a_fresh_worker_describes_every_metric():
    page, content_type = exposition(registry())
    assert content_type.startswith("text/plain")
    families = read(page)
    for row in METRICS:
        family = families[row.name.removesuffix("_total")]
        assert (family.type, family.documentation) == (row.kind, row.help)


def test_values_carry_their_labels():
    histograms = Histograms()
    histograms.batch.observe(0.004)
    histograms.batch.observe(100)
    samples = {
        "resonance_records_total": [(AT, 7), (("in", "1"), 8)],
        "resonance_dead_letters_total": [((*AT, "decode", "not_json"), 2)],
        "resonance_ready": [((), 1)],
    }
    families = read(exposition(registry(samples, histograms))[0])
    assert [(s.labels, s.value) for s in families["resonance_records"].samples] == [
        ({"topic": "in", "partition": "0"}, 7),
        ({"topic": "in", "partition": "1"}, 8),
    ]
    (dead,) = families["resonance_dead_letters"].samples
    assert dead.labels == {"topic": "in", "partition": "0", "stage": "decode", "class": "not_json"}
    buckets = {s.labels.get("le", s.name): s.value for s in families["resonance_batch_seconds"].samples}
    assert (buckets["0.0025"], buckets["0.005"], buckets[str(BOUNDS[-1])], buckets["+Inf"]) == (0, 1, 1, 2)
    assert buckets["resonance_batch_seconds_sum"] == pytest.approx(100.004)
    assert buckets["resonance_batch_seconds_count"] == 2


def test_a_scraper_that_asks_for_openmetrics_gets_it():
    page, content_type = exposition(registry(), "application/openmetrics-text; version=1.0.0,text/plain;q=0.5")
    assert content_type.startswith("application/openmetrics-text")
    assert list(openmetrics.text_string_to_metric_families(page.decode()))


def test_names_follow_the_rules_of_prometheus():
    names = [row.name for row in METRICS]
    assert len(set(names)) == len(names)
    for name, text, _, labels in METRICS:
        assert name.startswith("resonance_")
        assert set(labels) <= {"topic", "partition", "kind", "rule", "stage", "class"} or name == "resonance_build_info"
        assert text.endswith(".")


def test_a_query_may_ask_for_every_series_that_a_page_can_have():
    known = series_names()
    histograms = ("resonance_batch_seconds", "resonance_transaction_seconds")
    assert {f"{name}_{part}" for name in histograms for part in ("bucket", "sum", "count")} <= known
    assert {"resonance_churn_ratio", "process_resident_memory_bytes", "python_info"} <= known
    assert not {name for name in known if name.startswith("resonance_") and name.endswith("_created")}


def test_the_metrics_that_the_documentation_explains_are_on_the_page():
    explained = set(re.findall(r"^- `(resonance_\w+)`", PAGE.read_text(), re.MULTILINE))
    assert {"resonance_lag_records", "resonance_novelty_ratio"} <= explained
    assert explained <= {re.sub("_(bucket|count|sum)$", "", name) for name in series_names()}


def test_the_librarys_own_registry_is_left_alone():
    registry()
    assert not [name for name in REGISTRY._names_to_collectors if name.startswith("resonance")]
