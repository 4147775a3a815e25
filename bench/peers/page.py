"""The tables of docs/peers.md: everything behind its heading `HEADING` is generated."""

import datetime
import os
import statistics
from collections.abc import Sequence

from bench.peers.contest import Line
from bench.peers.contestants import CONTESTANTS

HEADING = "## The figures\n"
SHOWN = ("modal", "River DBSTREAM", "MiniBatchKMeans")
"""Contestants with a column: our default, and the best others without and with the number of clusters."""


def page(text: str, lines: Sequence[Line]) -> str:
    """Return a page with the tables of some lines behind its heading."""
    mine = [line for line in lines if line.group != "ladder"]
    steps = [line for line in lines if line.group == "ladder"]
    when = datetime.datetime.now(datetime.UTC)
    return "\n".join(
        [
            text.partition(HEADING)[0] + HEADING,
            f"{when:%Y-%m-%d}, {os.cpu_count()} cores. One setting for all streams; in brackets the mean with the best",
            "of four for each stream. Others, with the best of four:",
            _others(mine),
            "",
            *_table(mine, "stream", [(line.stream, [line.stream]) for line in mine]),
            "",
            "### Unit vectors",
            "",
            "As embeddings are, with a cosine of 0.7 within a cluster: 10 and 40 clusters, mean of five draws.",
            "",
            *_table(steps, "features", _by_features(steps)),
            "",
            "### CPU microseconds for a record",
            "",
            "Median, with JSON on both sides for ours, nothing around the others.",
            "",
            *_costs(lines),
            "",
        ]
    )


def _by_features(lines: Sequence[Line]) -> list[tuple[str, list[str]]]:
    """Return each number of features with its streams."""
    sizes = dict.fromkeys(line.features for line in lines)
    return [(str(d), list(dict.fromkeys(line.stream for line in lines if line.features == d))) for d in sizes]


def _title(name: str) -> str:
    knowing = {one.name for one in CONTESTANTS if one.knows_k}
    return f"{name} (k)" if name in knowing else name


def _head(first: str, names: Sequence[str]) -> list[str]:
    return [f"| {first} | {' | '.join(map(_title, names))} |", "|---" * (1 + len(names)) + "|"]


def _table(lines: Sequence[Line], first: str, streams: Sequence[tuple[str, Sequence[str]]]) -> list[str]:
    """Return a table, where the best cells of all contestants are in bold."""
    rows = _head(first, SHOWN)
    for row, of_row in dict(streams).items():
        cells = [", ".join(_cell(lines, stream, name) for stream in of_row) for name in SHOWN]
        rows.append(f"| {row} | {' | '.join(cells)} |")
    last = ["{:.2f} ({:.2f})".format(*_means(lines, name)) for name in SHOWN]
    rows.append(f"| **mean** | {' | '.join(last)} |")
    return rows


def _others(lines: Sequence[Line]) -> str:
    """Return the means of all without a column."""
    names = {line.contestant for line in lines}.difference(SHOWN)
    means = {_title(name): _means(lines, name)[1] for name in names}
    return ", ".join(f"{name} {means[name]:.2f}" for name in sorted(means, key=means.__getitem__, reverse=True)) + "."


def _cell(lines: Sequence[Line], stream: str, name: str) -> str:
    of_stream = [line for line in lines if line.stream == stream and line.first]
    mine = next((line for line in of_stream if line.contestant == name), None)
    if mine is None:
        return ""
    if mine.ari is None:
        return mine.refused if mine.refused == "too slow" else "refused"
    value = f"{mine.ari:.2f}"
    return f"**{value}**" if value == f"{max(line.ari or 0.0 for line in of_stream):.2f}" else value


def _means(lines: Sequence[Line], name: str) -> tuple[float, float]:
    """Return a contestant's means over all streams, with one setting and with the best: 0 where there is no result."""
    streams = dict.fromkeys(line.stream for line in lines)
    mine = [line for line in lines if line.contestant == name]
    first = [line.ari or 0.0 for line in mine if line.first]
    best = [max(line.ari or 0.0 for line in mine if line.stream == stream) for stream in streams]
    return statistics.mean(first), statistics.mean(best)


def _costs(lines: Sequence[Line]) -> list[str]:
    names = (*SHOWN, "caea")
    rows = _head("features", names)
    for low, high in ((1, 4), (5, 32), (33, 128), (129, 1024)):
        of_size = [line for line in lines if line.first and low <= line.features <= high]
        costs = [[line.micros for line in of_size if line.contestant == name] for name in names]
        if of_size:
            rows.append(f"| {low} to {high} | {' | '.join(f'{statistics.median(each):,.0f}' for each in costs)} |")
    return rows
