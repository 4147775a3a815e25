"""What ``/metrics`` shows: one table of every metric with what its value is, read at each scrape.

Nothing is counted for Prometheus on a record's path. Labels are topic, partition, kind, rule, stage and class, never a
cluster, a stream or a record: their number would grow with the data.
"""

import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from importlib.metadata import version
from typing import Any, Final, NamedTuple

from faust.types import TP
from prometheus_client import (
    CollectorRegistry,
    GCCollector,
    PlatformCollector,
    ProcessCollector,
    disable_created_metrics,
)
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, Metric
from prometheus_client.exposition import choose_encoder
from prometheus_client.registry import Collector
from resonance.pipeline.task.counts import Counts
from resonance.pipeline.worker.assignment import Counters, Histograms
from resonance.pipeline.worker.http.status import WorkerStatus
from resonance.pipeline.worker.processor import Processor
from resonance.pipeline.worker.transport.log_ends import Lag

PARTITION: Final = ("topic", "partition")

Found = float | Mapping[Any, float] | None
"""The value of a metric, or its values by its last label or labels; None where there is none yet."""

Sample = tuple[tuple[str, ...], float]
"""The values of a metric's labels, and its value."""

Samples = Mapping[str, Sequence[Sample]]
"""By the metric's name."""


class Row(NamedTuple):
    """A metric: its name as queries write it, and where it comes from."""

    name: str
    help: str
    of: Callable[[Any], Found]
    """Returns what an `_OfWorker`, or an `_OfPartition`, has of it."""
    labels: tuple[str, ...] = ()

    @property
    def kind(self) -> str:
        """Type of the metric for Prometheus."""
        return "counter" if self.name.endswith("_total") else "gauge"


OF_WORKER: Final = (
    Row(
        "resonance_build_info",
        "Always 1; what runs.",
        lambda w: {(version("resonance-streams"), w.engine): 1},
        ("version", "engine"),
    ),
    Row("resonance_ready", "1 while the worker is ready, as /readyz says.", lambda w: not w.status.problems()),
    Row(
        "resonance_poll_age_seconds",
        "Seconds since the fetch loop last completed an iteration.",
        lambda w: w.status.poll_age,
    ),
    Row(
        "resonance_assigned_partitions",
        "Partitions of this worker: of input, labels and routes.",
        lambda w: len(w.status.assigned),
    ),
    Row(
        "resonance_rebalances_total",
        "Times that partitions were given up for a rebalance.",
        lambda w: w.status.rebalances,
    ),
    Row("resonance_recovery_seconds", "Seconds that the last restore took.", lambda w: w.status.recovery_seconds),
    Row(
        "resonance_recovery_records",
        "Records that the last restore learned again.",
        lambda w: w.status.recovery_records,
    ),
    Row("resonance_commits_total", "Commits.", lambda w: w.counters and w.counters.commits),
    Row(
        "resonance_outputs_total",
        "Messages written, without routes and snapshots.",
        lambda w: w.counters and w.counters.outputs,
    ),
)

OF_PARTITION: Final = (
    Row("resonance_records_total", "Records processed, dead letters included.", lambda p: p.new.records),
    Row("resonance_skipped_nulls_total", "Records without a value, which are skipped.", lambda p: p.new.skipped),
    Row(
        "resonance_dead_letters_total",
        "Records that became dead letters.",
        lambda p: p.new.dead_letters_by_stage,
        ("stage", "class"),
    ),
    Row("resonance_foreign_routes_total", "Messages among the routes that no worker wrote.", lambda p: p.new.foreign),
    Row("resonance_repeated_routes_total", "Duplicate or out-of-order routes dropped.", lambda p: p.new.repeated),
    Row("resonance_events_total", "Events of clusters, by kind.", lambda p: p.health.events, ("kind",)),
    Row("resonance_drift_events_total", "Drift events, by kind.", lambda p: p.health.drifts, ("kind",)),
    Row("resonance_alerts_total", "Alerts that opened, by rule.", lambda p: p.health.alerts, ("rule",)),
    Row("resonance_open_alerts", "Alerts that are open, by rule.", lambda p: p.health.open_alerts, ("rule",)),
    Row(
        "resonance_lag_records",
        "Offsets between the last commit and the log's end.",
        lambda p: p.lag and p.lag.waiting,
    ),
    Row(
        "resonance_lag_unstable_records",
        "Those of them behind an open transaction.",
        lambda p: p.lag and p.lag.unstable,
    ),
    Row(
        "resonance_open_transaction_seconds",
        "Seconds that one has held records back.",
        lambda p: p.lag and (p.now - p.held.since if p.held else 0),
    ),
    Row("resonance_streams", "Streams that have a model.", lambda p: len(p.models)),
    Row("resonance_streams_in_memory", "Streams whose models are in memory.", lambda p: p.models.loaded_models),
    Row(
        "resonance_stream_loads_total",
        "Models that came back from the temporary file.",
        lambda p: p.new.stream_loads,
    ),
    Row(
        "resonance_labelled_records_total",
        "Records that were learned with labels.",
        lambda p: p.of_labels and max(p.new.totals.labelled, 0),
    ),
    Row(
        "resonance_labels_waiting",
        "Labels that wait for a record that has not come.",
        lambda p: p.of_labels and p.of_labels.waiting,
    ),
    Row(
        "resonance_label_buffer_records",
        "Records that late labels can still reach.",
        lambda p: p.of_labels and p.of_labels.unlabelled,
    ),
    Row("resonance_clusters", "Present clusters of all streams and levels.", lambda p: p.health.clusters),
    Row(
        "resonance_open_drifts",
        "Streams whose data are changing now.",
        lambda p: p.totals.open_drifts if p.totals.watch_drift else None,
    ),
    Row(
        "resonance_crowded_streams",
        "Streams whose model has fewer nodes than its clusters need.",
        lambda p: p.totals.crowded,
    ),
    Row(
        "resonance_paused",
        "1 while too many dead letters pause the partition.",
        lambda p: p.tp in p.pauses.paused,
    ),
    Row(
        "resonance_snapshot_age_seconds",
        "Seconds since the last snapshot or restore.",
        lambda p: p.now - p.owned.last_snapshot,
    ),
    Row(
        "resonance_snapshot_bytes",
        "Bytes of the newest snapshots of all streams.",
        lambda p: p.totals.snapshot_bytes,
    ),
    Row("resonance_replay_from_lag_records", "Offsets that a restart would learn again.", lambda p: p.replay_lag),
    Row(
        "resonance_last_record_age_seconds",
        "Seconds since the last record came.",
        lambda p: p.now - p.owned.last_record,
    ),
    Row(
        "resonance_window_records",
        "Assignments in the window of the following figures.",
        lambda p: p.figures.records,
    ),
    Row("resonance_novelty_ratio", "Share of records marked novel.", lambda p: p.figures.novelty),
    Row(
        "resonance_largest_cluster_ratio",
        "Share of the largest cluster of a stream.",
        lambda p: p.figures.largest_cluster,
    ),
    Row("resonance_score_mean", "Mean score; 1 is typical.", lambda p: p.figures.score),
    Row(
        "resonance_out_of_scale_ratio",
        "Share of values outside their frozen range.",
        lambda p: p.figures.out_of_scale,
    ),
    Row(
        "resonance_churn_ratio",
        "Share of records whose cluster changed without event.",
        lambda p: p.figures.churn,
    ),
)

