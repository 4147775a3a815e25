"""What ``/metrics`` shows: every name once, and the collector that reads the worker's values at each scrape.

Nothing is counted for Prometheus on a record's path. Labels are topic, partition, kind, rule, stage and class, never a
cluster, a stream or a record: their number would grow with the data.
"""

from bisect import bisect_left
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Final, Literal, NamedTuple

from prometheus_client import CollectorRegistry, GCCollector, PlatformCollector, ProcessCollector
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, HistogramMetricFamily, Metric
from prometheus_client.exposition import choose_encoder
from prometheus_client.registry import Collector

PARTITION: Final = ("topic", "partition")


class Description(NamedTuple):
    """A metric: its name as queries write it, without the suffixes of a histogram's series."""

    name: str
    kind: Literal["counter", "gauge", "histogram"]
    labels: tuple[str, ...]
    help: str


DESCRIPTIONS: Final = (
    Description("resonance_build_info", "gauge", ("version", "engine"), "Always 1; what runs."),
    Description("resonance_ready", "gauge", (), "1 while the worker is ready, as /readyz says."),
    Description("resonance_poll_age_seconds", "gauge", (), "Seconds since the fetch loop last completed an iteration."),
    Description(
        "resonance_assigned_partitions", "gauge", (), "Partitions of this worker: of input, labels and routes."
    ),
    Description("resonance_rebalances_total", "counter", (), "Times that partitions were given up for a rebalance."),
    Description("resonance_recovery_seconds", "gauge", (), "Seconds that the last restore took."),
    Description("resonance_recovery_records", "gauge", (), "Records that the last restore learned again."),
    Description("resonance_batch_seconds", "histogram", (), "Seconds that a batch of records took to be learned."),
    Description("resonance_transaction_seconds", "histogram", (), "Seconds from a first output to its commit's end."),
    Description("resonance_commits_total", "counter", (), "Commits."),
    Description("resonance_outputs_total", "counter", (), "Messages written, without routes and snapshots."),
    Description("resonance_records_total", "counter", PARTITION, "Records processed, dead letters included."),
    Description("resonance_skipped_nulls_total", "counter", PARTITION, "Records without a value, which are skipped."),
    Description(
        "resonance_dead_letters_total", "counter", (*PARTITION, "stage", "class"), "Records that became dead letters."
    ),
    Description(
        "resonance_foreign_routes_total",
        "counter",
        PARTITION,
        "Messages among the routes that no worker wrote.",
    ),
    Description("resonance_repeated_routes_total", "counter", PARTITION, "Duplicate or out-of-order routes dropped."),
    Description("resonance_events_total", "counter", (*PARTITION, "kind"), "Events of clusters, by kind."),
    Description("resonance_drift_events_total", "counter", (*PARTITION, "kind"), "Drift events, by kind."),
    Description("resonance_alerts_total", "counter", (*PARTITION, "rule"), "Alerts that opened, by rule."),
    Description("resonance_open_alerts", "gauge", (*PARTITION, "rule"), "Alerts that are open, by rule."),
    Description("resonance_lag_records", "gauge", PARTITION, "Offsets between the last commit and the log's end."),
    Description("resonance_lag_unstable_records", "gauge", PARTITION, "Those of them behind an open transaction."),
    Description("resonance_open_transaction_seconds", "gauge", PARTITION, "Seconds that one has held records back."),
    Description("resonance_streams", "gauge", PARTITION, "Streams that have a model."),
    Description("resonance_streams_in_memory", "gauge", PARTITION, "Streams whose models are in memory."),
    Description("resonance_stream_loads_total", "counter", PARTITION, "Models that came back from the temporary file."),
    Description("resonance_labelled_records_total", "counter", PARTITION, "Records that were learned with labels."),
    Description("resonance_labels_waiting", "gauge", PARTITION, "Labels that wait for a record that has not come."),
    Description("resonance_label_buffer_records", "gauge", PARTITION, "Records that late labels can still reach."),
    Description("resonance_clusters", "gauge", PARTITION, "Present clusters of all streams and levels."),
    Description("resonance_open_drifts", "gauge", PARTITION, "Streams whose data are changing now."),
    Description("resonance_paused", "gauge", PARTITION, "1 while too many dead letters pause the partition."),
    Description("resonance_stuck", "gauge", PARTITION, "1 while all that comes are dead letters of one kind."),
    Description("resonance_snapshot_age_seconds", "gauge", PARTITION, "Seconds since the last snapshot or restore."),
    Description("resonance_snapshot_bytes", "gauge", PARTITION, "Bytes of the newest snapshots of all streams."),
    Description("resonance_replay_from_lag_records", "gauge", PARTITION, "Offsets that a restart would learn again."),
    Description("resonance_last_record_age_seconds", "gauge", PARTITION, "Seconds since the last record came."),
    Description("resonance_window_records", "gauge", PARTITION, "Assignments in the window of the following figures."),
    Description("resonance_novelty_ratio", "gauge", PARTITION, "Share of records marked novel."),
    Description("resonance_largest_cluster_ratio", "gauge", PARTITION, "Share of the largest cluster of a stream."),
    Description("resonance_score_mean", "gauge", PARTITION, "Mean score; 1 is typical."),
    Description("resonance_out_of_scale_ratio", "gauge", PARTITION, "Share of values outside their frozen range."),
    Description("resonance_churn_ratio", "gauge", PARTITION, "Share of records whose cluster changed without event."),
)
"""Every metric of the worker itself, in the order of the page."""

