"""The eVQ family behind the partition task: chosen by name, its parameters checked, its reasons given in full."""

from functools import partial

import pytest
from jsonschema import Draft202012Validator
from resonance.pipeline.errors import ConfigurationError
from resonance.schemas import ClusterTable, load_schema

from tests.pipeline.streams import LIVELY, payloads, points, records, run, settings, task

given = partial(settings, engine__name="evq", engine__lambda=None, engine__min_cluster_records=None)


def test_events_fold_to_the_present_clusters_and_carry_all_values_that_decided():
    worker = task(given())
    events = payloads(run(worker, records(points(1500).tolist())).cluster_events)
    table = ClusterTable()
    check = Draft202012Validator(load_schema("cluster_event"))
    for event in events:
        check.validate(event)
        table.apply(event)
    present = worker.models.named("p0").engine.clusters()
    assert set(table.clusters("p0")) == {f"p0/1/{cluster.id}" for cluster in present}
    splits = [event["reason"] for event in events if event["kind"] == "split"]
    assert splits
    for reason in splits:
        assert reason["criterion"] == "separation"
        assert reason["value"] > reason["threshold"]
        assert reason["further"]["bic_gain"] > reason["further"]["bic_margin"]
        assert set(reason["further"]) == {"components", "bic_gain", "bic_margin"}
    outside = [event["reason"] for event in events if event["kind"] == "emerged" and "reason" in event]
    assert all("further" not in reason for reason in outside)


def test_ranges_that_are_configured_are_known_to_the_engine():
    ranges = {name: [0.0, 1.0] for name in LIVELY["input.features"]}
    known = given(prepare__scale="given", prepare__ranges=ranges).engine_parameters
    assert (known["low"], known["high"]) == (0.0, 1.0)
    taken = given().engine_parameters
    assert (taken["low"], taken["high"]) == (None, None)
    running = given(prepare__scale="given", prepare__ranges=ranges, engine__ranges="running").engine_parameters
    assert running["low"] is None


def test_parameters_may_be_written_as_text():
    written = given(engine__pcs="false", engine__fac="2.5", engine__consolidate_every="none").engine_parameters
    assert (written["pcs"], written["fac"], written["consolidate_every"]) == (False, 2.5, None)


def test_a_parameter_that_needs_another_names_its_setting():
    with pytest.raises(ConfigurationError, match=r"engine\.high"):
        given(engine__low=0.0)
