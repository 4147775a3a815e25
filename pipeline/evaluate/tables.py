"""The tables of an evaluation, for the terminal and the report."""

from collections.abc import Mapping, Sequence
from typing import Any, Final, NamedTuple

from resonance.pipeline.evaluate.figures import AGREEMENT, LABELS

Cell = str | int | float | None

QUALITY: Final[Mapping[str, str]] = {
    **{name: name for name in AGREEMENT},
    "f1_micro": "F1 micro",
    "f1_macro": "F1 macro",
    "hamming": "hamming",
    "exact": "exact",
    "silhouette": "silhouette",
    "largest": "largest",
    "novelty": "novelty",
    "unanswered": "none",
} | {"ari": "ARI", "ami": "AMI", "homogeneity": "homog.", "completeness": "compl."}
"""Figures of the first table, with their headings."""

LIFE: Final[Mapping[str, str]] = {
    "clusters": "clusters",
    "events": "events/1,000",
    "microseconds": "us/record",
    "bytes": "bytes",
}
"""Figures of the second table."""

NAME_WIDTH: Final = 18
"""Most characters of a candidate's name in a table of 80 columns."""


class Table(NamedTuple):
    """Rows under headings."""

    title: str
    columns: Sequence[str]
    rows: Sequence[Sequence[Cell]]


def tables(document: Mapping[str, Any]) -> list[Table]:
    """Return the tables of a document: quality, labels where there are any, life and cost, and changes."""
    rows = [*document["candidates"], *document["baselines"]]
    measured = {name for row in rows for name, value in row["figures"].items() if value is not None}
    quality = [name for name in QUALITY if name in measured and name not in LABELS]
    labels = [name for name in LABELS if name in measured]
    found = [_table("quality", rows, {name: QUALITY[name] for name in quality})]
    if labels:
        found.append(_table("labels", document["candidates"], {name: QUALITY[name] for name in labels}))
    found.append(_table("life and cost", rows, {name: LIFE[name] for name in LIFE if name in measured}))
    return found


def short_names(document: Mapping[str, Any]) -> dict[str, str]:
    """Return a short name for each candidate, with its number, where names are too long for a table; else nothing."""
    names = [one["name"] for one in document["candidates"]]
    if max(map(len, names)) <= NAME_WIDTH:
        return {}
    return {name: f"{number}: {name.split()[0]}" for number, name in enumerate(names, start=1)}


def _table(title: str, rows: Sequence[Mapping[str, Any]], headings: Mapping[str, str]) -> Table:
    lines: list[list[Cell]] = []
    for row in rows:
        lines.append([row["name"], *(shown(name, row["figures"].get(name)) for name in headings)])
        if "shuffled" in row and (shuffled := row["shuffled"]).keys() & headings.keys():
            for what in ("mean", "spread"):
                values = [shown(name, shuffled[name][what]) if name in shuffled else None for name in headings]
                lines.append([f"  shuffled, {what}", *values])
    return Table(title, ("candidate", *headings.values()), lines)


def shown(name: str, value: float | None) -> Cell:
    """Return a figure as tables have it: three decimals, or one where it is no share."""
    if value is None or isinstance(value, int):
        return value
    return round(value, {"events": 2, "microseconds": 1}.get(name, 3))