BOUNDS: Final = (0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0)
"""Upper bounds of the buckets of both histograms, in seconds."""

Samples = Mapping[str, Sequence[tuple[tuple[str, ...], float]]]
"""For each metric's name: the values of its labels, and the value."""


class Durations:
    """Seconds that something took, counted in buckets; observed by one thread, read by any."""

    def __init__(self) -> None:
        # Observations up to each of `BOUNDS` and above the bound before, then those above the last one.
        self.counts = [0] * (len(BOUNDS) + 1)
        # Sum of the observations.
        self.total = 0.0

    def observe(self, seconds: float) -> None:
        """Count one duration."""
        self.counts[bisect_left(BOUNDS, seconds)] += 1
        self.total += seconds

    def buckets(self) -> list[tuple[str, float]]:
        """Return the cumulative buckets as Prometheus writes them."""
        result, sum_so_far = [], 0
        for bound, count in zip([*map(str, BOUNDS), "+Inf"], self.counts.copy(), strict=True):
            sum_so_far += count
            result.append((bound, float(sum_so_far)))
        return result


class WorkerCollector(Collector):
    """Reads the worker's values at each scrape; a metric without values is still described."""

    def __init__(self, samples: Callable[[], Samples], durations: Mapping[str, Durations]) -> None:
        self._samples = samples
        self._durations = durations

    def describe(self) -> Iterator[Metric]:
        """Yield the metrics without values, for the registry's check of names."""
        for description in DESCRIPTIONS:
            yield _family(description)

    def collect(self) -> Iterator[Metric]:
        """Yield the metrics with their present values."""
        samples = self._samples()
        for description in DESCRIPTIONS:
            family = _family(description)
            if isinstance(family, HistogramMetricFamily):
                durations = self._durations[description.name]
                family.add_metric((), durations.buckets(), durations.total)
            else:
                for labels, value in samples.get(description.name, ()):
                    family.add_metric(labels, value)
            yield family


def _family(description: Description) -> CounterMetricFamily | GaugeMetricFamily | HistogramMetricFamily:
    name, kind, labels, text = description
    if kind == "counter":
        return CounterMetricFamily(name, text, labels=labels)
    if kind == "gauge":
        return GaugeMetricFamily(name, text, labels=labels)
    return HistogramMetricFamily(name, text, labels=labels)


def make_registry(samples: Callable[[], Samples], durations: Mapping[str, Durations]) -> CollectorRegistry:
    """Return a registry of one worker, with the library's own metrics of the process and of Python."""
    registry = CollectorRegistry()
    registry.register(WorkerCollector(samples, durations))
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


def series_names() -> set[str]:
    """Return every name that a query can use, those of the process and of Python included."""
    registry = make_registry(dict, {name: Durations() for name, kind, _, _ in DESCRIPTIONS if kind == "histogram"})
    names = {name for name, kind, _, _ in DESCRIPTIONS if kind != "histogram"}
    return names | {sample.name for family in registry.collect() for sample in family.samples}
