"""Streams whose models leave memory: nothing but the metrics shows it."""

from dataclasses import replace
from typing import Any

import pytest
from faust.types import TP
from resonance.pipeline.checkpoint.changelog_records import Identity
from resonance.pipeline.checkpoint.changelog_writer import ChangelogWriter
from resonance.pipeline.records import Outputs
from resonance.pipeline.task.model_store import _numbers
from resonance.pipeline.worker.assignment import AssignedPartition
from resonance.pipeline.worker.commits import Commits
from resonance.pipeline.worker.http.metrics import samples
from resonance.pipeline.worker.http.status import WorkerStatus
from resonance.pipeline.worker.processor import Processor
from resonance.pipeline.worker.progress import Progress

from tests.night import at_night
from tests.pipeline.streams import TOPIC, Held, payloads, points, records, run, settings, task
from tests.pipeline.task.alerts.devices import devices

KEYS = tuple(b"key %d" % number for number in range(12))
LOG = records(points(2400).tolist(), keys=KEYS)
WRITER = ChangelogWriter(Identity("pipe", (TOPIC,), TOPIC, "id-1", 1, "modal", "1"), 0)
SILENT = devices(count=4, rounds=420)
"""One device breaks and another falls silent."""


def given(limit: int, **changed: Any) -> Any:
    return settings(**{"stream": "key", "snapshots__records": 100, "limits__streams_in_memory": limit, **changed})


def stored(worker: Any) -> tuple[Any, ...]:
    """What is stored of a task, wherever its models are."""
    return (worker.partition_state(), [*worker.models.states()], worker.models.names, worker.open_alerts)


def life(limit: int, log: list[Any], size: int, *, stop: int = 0, **changed: Any) -> tuple[Any, ...]:
    """Process a log in batches, write the snapshots that are due, and restart at a place."""
    held, whole, written = Held(task(given(limit, **changed))), Outputs(), []
    for start in range(0, len(log), size):
        if start == stop:
            held.restore(task(given(limit, **changed)), log)
        batch = log[start : start + size]
        whole.add(held.task.process(batch))
        held.read += len(batch)
        if not held.read % 120:
            due = held.task.models.pending()
            held.write(due, batch[-1].offset + 1)
            written.append((due, dict(held.snapshots), held.state, held.recovery_offset))
    return whole, written, stored(held.task)


@pytest.mark.parametrize(
    ("log", "changed"),
    [
        (LOG[:1200], {}),
        at_night(LOG[:1200], {"engine__name": "caea"}),
        (SILENT, {}),
    ],
)
def test_outputs_snapshots_and_states_do_not_depend_on_the_limit(log, changed):
    expected = [life(0, log, size, stop=720, **changed) for size in (120, 30)]
    outputs = expected[0][0]
    assert outputs == expected[1][0]
    assert outputs.cluster_events
    silent = [(alert["kind"], alert["stream"]) for alert in payloads(outputs.alerts) if alert["rule"] == "silent"]
    assert silent == ([("opened", "p0:d1"), ("cleared", "p0:d1")] if log is SILENT else [])
    assert [life(limit, log, size, stop=720, **changed) for limit, size in ((3, 120), (1, 30))] == expected


def test_the_least_recently_used_models_leave_memory():
    worker = task(given(3))
    run(worker, LOG[:600], 50)
    run(worker, [LOG[600], LOG[603], LOG[601]], 1)
    assert [model.name for model in worker.models._in_memory.values()] == ["p0:key%200", "p0:key%203", "p0:key%201"]
    assert (len(worker.models), worker.models.names) == (12, [f"p0:key%20{number}" for number in range(12)])
    loads = worker.models.loads
    run(worker, [LOG[612], LOG[605]], 1)
    assert worker.models.loads == loads + 1


def test_the_metrics_count_every_stream():
    whole, part = (task(given(limit)) for limit in (0, 2))
    for worker in (whole, part):
        run(worker, LOG[:1200], 40)
        list(worker.models.changes(worker.models.pending(everything=True)))
    assert part.counts.totals.snapshot_bytes > 0 < part.counts.totals.compared
    assert (part.models.loaded_models, whole.models.loaded_models) == (2, 12)
    assert part.counts.stream_loads > 100
    assert replace(part.counts, stream_loads=0) == whole.counts
    mine, every = part.health.figures(), whole.health.figures()
    assert (mine.novelty, mine.score, mine.out_of_scale) == (every.novelty, every.score, every.out_of_scale)
    assert (part.health.clusters, part.models.furthest) == (whole.health.clusters, whole.models.furthest)


class Unwalked(dict):
    """Models that are read one by one only."""

    def _walked(self, *_):
        raise AssertionError("a walk over all models")

    __iter__ = items = keys = values = _walked


def test_what_is_read_every_second_walks_over_no_models():
    worker = task(given(0, prepare__rescale=True))
    run(worker, LOG, 100)
    store = worker.models
    summed = [sum(column) for column in zip(*map(_numbers, store._in_memory.values()), strict=True)]
    assert [*store.totals] == summed
    assert store.totals.compared > 0
    ranges = worker.health.ranges
    store._in_memory, store._began = Unwalked(store._in_memory), Unwalked(store._began)
    ranges._looks, ranges._often = Unwalked(ranges._looks), Unwalked(ranges._often)
    partition = AssignedPartition(worker, WRITER, LOG[-1].offset + 1, 0)
    processor = Processor(Commits(None, {"dead_letters": "d"}, interval=1), done=print, failed=print)
    processor.commits.partitions = {TP(TOPIC, 0): partition}
    status = WorkerStatus("running", processor=processor)
    status.ready()
    assert samples(status, "modal")["resonance_streams_in_memory"] == [((TOPIC, "0"), 12)]
    Progress(status, session_timeout=45.0).look()
    assert ranges.found().hint == ""


def test_a_partition_goes_on_at_another_offset_with_all_its_streams():
    found = []
    for limit in (0, 1):
        worker = task(given(limit))
        worker.catch_up(SILENT[:900])
        worker.announce()
        worker.go_on_at(40)
        assert (worker.models.recovery_offset, worker.models.furthest) == (40, 40)
        log = [record._replace(offset=number) for number, record in enumerate(SILENT[900:], start=40)]
        found.append((stored(worker), run(worker, log), stored(worker)))
    assert found[0] == found[1]


def test_a_restore_keeps_no_more_models_in_memory_than_the_limit():
    worker = task(given(0))
    run(worker, LOG)
    held = Held(worker)
    held.write(worker.models.names, LOG[-1].offset + 1)
    fresh = task(given(2))
    held.restore(fresh, LOG)
    assert fresh.models.loaded_models == 2
    assert [*fresh.models.states()] == [*worker.models.states()]
    # A stream that is restored once more counts once.
    fresh.restore(next(iter(held.snapshots.values())))
    assert (len(fresh.models), fresh.counts.totals.compared) == (12, worker.counts.totals.compared)


def test_the_only_stream_of_a_partition_stays():
    worker = task(settings(limits__streams_in_memory=1))
    run(worker, records(points(200).tolist()), 20)
    assert (worker.models.names, worker.models.loads) == (["p0"], 0)
