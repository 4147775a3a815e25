"""What Prometheus reads of a partition is what its task has done since it was assigned."""

from types import SimpleNamespace

import pytest
from faust.types import TP
from resonance.pipeline.checkpoint.changelog_records import Identity
from resonance.pipeline.checkpoint.changelog_writer import ChangelogWriter
from resonance.pipeline.records import Outputs
from resonance.pipeline.worker.assignment import AssignedPartition
from resonance.pipeline.worker.commits import Commits
from resonance.pipeline.worker.http.metrics import METRICS, OF_WORKER, samples
from resonance.pipeline.worker.http.status import WorkerStatus
from resonance.pipeline.worker.processor import Processor
from resonance.pipeline.worker.transport.log_ends import LogEnd

from tests.pipeline.streams import TOPIC, payloads, points, records, restored, run, settings, states, task

AT = TP(TOPIC, 0)


def owned(worker, position):
    writer = ChangelogWriter(Identity("pipe", (TOPIC,), TOPIC, "id-1", 1, "caea", "1"), 0)
    return AssignedPartition(worker, writer, position, -1, learned_again=worker.counts)


def values(partition, ends=None):
    """Value of each metric of a partition, its other labels behind the name."""
    processor = Processor(Commits(None, {"dead_letters": "d"}, interval=1), done=print, failed=print)
    processor.commits.partitions = {AT: partition}
    status = WorkerStatus("running", assigned=(AT,), processor=processor)
    consumer = SimpleNamespace(
        polled=None, flow_active=False, has_coordinator=True, ends=lambda: ends or {}, silent=list
    )
    status.app = SimpleNamespace(rebalancing=False, unassigned=False, _consumer=consumer)
    found = samples(status, "caea")
    assert set(found) <= {row.name for row in METRICS}
    labels = {row.name: len(row.labels) for row in METRICS}
    assert all(len(given) == labels[name] for name, several in found.items() for given, _ in several)
    own = {name: several for name, several in found.items() if name not in {row.name for row in OF_WORKER}}
    return {(name, *given[2:]): value for name, several in own.items() for given, value in several}


def test_everything_that_was_done_is_there():
    worker = task()
    partition = owned(worker, 0)
    log = records(points(1500, seed=1).tolist())
    log[3], log[5] = log[3]._replace(value=None), log[5]._replace(value=b"{")
    outputs = run(worker, log, 512)
    partition.position = log[-1].offset + 1
    list(partition.writer.messages(worker, partition.position, -1, everything=True))
    partition.committed = partition.position - 10
    found = values(partition, {AT: LogEnd(partition.position, partition.position + 40)})
    kinds = [event["kind"] for event in payloads(outputs.cluster_events)]
    assert {key[1]: value for key, value in found.items() if key[0] == "resonance_events_total"} == {
        kind: kinds.count(kind) for kind in set(kinds)
    }
    assert found["resonance_clusters",] == len(worker.models.clusters("p0")) > 1
    assert (found["resonance_records_total",], found["resonance_skipped_nulls_total",]) == (1500, 1)
    assert found["resonance_dead_letters_total", "decode", "not_json"] == 1
    assert (found["resonance_lag_records",], found["resonance_lag_unstable_records",]) == (50, 40)
    assert (found["resonance_open_transaction_seconds",], found["resonance_replay_from_lag_records",]) == (0, 0)
    assert found["resonance_snapshot_bytes",] > 1000
    assert found["resonance_window_records",] == 1500 - 2 - 16
    for name in ("novelty", "largest_cluster", "out_of_scale", "churn"):
        assert 0 <= found[f"resonance_{name}_ratio",] < 1
    answers = [answer for answer in payloads(outputs.assignments) if answer["status"] == "assigned"]
    scores = [answer["score"] for answer in answers if answer["score"] is not None]
    assert found["resonance_score_mean",] == pytest.approx(sum(scores) / len(scores))
    assert found["resonance_novelty_ratio",] == pytest.approx(sum(a["novel"] for a in answers) / len(answers))


def test_what_a_restore_learned_again_was_counted_before():
    log = records(points(1200).tolist())
    first = task()
    run(first, log[:600])
    fresh = restored(settings(), first.partition_state(), [first.models.snapshot("p0")])
    fresh.catch_up(log[600:900])
    partition = owned(fresh, 0)
    found = values(partition)
    assert found["resonance_records_total",] == 0
    assert not [key for key in found if key[0] == "resonance_events_total"]
    assert found["resonance_clusters",] == len(fresh.models.clusters("p0")) > 0
    # The figures look at them all the same.
    assert found["resonance_window_records",] == 300
    run(fresh, log[900:])
    found = values(partition)
    assert (found["resonance_records_total",], found["resonance_clusters",]) == (300, len(fresh.models.clusters("p0")))


@pytest.mark.parametrize("engine", ["modal", "hcaea"])
def test_clusters_are_counted_on_all_levels_and_in_all_streams(engine):
    worker = task(settings(stream="key", engine__name=engine))
    run(worker, records(points(1500).tolist(), keys=[b"a", b"b", b"c"]), 97)
    found = values(owned(worker, 0))
    assert found["resonance_clusters",] == sum(len(worker.models.clusters(stream)) for stream in worker.models.names)
    assert found["resonance_streams",] == 3


def test_looking_changes_neither_answers_nor_states():
    log = records(points(1500).tolist())
    watched, alone = task(), task()
    outputs = Outputs()
    for start in range(0, 1500, 100):
        outputs.add(watched.process(log[start : start + 100]))
        watched.health.figures()
    assert outputs == run(alone, log)
    assert (states(watched), watched.partition_state()) == (states(alone), alone.partition_state())


def test_before_anything_came_there_are_no_figures():
    found = values(owned(task(), 0))
    assert found["resonance_window_records",] == 0
    for name in ("novelty_ratio", "score_mean", "churn_ratio", "lag_records", "replay_from_lag_records"):
        assert (f"resonance_{name}",) not in found


def test_a_worker_that_starts_has_little_to_say():
    found = samples(WorkerStatus(), "caea")
    assert found["resonance_ready"] == [((), False)]
    assert "resonance_poll_age_seconds" not in found
