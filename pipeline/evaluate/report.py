"""The report: one page that opens without a network, and the same numbers as JSON."""

from collections.abc import Mapping, Sequence
from html import escape
from pathlib import Path
from typing import Any, Final

import orjson
from resonance.pipeline.errors import ConfigurationError, OutputError
from resonance.pipeline.evaluate import pictures
from resonance.pipeline.evaluate.detail import detail
from resonance.pipeline.evaluate.evaluation import Evaluation
from resonance.pipeline.evaluate.summary import best_sentence
from resonance.pipeline.evaluate.tables import Cell, tables
from resonance.pipeline.watch.sentences import number

PAGE, DATA = "report.html", "report.json"

_STYLE: Final = """
:root{color-scheme:light dark;--paper:#fff;--ink:#22303c;--faint:#5c6a76;--grid:#e3e8ed;--drift:#1f3fbf;--hot:#e45756;
--cold:#4c78a8;--card:#f6f8fa}
@media(prefers-color-scheme:dark){:root{--paper:#14191f;--ink:#e6ebf0;--faint:#9aa5b1;--grid:#2c3640;--drift:#8ea6ff;
--hot:#b8403f;--cold:#3f6a99;--card:#1c232b}}
*{box-sizing:border-box}
body{margin:0 auto;max-width:1080px;padding:16px;background:var(--paper);color:var(--ink);
font:16px/1.5 system-ui,sans-serif;overflow-wrap:anywhere}
h1{font-size:1.5rem;margin:.4em 0}h2{font-size:1.15rem;margin:2em 0 .4em}p{margin:.4em 0;max-width:70ch}
.best{padding:12px 16px;background:var(--card);border-left:4px solid var(--cold);font-size:1.05rem;max-width:none}
.faint{color:var(--faint)}.scroll{overflow-x:auto;margin:.6em 0}
table{border-collapse:collapse;font-variant-numeric:tabular-nums;font-size:.9rem}
th,td{padding:4px 10px;text-align:right;border-bottom:1px solid var(--grid);white-space:nowrap;overflow-wrap:normal}
th{color:var(--faint);font-weight:600}th.name,td.name{text-align:left}
th:first-child,td:first-child{text-align:left;position:sticky;left:0;background:var(--paper)}
th.text,td.text{text-align:left;white-space:normal;overflow-wrap:anywhere;min-width:13em}
td.heat{background:color-mix(in srgb,var(--tone) calc(var(--part)*1%),transparent)}
svg{display:block;width:100%;min-width:640px;max-width:900px;height:auto}svg text{fill:var(--ink)}
pre{background:var(--card);padding:12px;overflow-x:auto;font-size:.85rem}
"""


def make_folder(folder: Path) -> None:
    """Create the folder of a report; raise `ConfigurationError` where it cannot be made."""
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise ConfigurationError(f"--output {folder}: cannot be made ({error.strerror}); name another") from error


def write(folder: Path, found: Evaluation, document: Mapping[str, Any]) -> None:
    """Write the page and the document, with the details of the best candidate, into a folder."""
    content = {**document, "detail": detail(found)}
    save(folder, content, page(found, content))


def save(folder: Path, document: Mapping[str, Any], html: str) -> None:
    """Write a page and a document into a folder."""
    try:
        (folder / DATA).write_bytes(orjson.dumps(document, option=orjson.OPT_INDENT_2))
        (folder / PAGE).write_text(html, encoding="utf-8")
    except OSError as error:
        raise OutputError(f"{error.filename or folder}: cannot be written ({error.strerror}); make room") from error


def page(found: Evaluation, document: dict[str, Any]) -> str:
    """Return the report as a page of HTML."""
    own, best = document["detail"], escape(document["best"]["candidate"])
    title = f"Evaluation of {escape(document['source'])}"
    features = f"{len(document['features']):,} features" if document["features"] else "sparse features"
    parts = [
        f"<h1>{title}</h1>",
        f'<p class="faint">{document["records"]:,} records, {features}, each assigned first, and learned then.</p>',
        f'<p class="best">{escape(best_sentence(document))}</p>',
        *(table(each.columns, each.rows) for each in tables(document)),
        *(f'<p class="faint">{escape(note)}</p>' for note in document["notes"]),
        section("Figures over the records", pictures.curves(document), picture=True),
        f"<h2>The best candidate: {best}</h2>",
        '<p class="faint">Life-lines: width = share of the records; ring = it emerged, dot = it ended, arcs = splits '
        "and absorptions, triangles = drift.</p>",
        *(_scrolled(each) for each in pictures.lives(found.data, found.ranked[0].run, own)),
        section("Share of the records", pictures.shares(document, own), picture=True),
        section("What sets each cluster apart", _profile(own["profile"])),
        section("Clusters and true classes", confusion_table(own.get("confusion"))),
        section("Before and after each drift", _drifts(own["drifts"])),
        how_to(document),
    ]
    return as_html(title, parts)


