"""What the report has of the best candidate alone: shares, profiles, confusion and drifts."""

from itertools import pairwise
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray
from resonance.pipeline.evaluate.dataset import UNKNOWN, Dataset
from resonance.pipeline.evaluate.evaluation import Evaluation
from resonance.pipeline.evaluate.run import Run
from resonance.pipeline.watch.drift_sentences import drift_sentence
from resonance.schemas import ClusterSnapshot
from resonance.schemas.sets_apart import columns

MOST_CLUSTERS: Final = 12
"""Most clusters with a share, a profile and a row of the confusion of their own; the others are added up."""

MOST_FEATURES: Final = 8
"""Most features of a profile: those that set the clusters apart."""

MOST_CLASSES: Final = 12

MOST_CHANGES: Final = 5
"""Most changed features of a drift, the strongest first."""

MOST_DRIFTS: Final = 30

OTHERS, NONE = "others", "none"


def detail(found: Evaluation) -> dict[str, Any]:
    """Return the numbers behind the report of the best candidate."""
    data, run = found.data, found.ranked[0].run
    counts = np.bincount(run.cluster[run.cluster >= 0], minlength=len(run.names))
    largest = largest_of(run)
    described = [*(each for _, event in run.events for each in event["after"]), *run.present]
    keywords = {each["id"]: each["keywords"] for each in described if each.get("keywords")}
    content: dict[str, Any] = {
        "clusters": [{"cluster": run.names[number], "records": int(counts[number])} for number in largest],
        "keywords": {name: keywords[name] for number in largest if (name := run.names[number]) in keywords},
        "shares": _shares(run, largest, found.yardstick.bounds),
        "profile": _profile(data, run, largest),
        "drifts": _drifts(run),
    }
    if data.has_truth:
        content["confusion"] = confusion(data, run, largest)
    return content


def largest_of(run: Run) -> list[int]:
    """Return the numbers of the clusters with the most records."""
    counts = np.bincount(run.cluster[run.cluster >= 0], minlength=len(run.names))
    return [int(number) for number in np.argsort(-counts, kind="stable")[:MOST_CLUSTERS] if counts[number]]


def _shares(run: Run, largest: list[int], bounds: NDArray[np.int64]) -> dict[str, list[float]]:
    """Return the share of each cluster in each window; the shares of a window add up to 1."""
    found: dict[str, list[float]] = {run.names[number]: [] for number in largest}
    found |= {OTHERS: [], NONE: []}
    for first, end in pairwise(bounds.tolist()):
        cluster = run.cluster[first:end]
        for number in largest:
            found[run.names[number]].append(float((cluster == number).mean()))
        found[NONE].append(float((cluster < 0).mean()))
        found[OTHERS].append(float(((cluster >= 0) & ~np.isin(cluster, largest)).mean()))
    return found


def _profile(data: Dataset, run: Run, largest: list[int]) -> dict[str, Any]:
    """Return the mean of each feature in each cluster, in all other records, and their distance in spreads."""
    rows = data.rows
    usable = ~np.isnan(rows).all(axis=1) if rows.shape[1] else np.zeros(len(data), dtype=bool)
    if not usable.any() or not largest:
        return {"features": [], "clusters": {}}
    spreads = np.nanstd(rows[usable], axis=0)
    means, rests = [], []
    for number in largest:
        mine = usable & (run.cluster == number)
        means.append(_mean(rows[mine]))
        rests.append(_mean(rows[usable & ~mine]))
    distance = (np.array(means) - np.array(rests)) / np.where(spreads > 0, spreads, np.inf)
    chosen = [data.features.index(name) for name in columns(_snapshots(data, run, largest, usable), MOST_FEATURES)]
    return {
        "features": [data.features[column] for column in chosen],
        "clusters": {
            run.names[number]: [
                {
                    "mean": _number(means[place][column]),
                    "rest": _number(rests[place][column]),
                    "spreads": _number(distance[place][column]),
                }
                for column in chosen
            ]
            for place, number in enumerate(largest)
        },
    }


def _snapshots(data: Dataset, run: Run, largest: list[int], usable: Any) -> list[ClusterSnapshot]:
    """Return the clusters as events describe them, by the records that they answered."""
    found: list[ClusterSnapshot] = []
    for number in largest:
        rows = data.rows[usable & (run.cluster == number)]
        known = ~np.isnan(rows).all(axis=0)
        names = [name for name, is_known in zip(data.features, known.tolist(), strict=True) if is_known]
        centre, spread = (
            dict(zip(names, compute(rows[:, known], axis=0).tolist(), strict=True))
            for compute in (np.nanmean, np.nanstd)
        )
        found.append({"id": run.names[number], "size": len(rows), "centre": centre, "spread": spread, "nodes": 0})
    return found


def _mean(rows: NDArray[np.float64]) -> NDArray[np.float64]:
    known = ~np.isnan(rows)
    found: NDArray[np.float64] = np.where(known, rows, 0.0).sum(axis=0) / np.where(
        known.any(axis=0), known.sum(axis=0), np.nan
    )
    return found


def _number(value: float) -> float | None:
    return float(value) if np.isfinite(value) else None


def confusion(data: Dataset, run: Run, largest: list[int]) -> dict[str, Any]:
    """Return how many records of each class are in each cluster."""
    known = data.truth != UNKNOWN
    sizes = np.bincount(data.truth[known], minlength=len(data.classes))
    frequent = np.argsort(-sizes, kind="stable")[:MOST_CLASSES].tolist()
    rows: dict[str, list[int]] = {}
    groups = {run.names[number]: run.cluster == number for number in largest}
    groups |= {OTHERS: (run.cluster >= 0) & ~np.isin(run.cluster, largest), NONE: run.cluster < 0}
    for name, mine in groups.items():
        counts = np.bincount(data.truth[known & mine], minlength=len(data.classes))
        rows[name] = [*(int(counts[number]) for number in frequent), int(counts.sum() - counts[frequent].sum())]
    return {"classes": [*(data.classes[number] for number in frequent), OTHERS], "clusters": rows}


def _drifts(run: Run) -> list[dict[str, Any]]:
    """Return each drift with the features that changed, before and since."""
    found: list[dict[str, Any]] = []
    for at, event in run.drifts:
        if event["kind"] == "drift" and len(found) < MOST_DRIFTS:
            features = [
                {"cluster": unit["cluster"], **{name: each[name] for name in ("feature", "before", "after", "spread")}}
                for unit in event.get("units", ())
                for each in unit["features"]
            ]
            found.append({"at": at, "text": drift_sentence(event), "features": features[:MOST_CHANGES]})  # type: ignore[arg-type]
    return found
