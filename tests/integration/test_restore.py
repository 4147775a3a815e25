"""A restore on a real broker: transactions, their markers, and what compaction leaves."""

import threading
import time

import pytest
from resonance.pipeline.errors import BrokerError
from resonance.pipeline.kafka.log_reader import LogReader, RestoreCancelledError

from tests.brokers import create_topic, read_topic
from tests.brokers.jvm import free_port
from tests.integration.toy_pipeline import Pipeline, models

pytestmark = pytest.mark.broker


@pytest.fixture
def pipeline(broker):
    return Pipeline(broker)


def test_a_read_ends_at_an_end_that_no_record_has(pipeline):
    pipeline.feed(3)
    pipeline.feed(5, commit=False)
    with LogReader(pipeline.client, pipeline.group, 20) as reader:
        bounds = dict.fromkeys(pipeline.assigned, (0, 10))
        assert reader.bounds(pipeline.assigned) == bounds
        began = time.monotonic()
        found = [record.offset for _, records in reader.read(bounds) for record in records]
        assert sorted(found) == [0, 0, 1, 1, 2, 2]
        behind = list(reader.read(dict.fromkeys(pipeline.assigned, (4, 10))))
        middle = [r.offset for _, records in reader.read({pipeline.assigned[0]: (1, 2)}) for r in records]
        assert (behind, middle) == ([], [1])
        assert time.monotonic() - began < 15


def test_compaction_leaves_what_a_restore_needs(broker):
    pipeline = Pipeline(broker, partitions=1)
    tight = {
        "cleanup_policy": "compact",
        "segment_ms": 100,
        "min_cleanable_dirty_ratio": 0.01,
        "segment_bytes": 1_048_576,
    }
    pipeline.snapshots = create_topic(broker, "snap", partitions=1, max_compaction_lag_ms=100, **tight)
    pipeline.source = pipeline.deployed()
    producer = pipeline.transactional("worker")
    for _ in range(5):
        pipeline.feed(30)
        pipeline.work(producer)
        time.sleep(0.15)
    end = time.monotonic() + 20
    # A record for the cleaner to see that the segments before it are closed.
    while (live := len(read_topic(broker, pipeline.snapshots))) > 30 and time.monotonic() < end:
        pipeline.work(producer)
        time.sleep(0.3)
    assert live <= 30
    assert models(pipeline.restored()) == pipeline.expected()


def test_a_restore_is_cancelled_while_it_waits(pipeline):
    pipeline.feed(10)
    pipeline.work(pipeline.transactional("slow", **{"transaction.timeout.ms": 60_000}), finish=False)
    cancelled = threading.Event()
    threading.Timer(0.5, cancelled.set).start()
    began = time.monotonic()
    with pytest.raises(RestoreCancelledError):
        pipeline.restored(cancelled)
    assert time.monotonic() - began < 15


def test_a_broker_that_went_away_is_said():
    client = {"bootstrap.servers": f"127.0.0.1:{free_port()}"}
    with LogReader(client, "group", 1.0) as reader, pytest.raises(BrokerError, match=r"gave no .* within 1 s"):
        reader.bounds([("in", 0)])
