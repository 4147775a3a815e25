"""What /metrics shows is text that Prometheus reads, with every name once and no label that grows with the data."""

import re
from pathlib import Path

import pytest
from prometheus_client import REGISTRY, parser
from prometheus_client.openmetrics import parser as openmetrics
from resonance.pipeline.worker.http.metrics import (
    BOUNDS,
    DESCRIPTIONS,
    Durations,
    exposition,
    make_registry,
    series_names,
)

PAGE = Path(__file__).resolve().parents[4] / "docs" / "metrics.md"
HISTOGRAMS = [d.name for d in DESCRIPTIONS if d.kind == "histogram"]
AT = ("in", "0")


def registry(samples=None):
    durations = {name: Durations() for name in HISTOGRAMS}
    return make_registry(lambda: samples or {}, durations), durations


def read(text):
    return {family.name: family for family in parser.text_string_to_metric_families(text.decode())}


def test_a_fresh_worker_describes_every_metric():
    page, content_type = exposition(registry()[0])
    assert content_type.startswith("text/plain")
    families = read(page)
    for name, kind, _, text in DESCRIPTIONS:
        family = families[name.removesuffix("_total")]
        assert (family.type, family.documentation) == (kind, text)


def test_values_carry_their_labels():
    samples = {
        "resonance_records_total": [(AT, 7), (("in", "1"), 8)],
        "resonance_dead_letters_total": [((*AT, "decode", "not_json"), 2)],
        "resonance_ready": [((), 1)],
    }
    made, durations = registry(samples)
    durations["resonance_batch_seconds"].observe(0.004)
    durations["resonance_batch_seconds"].observe(100)
    families = read(exposition(made)[0])
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
    page, content_type = exposition(registry()[0], "application/openmetrics-text; version=1.0.0,text/plain;q=0.5")
    assert content_type.startswith("application/openmetrics-text")
    assert list(openmetrics.text_string_to_metric_families(page.decode()))


def test_names_follow_the_rules_of_prometheus():
    names = [description.name for description in DESCRIPTIONS]
    assert len(set(names)) == len(names)
    for name, kind, labels, text in DESCRIPTIONS:
        assert name.startswith("resonance_")
        assert name.endswith("_total") == (kind == "counter")
        assert set(labels) <= {"topic", "partition", "kind", "rule", "stage", "class"} or name == "resonance_build_info"
        assert text.endswith(".")


def test_a_query_may_ask_for_every_series_that_a_page_can_have():
    known = series_names()
    assert {f"{name}_{part}" for name in HISTOGRAMS for part in ("bucket", "sum", "count")} <= known
    assert {"resonance_churn_ratio", "process_resident_memory_bytes", "python_info"} <= known
    assert not {name for name in known if name.startswith("resonance_") and name.endswith("_created")}


def test_the_metrics_that_the_documentation_explains_are_on_the_page():
    explained = set(re.findall(r"^- `(resonance_\w+)`", PAGE.read_text(), re.MULTILINE))
    assert {"resonance_lag_records", "resonance_novelty_ratio"} <= explained <= {each.name for each in DESCRIPTIONS}


def test_the_kind_of_a_metric_is_that_of_its_name():
    for name, kind, *_ in DESCRIPTIONS:
        assert kind in ("counter" if name.endswith("_total") else "gauge", "histogram")
    assert HISTOGRAMS == ["resonance_batch_seconds", "resonance_transaction_seconds"]


def test_the_librarys_own_registry_is_left_alone():
    registry()
    assert not [name for name in REGISTRY._names_to_collectors if name.startswith("resonance")]
