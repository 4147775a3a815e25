"""A whole evaluation: reads the records, runs every candidate, and measures all of them alike."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import Final

import numpy as np
from numpy.typing import NDArray
from resonance.pipeline.errors import ConfigurationError, counted
from resonance.pipeline.evaluate.candidates import Candidate, evaluated
from resonance.pipeline.evaluate.dataset import UNKNOWN, Dataset, read
from resonance.pipeline.evaluate.figures import AMI_STEPS, MOST_STREAMS, NAMES, Figures, Yardstick, pseudo_run, spread
from resonance.pipeline.evaluate.prepared import AXES
from resonance.pipeline.evaluate.run import NO_ANSWER, Run
from resonance.pipeline.evaluate.source import Recording
from resonance.pipeline.replay.jobs import Report, run_jobs
from sklearn.cluster import KMeans

SHUFFLED: Final = frozenset(NAMES) - {"microseconds", "bytes"}
"""Figures that are given of shuffled orders."""

COMPARED: Final = frozenset(NAMES) - {
    *("f1_micro", "f1_macro", "hamming", "exact", "novelty", "unanswered"),
    *("events", "microseconds", "bytes"),
}
"""Figures of a baseline, which has no models and no costs."""


@dataclass(slots=True)
class Measured:
    """A candidate or a baseline with its figures."""

    name: str
    run: Run
    whole: Figures
    windows: list[Figures]
    settings: Mapping[str, str] = field(default_factory=dict)
    shuffled: dict[str, dict[str, float]] = field(default_factory=dict)
    """Mean and spread of each figure over shuffled orders."""


@dataclass(slots=True)
class Evaluation:
    """Everything that was measured."""

    data: Dataset
    yardstick: Yardstick
    candidates: list[Measured]
    baselines: list[Measured]
    criterion: str
    """The figure by which candidates are ranked; more is better."""
    notes: list[str]

    @property
    def ranked(self) -> list[Measured]:
        """The candidates, the best first."""

        def value(one: Measured) -> float:
            found = one.whole.get(self.criterion)
            return -np.inf if found is None else found

        return sorted(self.candidates, key=value, reverse=True)


def evaluate(
    candidates: Sequence[Candidate],
    source: Recording,
    *,
    truth: str | None = None,
    shuffles: int = 0,
    processes: int = 1,
    report: Report = lambda _: None,
) -> Evaluation:
    """Run the candidates over the records of a source and measure them.

    Raises `ConfigurationError` for settings that do not fit the records, and a truth that no record has.
    """
    first = candidates[0].settings
    data = read(first, source, truth)
    if shuffles and first.labels.topic is not None:
        raise ConfigurationError("--shuffle: labels that come later than their records have an order; leave it out")
    orders: list[int | None] = [None, *range(shuffles)]
    jobs = [partial(evaluated, candidate, source, data, order) for candidate in candidates for order in orders]
    runs, _ = run_jobs(first, jobs, processes, report)
    yardstick = Yardstick(data, first)
    found = []
    for number, candidate in enumerate(candidates):
        recorded, *others = runs[number * len(orders) : (number + 1) * len(orders)]
        _check_answers(candidate, recorded, source.remedy)
        one = Measured(candidate.name, recorded, yardstick.whole(recorded), yardstick.by_window(recorded))
        one.settings = candidate.changes
        if others:
            shuffled = [Yardstick(data.rearranged(seed)[0], first).whole(run) for seed, run in enumerate(others)]
            one.shuffled = {name: value for name, value in spread(shuffled).items() if name in SHUFFLED}
        found.append(one)
    k = _classes_or_clusters(data, found)
    based = baselines(yardstick.prepared, k, found[0].run)
    measured = [Measured(name, run, yardstick.whole(run), yardstick.by_window(run)) for name, run in based.items()]
    for one in measured:
        one.whole, *one.windows = (
            {name: value for name, value in figures.items() if name in COMPARED}
            for figures in (one.whole, *one.windows)
        )
    notes = list(dict.fromkeys(candidate.note for candidate in candidates if candidate.note))
    criterion = "f1_micro" if data.labels else "ari" if data.has_truth else "silhouette"
    notes += _notes(data, found, k)
    return Evaluation(data, yardstick, found, measured, criterion, notes)


def _classes_or_clusters(data: Dataset, found: Sequence[Measured]) -> int:
    """Return how many clusters k-means is to find: the classes, without truth what the candidates found in the mean."""
    if data.has_truth:
        return len(np.unique(data.truth[data.truth != UNKNOWN]))
    return round(float(np.median([one.whole["clusters"] for one in found])))


def _check_answers(candidate: Candidate, run: Run, remedy: str) -> None:
    if not (run.cluster != NO_ANSWER).any():
        why = ", ".join(f"{kind} {count:,}" for kind, count in run.dead_letters.most_common())
        raise ConfigurationError(
            f"{candidate.name}: none of the {counted(len(run.cluster), 'record')} could be used ({why}); {remedy}"
        )


def _notes(data: Dataset, found: Sequence[Measured], k: int) -> list[str]:
    notes = []
    if data.has_truth and len(np.unique(data.truth[data.truth != UNKNOWN])) == 1:
        notes.append(
            "the truth has one class: agreement with it is 1 where everything is in one cluster, and else it says "
            "nothing"
        )
    if (unknown := int((data.truth == UNKNOWN).sum())) and data.has_truth:
        notes.append(f"without truth: {counted(unknown, 'record')}; agreement is of the others")
    if data.remark:
        notes.append(data.remark)
    if data.sparse is not None:
        notes.append(
            f"sparse records: silhouette and k-means see them at length 1, of more than {AXES} features on "
            f"{AXES} axes (truncated SVD)"
        )
    if costly := [one.name for one in found if one.whole.get("ari") is not None and one.whole["ami"] is None]:
        notes.append(
            f"AMI is left out for {', '.join(costly)}: records times clusters (or classes, if fewer) are more than "
            f"{AMI_STEPS:,}"
        )
    if silent := [one.name for one in found if one.whole.get("unanswered") == 1.0]:
        notes.append(
            f"no record has a cluster with {', '.join(silent)}: each stream needs prepare.warmup_records and more first"
        )
    if k > MOST_CLUSTERS:
        notes.append(f"k-means would have {k:,} clusters, {MOST_CLUSTERS} are computed at most: left out")
    streams = len(found[0].run.streams)
    if streams > 1:
        shown = f"the {MOST_STREAMS} of {streams:,} streams with the most records" if streams > MOST_STREAMS else ""
        notes.append(f"figures are means over {shown or f'{streams} streams'}, weighted by their records")
    if dead := int((found[0].run.cluster == NO_ANSWER).sum()):
        notes.append(f"{dead:,} of {counted(len(data), 'record')} could not be used")
    return notes


ONE, K_MEANS = "one cluster", "k-means, k = {:,}"

FITTED: Final = 20_000
"""Most records of the first half that k-means is fitted on."""

MOST_CLUSTERS: Final = 500
"""Most clusters that k-means is fitted with."""


def baselines(rows: NDArray[np.float64] | None, k: int, like: Run) -> dict[str, Run]:
    """Return the runs of the baselines by name, of the records that a run answered.

    `rows` are the prepared features, of which k-means sees the first half before it assigns all.
    """
    answered = like.cluster != NO_ANSWER
    one = np.where(answered, 0, NO_ANSWER).astype(np.int32)
    found = {ONE: pseudo_run(one, ["all"], like)}
    if rows is None:
        return found
    usable = np.flatnonzero(answered & ~np.isnan(rows).any(axis=1))
    half = usable[usable < len(rows) // 2]
    sample = half[:: -(-max(len(half), 1) // FITTED)]
    if 1 <= k <= min(MOST_CLUSTERS, len(sample)):
        model = KMeans(k, n_init=3, random_state=0).fit(rows[sample])
        cluster = one.copy()
        cluster[usable] = model.predict(rows[usable])
        found[K_MEANS.format(k)] = pseudo_run(cluster, [str(number) for number in range(k)], like)
    return found
