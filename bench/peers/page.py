"""The tables of docs/peers.md: everything behind its heading `HEADING` is generated."""

import datetime
import os
import statistics
from collections.abc import Sequence

from bench.peers.contest import Line
from bench.peers.contestants import CONTESTANTS

HEADING = "## The figures\n"
FOUND = 0.3
"""Mean ARI from which on a contestant has a column among the unit vectors."""


def page(text: str, lines: Sequence[Line]) -> str:
    """Return a page with the tables of some lines behind its heading."""
    mine = [line for line in lines if line.group != "ladder"]
    steps = [line for line in lines if line.group == "ladder"]
    most = {name: _means(steps, name)[1] for name in _names(steps)}
    few = [name for name, mean in most.items() if mean < FOUND]
    when = datetime.datetime.now(datetime.UTC)
    return "\n".join(
        [
            text.partition(HEADING)[0] + HEADING,
            f"{when:%Y-%m-%d}, {os.cpu_count()} cores. One setting for all streams; in brackets the mean with the best",
            "of four for each stream.",
            "",
            *_table(mine, "stream"),
            "",
            "### Unit vectors",
            "",
            "As embeddings are, with a cosine of 0.7 within a cluster: mean of five draws. Others, with the best of",
            f"four: {', '.join(f'{name} {most[name]:.2f}' for name in few)}.",
            "",
            *_table(steps, "features, clusters", few),
            "",
            "### CPU microseconds for a record",
            "",
            "Median, with JSON on both sides for ours, nothing around the others.",
            "",
            *_costs(lines),
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


def _table(lines: Sequence[Line], first: str, without: Sequence[str] = ()) -> list[str]:
    """Return a table whose best cells are in bold: the best of all, those without a column included."""
    names = [name for name in _names(lines) if name not in without]
    rows = _head(first, names)
    for stream in dict.fromkeys(line.stream for line in lines):
        of_stream = [line for line in lines if line.stream == stream]
        top = max(line.ari or 0.0 for line in of_stream if line.first)
        cells = [_cell([line for line in of_stream if line.contestant == name], top) for name in names]
        rows.append(f"| {stream} | {' | '.join(cells)} |")
    means = ["{:.2f} ({:.2f})".format(*_means(lines, name)) for name in names]
    rows.append(f"| **mean** | {' | '.join(means)} |")
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


def _costs(lines: Sequence[Line]) -> list[str]:
    names = _names(lines)
    rows = _head("features", names)
    for low, high in ((1, 4), (5, 32), (33, 128), (129, 1024)):
        of_size = [line for line in lines if line.first and low <= line.features <= high]
        costs = [[line.micros for line in of_size if line.contestant == name] for name in names]
        if of_size:
            rows.append(f"| {low} to {high} | {' | '.join(f'{statistics.median(each):,.0f}' for each in costs)} |")
    return rows
