"""The report of an evaluation or a comparison: one page that opens without a network, and the same numbers as JSON."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

import orjson
from resonance.pipeline.errors import ConfigurationError, OutputError, counted, number
from resonance.pipeline.evaluate import pictures
from resonance.pipeline.evaluate.detail import detail
from resonance.pipeline.evaluate.evaluation import Evaluation
from resonance.pipeline.evaluate.summary import best_sentence
from resonance.pipeline.evaluate.tables import Cell, Shade, Table, tables
from resonance.pipeline.incidents.incidents import COLUMNS, row_of

PAGE, DATA = "report.html", "report.json"


@dataclass(frozen=True, slots=True)
class PagePart:
    """A part of the page; one without a table or a picture is left out."""

    title: str = ""
    texts: Sequence[str] = ()
    tables: Sequence[Table] = ()
    pictures: Sequence[str] = ()
    """Addresses of images."""


@dataclass(frozen=True, slots=True)
class Report:
    """What a page shows of a document."""

    document: Mapping[str, Any]
    title: str
    facts: str
    best: str
    parts: Sequence[PagePart] = field(default_factory=list)

    def html(self) -> str:
        """Return the page."""
        from jinja2 import Environment, PackageLoader  # noqa: PLC0415 - of an extra

        loader = PackageLoader("resonance.pipeline.evaluate", "")
        environment = Environment(loader=loader, autoescape=True)
        environment.filters["shown"] = _shown
        own = {name: getattr(self, name) for name in ("document", "title", "facts", "best", "parts")}
        return environment.get_template(PAGE).render(**own, data=DATA)

    def save(self, folder: Path) -> None:
        """Write the page and the document into a folder."""
        try:
            (folder / DATA).write_bytes(orjson.dumps(self.document, option=orjson.OPT_INDENT_2))
            (folder / PAGE).write_text(self.html(), encoding="utf-8")
        except OSError as error:
            raise OutputError(f"{error.filename or folder}: cannot be written ({error.strerror}); make room") from error


def make_folder(folder: Path) -> None:
    """Create the folder of a report; raise `ConfigurationError` where it cannot be made."""
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise ConfigurationError(f"--output {folder}: cannot be made ({error.strerror}); name another") from error


def of_evaluation(found: Evaluation, document: Mapping[str, Any]) -> Report:
    """Return the report of an evaluation, with the details of the best candidate."""
    own = detail(found)
    content = {**document, "detail": own}
    features = counted(len(content["features"]), "feature") if content["features"] else "sparse features"
    incidents = content["incidents"]
    confused = [confusion_table(own["confusion"])] if "confusion" in own else []
    parts = [
        PagePart(
            f"What happened, by {content['best']['candidate']}",
            tables=[Table("", COLUMNS, [list(row_of(each)) for each in incidents])] if incidents else [],
        ),
        PagePart(tables=tables(content)),
        PagePart("Figures over the records", content["notes"], pictures=[pictures.curves(content)]),
        PagePart(
            f"The best candidate: {content['best']['candidate']}",
            [_LIVES],
            pictures=pictures.lives(found.data, found.ranked[0].run, own),
        ),
        PagePart("Share of the records", pictures=[pictures.shares(content, own)]),
        PagePart("What sets each cluster apart", [_LEGEND], _profile(own["profile"], own["keywords"])),
        PagePart("Clusters and true classes", tables=confused),
        PagePart("Before and after each drift", tables=_drifts(own["drifts"])),
    ]
    facts = f"{counted(content['records'], 'record')}, {features}, each assigned first, and learned then."
    return Report(content, f"Evaluation of {content['source']}", facts, best_sentence(content), parts)


def confusion_table(confusion: Mapping[str, Any]) -> Table:
    """Return a table of how many records of each class are in each cluster."""
    rows: list[list[Cell]] = []
    for cluster, counts in confusion["clusters"].items():
        size = max(sum(counts), 1)
        rows.append([cluster, *(Shade(f"{count:,}" if count else "", count / size) for count in counts)])
    return Table("", ("cluster", *(name or "(no label)" for name in confusion["classes"])), rows)


_LIVES: Final = (
    "Life-lines: width = share of the records; ring = it emerged, dot = it ended, arcs = splits and absorptions, "
    "triangles = drift."
)
_LEGEND: Final = "Mean of each cluster / of all other records, in the units of the input; red is above, blue below."


def _profile(profile: Mapping[str, Any], keywords: Mapping[str, Sequence[str]]) -> list[Table]:
    rows: list[list[Cell]] = []
    for cluster, cells in profile["clusters"].items():
        row: list[Cell] = [cluster, *([", ".join(keywords.get(cluster, ()))] if keywords else [])]
        for each in cells:
            apart = each["spreads"] or 0.0
            rest = "" if each["rest"] is None else number(each["rest"])
            shade = Shade("", 0.0) if each["mean"] is None else Shade(number(each["mean"]), abs(apart) / 3, rest)
            row.append(shade._replace(tone="hot" if apart > 0 else "cold"))
        rows.append(row)
    columns = ("cluster", *["keywords"] * bool(keywords), *profile["features"])
    return [Table("", columns, rows)] if profile["features"] else []


def _drifts(drifts: Sequence[Mapping[str, Any]]) -> list[Table]:
    rows: list[list[Cell]] = []
    for each in drifts:
        changed = (
            f"{one['feature']} of {one['cluster'] or 'the stream'}: {number(one['before'])} → {number(one['after'])}"
            for one in each["features"]
        )
        rows.append([each["at"], each["text"], "; ".join(changed)])
    return [Table("", ("record", "drift", "before → after"), rows)] if rows else []


def _shown(value: Cell) -> str:
    if value is None:
        return ""
    if isinstance(value, int):
        return f"{value:,}"
    return f"{value:.4g}" if isinstance(value, float) else str(value).replace("  ", "\N{EM SPACE}")
