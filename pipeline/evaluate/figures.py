"""The figures of a run, over all records and over windows of them."""

from collections.abc import Callable, Mapping, Sequence
from statistics import mean, pstdev
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray
from resonance.pipeline.config.settings import Settings
from resonance.pipeline.evaluate.dataset import UNKNOWN, Dataset
from resonance.pipeline.evaluate.prepared import prepared
from resonance.pipeline.evaluate.run import NO_ANSWER, NO_CLUSTER, Run
from sklearn import metrics

WINDOWS: Final = 20
"""Equal parts of the records."""

SAMPLE: Final = 1_000
"""Most records of a window from which the silhouette is computed."""

MOST_STREAMS: Final = 50
"""Streams with the most records, whose means the figures are."""

AMI_STEPS: Final = 200_000_000
"""Most steps of the AMI that is expected by chance: records times clusters, or times classes where those are fewer.

A step takes about 40 ns, and the windows take as many again.
"""

AGREEMENT: Final = ("ari", "ami", "homogeneity", "completeness")
LABELS: Final = ("f1_micro", "f1_macro", "hamming", "exact")

NAMES: Final = (
    *(*AGREEMENT, *LABELS, "silhouette", "largest", "novelty", "unanswered"),
    *("clusters", "events", "microseconds", "bytes"),
)
"""Every figure, in the order of the tables."""

Figures = dict[str, float | None]
Places = NDArray[np.int64]


