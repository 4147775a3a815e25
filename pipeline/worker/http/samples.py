"""A worker's values for Prometheus, gathered at each scrape."""

import time
from importlib.metadata import version

from resonance.pipeline.records import Counts
from resonance.pipeline.worker.assignment import AssignedPartition, Histograms
from resonance.pipeline.worker.http.metrics import Durations, Samples
from resonance.pipeline.worker.http.status import WorkerStatus

Values = list[tuple[tuple[str, ...], float]]


def durations(histograms: Histograms) -> dict[str, Durations]:
    """Return the histograms by the names of their metrics."""
    return {
        "resonance_batch_seconds": histograms.batch,
        "resonance_transaction_seconds": histograms.transaction,
    }


def samples(status: WorkerStatus, engine: str) -> Samples:
    """Return the values of every counter and gauge; the worker may be at work in other threads."""
    found: dict[str, Values] = {
        "resonance_build_info": [((version("resonance-streams"), engine), 1)],
        "resonance_ready": [((), not status.problems())],
        "resonance_assigned_partitions": [((), len(status.assigned))],
        "resonance_rebalances_total": [((), status.rebalances)],
        "resonance_recovery_seconds": [((), status.recovery_seconds)],
        "resonance_recovery_records": [((), status.recovery_records)],
    }
    if (age := status.poll_age) is not None:
        found["resonance_poll_age_seconds"] = [((), age)]
    processor = status.processor
    if processor is None:
        return found
    found["resonance_commits_total"] = [((), processor.counters.commits)]
    found["resonance_outputs_total"] = [((), processor.counters.outputs)]
    lags = status.lags()
    for tp, partition in sorted(processor.partitions.items()):
        at = (tp.topic, str(tp.partition))
        seen = partition.task.counts
        values = _of(partition, seen)
        values["resonance_paused"] = tp in processor.pauses.paused
        values["resonance_stuck"] = tp in processor.pauses.stuck
        if (lag := lags.get(tp)) is not None:
            held = status.held_back.get(tp)
            values |= {
                "resonance_lag_records": lag.waiting,
                "resonance_lag_unstable_records": lag.unstable,
                "resonance_open_transaction_seconds": time.monotonic() - held.since if held else 0,
            }
        for name, value in values.items():
            if value is not None:
                found.setdefault(name, []).append((at, value))
        for name, labelled in _labelled(partition, seen).items():
            found.setdefault(name, []).extend(((*at, *labels), value) for labels, value in labelled)
    return found


def _of(partition: AssignedPartition, seen: Counts) -> dict[str, float | None]:
    """Return a partition's values without further labels; None where there is none yet."""
    task, now = partition.task, time.monotonic()
    before = _before(partition)
    figures = task.health.figures()
    recovery_offset = partition.writer.recovery_offset
    return {
        "resonance_records_total": seen.records - before.records,
        "resonance_skipped_nulls_total": seen.skipped - before.skipped,
        "resonance_foreign_routes_total": seen.foreign - before.foreign,
        "resonance_repeated_routes_total": seen.repeated - before.repeated,
        "resonance_streams": seen.streams,
        "resonance_streams_in_memory": seen.streams_in_memory,
        "resonance_stream_loads_total": seen.stream_loads - before.stream_loads,
        "resonance_labelled_records_total": max(seen.labelled - before.labelled, 0) if seen.learns_labels else None,
        "resonance_labels_waiting": seen.labels_waiting if seen.learns_labels else None,
        "resonance_label_buffer_records": seen.label_buffer if seen.learns_labels else None,
        "resonance_clusters": task.health.clusters,
        "resonance_open_drifts": seen.open_drifts if seen.watches_drift else None,
        "resonance_snapshot_age_seconds": now - partition.last_snapshot,
        "resonance_snapshot_bytes": seen.snapshot_bytes,
        "resonance_replay_from_lag_records": None if recovery_offset is None else partition.position - recovery_offset,
        "resonance_last_record_age_seconds": now - partition.last_record,
        "resonance_window_records": figures.records,
        "resonance_novelty_ratio": figures.novelty,
        "resonance_largest_cluster_ratio": figures.largest_cluster,
        "resonance_score_mean": figures.score,
        "resonance_out_of_scale_ratio": figures.out_of_scale,
        "resonance_churn_ratio": figures.churn,
    }


def _labelled(partition: AssignedPartition, seen: Counts) -> dict[str, Values]:
    task, before = partition.task, _before(partition)
    dead_letters = seen.dead_letters_by_stage - before.dead_letters_by_stage
    return {
        "resonance_dead_letters_total": sorted(dead_letters.items()),
        "resonance_events_total": _by_kind(task.health.events),
        "resonance_drift_events_total": _by_kind(task.health.drifts),
        "resonance_alerts_total": _by_kind(task.health.alerts),
        "resonance_open_alerts": _by_kind(task.health.open_alerts),
    }


def _by_kind(counts: dict[str, int]) -> Values:
    return [((kind,), count) for kind, count in sorted(counts.copy().items())]


def _before(partition: AssignedPartition) -> Counts:
    return partition.learned_again or Counts()