METRICS: Final = (*OF_WORKER, *(row._replace(labels=(*PARTITION, *row.labels)) for row in OF_PARTITION))
"""Every metric of the worker itself but its histograms, in the order of the page."""

# Of a histogram they say when it was made.
disable_created_metrics()  # type: ignore[no-untyped-call]


class _OfWorker(NamedTuple):
    status: WorkerStatus
    engine: str

    @property
    def counters(self) -> Counters | None:
        return None if self.status.processor is None else self.status.processor.counters


class _OfPartition:
    """A partition at the moment of a scrape; it may be at work in another thread."""

    def __init__(self, status: WorkerStatus, processor: Processor, tp: TP, lag: Lag | None) -> None:
        self.now = time.monotonic()
        self.tp, self.owned, self.lag = tp, processor.partitions[tp], lag
        self.held, self.pauses = status.held_back.get(tp), processor.pauses
        task, replayed = self.owned.task, self.owned.writer.recovery_offset
        self.models, self.health, self.figures = task.models, task.health, task.health.figures()
        counts = task.counts
        self.totals = counts.totals
        self.of_labels = counts.totals if counts.totals.learn_labels else None
        # What a restore learned again was counted before.
        self.new = counts.since(self.owned.learned_again or Counts())
        self.replay_lag = None if replayed is None else self.owned.position - replayed


def samples(status: WorkerStatus, engine: str) -> Samples:
    """Return the values of every metric; the worker may be at work in other threads."""
    found: dict[str, list[Sample]] = {}
    _put(found, OF_WORKER, (), _OfWorker(status, engine))
    if (processor := status.processor) is not None:
        lags = status.lags()
        for tp in sorted(lags):
            of = _OfPartition(status, processor, tp, lags[tp])
            _put(found, OF_PARTITION, (tp.topic, str(tp.partition)), of)
    return found


def _put(found: dict[str, list[Sample]], rows: Sequence[Row], at: tuple[str, ...], of: Any) -> None:
    for row in rows:
        value = row.of(of)
        if isinstance(value, Mapping):
            # A copy, as another thread may add a kind.
            for labels, number in sorted(dict(value).items()):
                own = labels if isinstance(labels, tuple) else (labels,)
                found.setdefault(row.name, []).append(((*at, *own), number))
        elif value is not None:
            found.setdefault(row.name, []).append((at, value))


class WorkerCollector(Collector):
    """Reads the worker's values at each scrape; a metric without values is still described."""

    def __init__(self, read: Callable[[], Samples]) -> None:
        self._read = read

    def describe(self) -> Iterator[Metric]:
        """Yield the metrics without values, for the registry's check of names."""
        yield from map(_family, METRICS)

    def collect(self) -> Iterator[Metric]:
        """Yield the metrics with their present values."""
        found = self._read()
        for row in METRICS:
            family = _family(row)
            for labels, value in found.get(row.name, ()):
                family.add_metric(labels, value)
            yield family


def _family(row: Row) -> Any:
    kind = CounterMetricFamily if row.kind == "counter" else GaugeMetricFamily
    return kind(row.name, row.help, labels=row.labels)


def make_registry(read: Callable[[], Samples], histograms: Histograms) -> CollectorRegistry:
    """Return a registry of one worker, with the library's own metrics of the process and of Python."""
    registry = CollectorRegistry()
    for collector in (WorkerCollector(read), histograms.batch, histograms.transaction):
        registry.register(collector)
    ProcessCollector(registry=registry)
    PlatformCollector(registry=registry)
    GCCollector(registry=registry)
    return registry


def exposition(registry: CollectorRegistry, accept: str = "") -> tuple[bytes, str]:
    """Return a registry's page and its content type: Prometheus' text format unless `accept` says otherwise."""
    try:
        encode, content_type = choose_encoder(accept)
    except (TypeError, ValueError):
        # It cannot read every version that a header can have.
        encode, content_type = choose_encoder("")
    return encode(registry), content_type