class Yardstick:
    """Computes the figures of runs over the same records."""

    def __init__(self, data: Dataset, settings: Settings) -> None:
        self.data = data
        self.prepared = prepared(data, settings)
        """Features of each record as an engine of these settings sees them; NaN where a record is not usable."""
        self.bounds = np.linspace(0, len(data), min(WINDOWS, len(data)) + 1).astype(int)

    def windows(self) -> list[Places]:
        """Return the records of each window."""
        return [np.arange(first, end) for first, end in zip(self.bounds[:-1], self.bounds[1:], strict=True)]

    def whole(self, run: Run) -> Figures:
        """Return the figures of all records."""
        found = self._window(run, np.arange(len(self.data)))
        if "silhouette" in found:
            each = [self._silhouette(run, places) for places in self.windows()]
            weights = [weight for _, weight in each]
            found["silhouette"] = (
                float(np.average([value for value, _ in each], weights=weights or None))
                if any(weights) and _has_several(run)
                else None
            )
        clusters = len(np.unique(run.cluster[run.cluster >= 0]))
        return found | {"clusters": clusters, "microseconds": microseconds(run), "bytes": run.state_bytes}

    def by_window(self, run: Run) -> list[Figures]:
        """Return the figures of each window."""
        return [self._window(run, places) for places in self.windows()]

    def _window(self, run: Run, places: Places) -> Figures:
        """Return the figures of records that follow each other."""
        found: Figures = {}
        if self.data.has_truth:
            found |= self._by_stream(run, self._with_truth(run, places), self._agreement, AGREEMENT)
            if self.data.labels:
                found |= self._labels(run, places)
        elif self.prepared is not None:
            found["silhouette"] = self._silhouette(run, places)[0]
        found |= self._by_stream(run, places, _largest, ("largest",))
        size = max(len(places), 1)
        first = int(places[0]) if len(places) else 0
        events = sum(first <= at < first + len(places) for at, _ in run.events)
        return found | {
            "novelty": float(run.novel[places].sum() / size),
            "unanswered": float((run.cluster[places] < 0).sum() / size),
            "events": 1_000 * events / size,
        }

    def _with_truth(self, run: Run, places: Places) -> Places:
        known: Places = places[(self.data.truth[places] != UNKNOWN) & (run.cluster[places] != NO_ANSWER)]
        return known

    def _by_stream(
        self, run: Run, places: Places, compute: Callable[[Run, Places], Figures], names: Sequence[str]
    ) -> Figures:
        """Return the mean of figures over the streams, each weighted by its records."""
        streams = run.stream[places]
        numbers, sizes = np.unique(streams[streams >= 0], return_counts=True)
        largest = np.argsort(-sizes, kind="stable")[:MOST_STREAMS]
        each = [compute(run, places[streams == numbers[place]]) for place in largest]
        if not each:
            return dict.fromkeys(names)

        def average(values: list[Any]) -> float | None:
            return None if None in values else float(np.average(values, weights=sizes[largest]))

        return {name: average([one[name] for one in each]) for name in names}

    def _agreement(self, run: Run, places: Places) -> Figures:
        # Records in no cluster are a group of their own.
        truth, cluster = self.data.truth[places], run.cluster[places]
        groups = min(len(np.unique(truth)), len(np.unique(cluster)))
        homogeneity, completeness, _ = metrics.homogeneity_completeness_v_measure(truth, cluster)
        return {
            "ari": float(metrics.adjusted_rand_score(truth, cluster)),
            # All records, for a window too: then all windows together keep the bound.
            "ami": float(metrics.adjusted_mutual_info_score(truth, cluster))
            if len(self.data) * groups <= AMI_STEPS
            else None,
            "homogeneity": float(homogeneity),
            "completeness": float(completeness),
        }

    def _labels(self, run: Run, places: Places) -> Figures:
        """Compare true with predicted labels, of the records that have both."""
        places = places[(self.data.truth[places] != UNKNOWN) & (run.predicted[places] >= 0)]
        if not len(places):
            return dict.fromkeys(LABELS)
        names = sorted({name for labels in (*self.data.labels, *run.label_sets) for name in labels})
        true = _indicators(self.data.labels, names)[self.data.truth[places]]
        predicted = _indicators(run.label_sets, names)[run.predicted[places]]

        def f1(average: str) -> float | None:
            # A label that no record of these has, or is predicted to have, is no part of the mean.
            found = float(metrics.f1_score(true, predicted, average=average, zero_division=np.nan))
            return None if np.isnan(found) else found

        return {
            "f1_micro": f1("micro"),
            "f1_macro": f1("macro"),
            "hamming": float(metrics.hamming_loss(true, predicted)),
            "exact": float(metrics.accuracy_score(true, predicted)),
        }

    def _silhouette(self, run: Run, places: Places) -> tuple[float | None, int]:
        """Return the mean silhouette of a sample of records, and their number; a record in no cluster has 0."""
        sample = places[:: -(-max(len(places), 1) // SAMPLE)]
        if self.prepared is None or not len(sample):
            return None, 0
        rows = self.prepared

        def of_stream(run: Run, mine: Places) -> Figures:
            inside = mine[(run.cluster[mine] >= 0) & ~np.isnan(rows[mine]).any(axis=1)]
            cluster = run.cluster[inside]
            if not 2 <= len(np.unique(cluster)) < len(inside):
                return {"silhouette": 0.0}
            score = float(metrics.silhouette_score(rows[inside], cluster))
            return {"silhouette": score * len(inside) / len(mine)}

        found = self._by_stream(run, sample, of_stream, ("silhouette",))["silhouette"]
        return (0.0 if found is None else found), len(sample)


def _has_several(run: Run) -> bool:
    """Whether a stream has more than one cluster: of one the silhouette is undefined."""
    inside = run.cluster >= 0
    stream, cluster = (array[inside].astype(np.int64) for array in (run.stream, run.cluster))
    return len(np.unique(stream * (cluster.max(initial=0) + 1) + cluster)) > len(np.unique(stream))


def microseconds(run: Run) -> float:
    """Return the CPU time that a record took."""
    return 1e6 * run.seconds / max(len(run.cluster), 1)


def _largest(run: Run, places: Places) -> Figures:
    """Return the share of the records that are in the largest cluster."""
    cluster = run.cluster[places]
    sizes = np.bincount(cluster[cluster >= 0], minlength=1)
    return {"largest": float(sizes.max() / max(len(places), 1))}


def _indicators(sets: Sequence[tuple[str, ...]], names: Sequence[str]) -> NDArray[np.int8]:
    """Return a row for each set of labels, with 1 for each of the names that it has."""
    return np.array([[name in labels for name in names] for labels in sets], dtype=np.int8).reshape(-1, len(names))


def spread(figures: Sequence[Mapping[str, float | None]]) -> dict[str, dict[str, float]]:
    """Return the mean and the standard deviation of each figure that all of several runs have."""
    found: dict[str, dict[str, float]] = {}
    for name in figures[0]:
        values: list[Any] = [each[name] for each in figures]
        if None not in values:
            found[name] = {"mean": mean(values), "spread": pstdev(values)}
    return found


def pseudo_run(cluster: NDArray[np.int32], names: list[str], like: Run) -> Run:
    """Return the run of something that only assigns clusters, in the streams of another run."""
    size = len(cluster)
    nothing = np.full(size, NO_CLUSTER, dtype=np.int32)
    novel = np.zeros(size, dtype=np.bool_)
    return Run(cluster, names, like.stream, like.streams, nothing, [], novel, nothing, [])
