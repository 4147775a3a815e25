"""The list with which telling begins is as long as it must be, and each of its messages fits into its topic."""

import orjson
import pytest
from jsonschema import Draft202012Validator
from resonance.pipeline.records import Outputs
from resonance.pipeline.task.decode.record_batch import RecordBatch
from resonance.pipeline.task.encode.cluster_events import EventCause, EventEncoder
from resonance.pipeline.task.encode.message_sizes import event_bytes
from resonance.pipeline.task.model.stream_model import StreamModel
from resonance.schemas import ClusterTable, load_schema

from tests.pipeline.streams import settings

TIME = "2026-01-01T00:00:00.000Z"


def many(version, count):
    centre, spread = {"cpu": 0.123456789}, {"cpu": 0.0123456789}
    return [
        {"id": f"p0/{version}/{n}", "size": 30 + n, "centre": centre, "spread": spread, "nodes": 2}
        for n in range(count)
    ]


@pytest.mark.parametrize(("count", "parts"), [(3, 1), (900, 1), (5_000, 3)])
def test_every_part_of_a_list_fits_and_none_of_its_clusters_is_lost(count, parts):
    model = StreamModel(settings(), "p0", ["cpu"], version=2)
    outputs = Outputs()
    cause = EventCause(RecordBatch(None, [TIME], [2], [17], [b"k"]), 0, outputs)
    before, after = many(1, count // 2), many(2, count)
    EventEncoder(settings(), "in", 0).version_started(model, 6, before, after, cause)
    outputs.sort()
    most = event_bytes(model.preparation.columns)
    assert max(len(message.value or b"") for message in outputs.cluster_events) <= most
    assert len(outputs.cluster_events) == parts
    payloads = [orjson.loads(message.value) for message in outputs.cluster_events]
    validator = Draft202012Validator(load_schema("cluster_event"))
    for payload in payloads[:2]:
        validator.validate({**payload, "before": payload["before"][:5], "after": payload["after"][:5]})
    assert len({dict(message.headers)["ce_id"] for message in outputs.cluster_events}) == len(outputs.cluster_events)
    assert {payload["seq"] for payload in payloads} == {6}
    assert [cluster["id"] for payload in payloads for cluster in payload["before"]] == [c["id"] for c in before]
    table = ClusterTable()
    assert all(map(table.apply, payloads))
    assert list(table.clusters("p0")) == [cluster["id"] for cluster in after]
    assert len(outputs.clusters) == len(before) + len(after)


def test_a_list_without_centres_counts_what_it_leaves_out():
    model = StreamModel(settings(), "p0", ["cpu"], version=2)
    outputs = Outputs()
    cause = EventCause(RecordBatch(None, [TIME], [2], [17], [b"k"]), 0, outputs)
    clusters = many(2, 5_000)
    clusters[1]["omitted"] = 4
    clusters[2].update(centre={}, spread={})
    EventEncoder(settings(), "in", 0).version_started(model, 6, [], clusters, cause)
    outputs.sort()
    first = orjson.loads(outputs.cluster_events[0].value or b"")
    assert [cluster.get("omitted") for cluster in first["after"][:4]] == [1, 5, None, 1]
    # The compacted topic has them.
    listed = [orjson.loads(message.value) for message in outputs.clusters[:4]]
    assert [cluster.get("omitted") for cluster in listed] == [None, 4, None, None]
    assert listed[1]["centre"] == clusters[1]["centre"]
