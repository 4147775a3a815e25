"""The comparison of two deployments as one page, made of the parts of the report of an evaluation."""

from collections.abc import Mapping, Sequence
from html import escape
from pathlib import Path
from typing import Any, Final

from resonance.pipeline.evaluate import pictures
from resonance.pipeline.evaluate.detail import confusion, largest_of
from resonance.pipeline.evaluate.report import as_html, confusion_table, how_to, save, section, table
from resonance.pipeline.shadow.comparison import RecordedBoth
from resonance.pipeline.shadow.summary import all_tables, content_of, place_of, sentence

MOST_RANGES: Final = 10
"""Partitions whose offsets are listed."""


def write(folder: Path, found: RecordedBoth, document: dict[str, Any]) -> None:
    """Write the page and the document into a folder."""
    save(folder, document, page(found, document))


def page(found: RecordedBoth, document: dict[str, Any]) -> str:
    """Return the comparison as a page of HTML."""
    first, second = (escape(name) for name in document["names"])
    title = f"{second} beside {first}"
    figures, *others = all_tables(document)
    # The second is the one that has an agreement.
    drawn = {**document, "candidates": document["deployments"][::-1], "baselines": [], "best": {"by": "ari"}}
    counted = confusion(found.data, found.runs[1], largest_of(found.runs[1]))
    shown = [f"{one['topic']}[{one['partition']}] {one['from']:,} to {one['to']:,}" for one in document["ranges"]]
    ranges = escape(", ".join(shown[:MOST_RANGES] + ["..."] * (len(shown) > MOST_RANGES)))
    parts = [
        f"<h1>{title}</h1>",
        f'<p class="faint">{document["records"]:,} records: {ranges}</p>',
        f'<p class="best">{escape(sentence(document))}</p>',
        table(figures.columns, figures.rows),
        section("Figures over the records", pictures.curves(drawn), picture=True),
        f"<h2>Records by cluster</h2><p class='faint'>Rows: clusters of {second}; columns: clusters of {first}.</p>",
        confusion_table(counted),
        *(f"<h2>{escape(each.title.capitalize())}</h2>{table(each.columns, each.rows)}" for each in others),
        section("What these records contain", _contents(document["disagreeing"])),
        how_to(document),
    ]
    return as_html(title, parts)


def _contents(disagreeing: Sequence[Mapping[str, Any]]) -> str:
    lines = (
        f'<tr><td>{escape(place_of(one))}</td><td class="text">{escape(content_of(one))}</td></tr>'
        for one in disagreeing
        if "missing" in one
    )
    rows = "".join(lines)
    return (
        f'<div class="scroll"><table><tr><th>record</th><th class="text">value</th></tr>{rows}</table></div>'
        if rows
        else ""
    )
