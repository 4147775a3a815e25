"""The tables of docs/peers.md: everything behind its heading `HEADING` is generated."""

import datetime
import os
import statistics
from collections.abc import Sequence

from bench.peers.contest import Line
from bench.peers.contestants import CONTESTANTS

HEADING = "## The figures\n"
COLUMNS, STEP_COLUMNS = 6, 4
"""Contestants with a column of their own, the best by their means: of the streams, and of the unit vectors."""


def page(text: str, lines: Sequence[Line]) -> str:
    """Return a page with the tables of some lines behind its heading."""
    mine = [line for line in lines if line.group != "ladder"]
    steps = [line for line in lines if line.group == "ladder"]
    when = datetime.datetime.now(datetime.UTC)
    return "\n".join(
        [
            text.partition(HEADING)[0] + HEADING,
            f"{when:%Y-%m-%d}, {os.cpu_count()} cores. One setting for all streams; in brackets the mean with the best",
            "of four for each stream. Further ones, with the best of four:",
            *_table(mine, "stream", COLUMNS),
            "",
            "### Unit vectors",
            "",
            "As embeddings are, with a cosine of 0.7 within a cluster: mean of five draws. Further ones:",
            *_table(steps, "features, clusters", STEP_COLUMNS),
            "",
            "### CPU microseconds for a record",
            "",
            "Median, with JSON on both sides for ours, nothing around the others.",
            "",
            *_costs(lines, _best(mine, COLUMNS)),
            "",
        ]
    )


def _names(lines: Sequence[Line]) -> list[str]:
    """Return the contestants that are in some lines."""
    return [one.name for one in CONTESTANTS if any(line.contestant == one.name for line in lines)]


def _head(first: str, names: Sequence[str]) -> list[str]:
    knowing = {one.name for one in CONTESTANTS if one.knows_k}
    cells = [f"{name}{' (k)' if name in knowing else ''}" for name in names]
    return [f"| {first} | {' | '.join(cells)} |", "|---" * (1 + len(names)) + "|"]


def _best(lines: Sequence[Line], columns: int) -> list[str]:
    """Return the contestants with the highest means, in the usual order."""
    ranked = sorted(_names(lines), key=lambda name: -_means(lines, name)[1])
    return [name for name in _names(lines) if name in ranked[:columns]]


def _table(lines: Sequence[Line], first: str, columns: int) -> list[str]:
    """Return the means of all but the best, and a table of these, where the best cells of all are in bold."""
    names = _best(lines, columns)
    further = {name: _means(lines, name)[1] for name in _names(lines) if name not in names}
    means = [f"{name} {further[name]:.2f}" for name in sorted(further, key=further.__getitem__, reverse=True)]
    rows = [f"{', '.join(means)}.", "", *_head(first, names)]
    for stream in dict.fromkeys(line.stream for line in lines):
        of_stream = [line for line in lines if line.stream == stream]
        top = max(line.ari or 0.0 for line in of_stream if line.first)
        cells = [_cell([line for line in of_stream if line.contestant == name], top) for name in names]
        rows.append(f"| {stream} | {' | '.join(cells)} |")
    last = ["{:.2f} ({:.2f})".format(*_means(lines, name)) for name in names]
    rows.append(f"| **mean** | {' | '.join(last)} |")
    return rows


def _cell(lines: Sequence[Line], top: float) -> str:
    first = next((line for line in lines if line.first), None)
    if first is None:
        return ""
    if first.ari is None:
        return first.refused if first.refused == "too slow" else "refused"
    value = f"{first.ari:.2f}"
    return f"**{value}**" if value == f"{top:.2f}" else value


def _means(lines: Sequence[Line], name: str) -> tuple[float, float]:
    """Return a contestant's means over all streams, with one setting and with the best: 0 where there is no result."""
    streams = dict.fromkeys(line.stream for line in lines)
    mine = [line for line in lines if line.contestant == name]
    first = [line.ari or 0.0 for line in mine if line.first]
    best = [max(line.ari or 0.0 for line in mine if line.stream == stream) for stream in streams]
    return statistics.mean(first), statistics.mean(best)


def _costs(lines: Sequence[Line], names: Sequence[str]) -> list[str]:
    rows = _head("features", names)
    for low, high in ((1, 4), (5, 32), (33, 128), (129, 1024)):
        of_size = [line for line in lines if line.first and low <= line.features <= high]
        costs = [[line.micros for line in of_size if line.contestant == name] for name in names]
        if of_size:
            rows.append(f"| {low} to {high} | {' | '.join(f'{statistics.median(each):,.0f}' for each in costs)} |")
    return rows