def how_to(document: Mapping[str, Any]) -> str:
    """Return the part of a page that says how to make it again."""
    return (
        f"<h2>How to reproduce it</h2><pre>{escape(document['command'])}</pre>"
        f'<p class="faint">Resonance {escape(document["resonance"])}; {DATA} has the same numbers.</p>'
    )


def as_html(title: str, parts: Sequence[str]) -> str:
    """Return a page of its parts; all of them are HTML."""
    head = '<meta charset="utf-8"><meta name="viewport" content="width=device-width,initial-scale=1">'
    return (
        f'<!doctype html>\n<html lang="en"><head>{head}<title>{title}</title><style>{_STYLE}</style></head>\n'
        f"<body>{''.join(parts)}</body></html>\n"
    )


def section(title: str, content: str, *, picture: bool = False) -> str:
    """Return a part of the page with its heading; nothing without content."""
    if not content:
        return ""
    return f"<h2>{title}</h2>{_scrolled(content) if picture else content}"


def _scrolled(content: str) -> str:
    return f'<div class="scroll">{content}</div>'


def table(columns: Sequence[str], rows: Sequence[Sequence[Cell]]) -> str:
    """Return a table as HTML."""
    # Names stand left, numbers right.
    sides = [' class="name"' if any(isinstance(row[at], str) for row in rows) else "" for at in range(len(columns))]
    head = "".join(f"<th{side}>{escape(name)}</th>" for side, name in zip(sides, columns, strict=True))
    body = "".join(
        f"<tr>{''.join(f'<td{side}>{_cell(value)}</td>' for side, value in zip(sides, row, strict=True))}</tr>"
        for row in rows
    )
    return _scrolled(f"<table><tr>{head}</tr>{body}</table>")


def _cell(value: Cell) -> str:
    if value is None:
        return ""
    if isinstance(value, int):
        return f"{value:,}"
    return f"{value:.4g}" if isinstance(value, float) else escape(value).replace("  ", "&emsp;")


def _heat(text: str, part: float, tone: str = "cold") -> str:
    """Return a cell whose colour is as strong as a part from 0 to 1."""
    return f'<td class="heat" style="--part:{70 * min(part, 1.0):.0f};--tone:var(--{tone})">{text}</td>'


def _profile(profile: Mapping[str, Any]) -> str:
    if not profile["features"]:
        return ""
    head = "".join(f"<th>{escape(name)}</th>" for name in profile["features"])
    lines = []
    for cluster, cells in profile["clusters"].items():
        line = [f"<td>{escape(cluster)}</td>"]
        for each in cells:
            if each["mean"] is None:
                line.append("<td></td>")
                continue
            apart = each["spreads"] or 0.0
            rest = "" if each["rest"] is None else f' <span class="faint">/ {number(each["rest"])}</span>'
            text = f"{number(each['mean'])}{rest}"
            line.append(_heat(text, abs(apart) / 3, "hot" if apart > 0 else "cold"))
        lines.append(f"<tr>{''.join(line)}</tr>")
    legend = "Mean of each cluster / of all other records, in the units of the input; red is above, blue below."
    return f'<p class="faint">{legend}</p>' + _scrolled(
        f"<table><tr><th>cluster</th>{head}</tr>{''.join(lines)}</table>"
    )


def confusion_table(confusion: Mapping[str, Any] | None) -> str:
    """Return a table of how many records of each class are in each cluster; nothing where it is not known."""
    if confusion is None:
        return ""
    head = "".join(f"<th>{escape(name) or '(no label)'}</th>" for name in confusion["classes"])
    lines = []
    for cluster, counts in confusion["clusters"].items():
        size = max(sum(counts), 1)
        cells = "".join(_heat(f"{count:,}" if count else "", count / size) for count in counts)
        lines.append(f"<tr><td>{escape(cluster)}</td>{cells}</tr>")
    return _scrolled(f"<table><tr><th>cluster</th>{head}</tr>{''.join(lines)}</table>")


def _drifts(drifts: Sequence[Mapping[str, Any]]) -> str:
    lines = []
    for each in drifts:
        changed = "<br>".join(
            f"{escape(one['feature'])} of {escape(one['cluster'] or 'the stream')}: "
            f"{number(one['before'])} &rarr; {number(one['after'])}"
            for one in each["features"]
        )
        lines.append(
            f'<tr><td>{each["at"]:,}</td><td class="text">{escape(each["text"])}</td>'
            f'<td class="text">{changed}</td></tr>'
        )
    head = '<tr><th>record</th><th class="text">drift</th><th class="text">before &rarr; after</th></tr>'
    return _scrolled(f"<table>{head}{''.join(lines)}</table>") if lines else ""
