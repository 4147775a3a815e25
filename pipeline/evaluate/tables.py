"""The tables of an evaluation, for the terminal and the report."""

from collections.abc import Mapping, Sequence
from typing import Any, Final, NamedTuple

from resonance.pipeline.evaluate.figures import AGREEMENT, LABELS


class Shade(NamedTuple):
    """A cell whose colour is as strong as a part from 0 to 1."""

    text: str
    part: float
    beside: str = ""
    """What the text is compared with."""
    tone: str = "cold"

    @property
    def percent(self) -> int:
        """Strength of the colour."""
        return round(70 * min(self.part, 1.0))


Cell = str | int | float | Shade | None

LONG: Final = 40
"""Characters beyond which a cell takes several lines."""

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

    @property
    def kinds(self) -> list[str]:
        """What each column holds: ``name`` stands left, a long ``text`` in several lines; empty for numbers."""
        found = []
        for at in range(len(self.columns)):
            texts = [each for row in self.rows if type(each := row[at]) is str]
            found.append(("text" if max(map(len, texts)) > LONG else "name") if texts else "")
        return found

    @property
    def heads(self) -> list[tuple[str, str]]:
        """The headings, each with what its column holds."""
        return list(zip(self.columns, self.kinds, strict=True))


def tables(document: Mapping[str, Any]) -> list[Table]:
    """Return the tables of a document: quality, labels where there are any, life and cost."""
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
