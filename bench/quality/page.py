"""The tables of docs/peers.md: everything behind its heading `HEADING` is generated."""

import datetime
import json
import os
import statistics
from collections.abc import Sequence

from bench.quality.contest import Line
from bench.quality.peers import CONTESTANTS
from bench.quality.streams import LADDER

HEADING = "## The figures\n"
SHOWN = ("modal", "River DBSTREAM", "MiniBatchKMeans")
"""Contestants with a column: our default, and the best others without and with the number of clusters."""
STREAMS = (
    *("3 blobs d4", "10 blobs d16", "99:1 d8", "a tenth noise", "+ one-hot of 20", "Student t, 2 degrees"),
    *("one after another", "all drift by two ranges", "slanted", "unequal", "moons", "rings", "overlapping"),
    *("S1", "S2", "A1", "digits", "Segment", "Breast Cancer"),
)


def page(text: str, lines: Sequence[Line]) -> str:
    """Return a page with the tables of some lines behind its heading."""
    mine = {name: [line for line in lines if line.stream == name] for name in STREAMS}
    steps = {
        (d, k): [line for line in lines if line.group == "ladder" and line.stream.startswith(f"unit d{d} k{k} ")]
        for d, k in LADDER
    }
    features = dict.fromkeys(d for d, _ in LADDER)
    when = datetime.datetime.now(datetime.UTC)
    return "\n".join(
        [
            text.partition(HEADING)[0] + HEADING,
            f"{when:%Y-%m-%d}, {os.cpu_count()} cores. One setting for all streams; in brackets the mean with the best",
            "of four for each stream. Others, with the best of four:",
            _others(list(mine.values())),
            "",
            *_table("stream", {name: [of_name] for name, of_name in mine.items()}),
            "",
            "### Unit vectors",
            "",
            "As embeddings are, with a cosine of 0.7 within a cluster: 10 and 40 clusters, mean of five draws.",
            "",
            *_table("features", {str(d): [of_step for (at, _), of_step in steps.items() if at == d] for d in features}),
            "",
        ]
    )


def _title(name: str) -> str:
    return f"{name} (k)" if any(one.name == name and one.knows_k for one in CONTESTANTS) else name


def _head(first: str, names: Sequence[str]) -> list[str]:
    return [f"| {first} | {' | '.join(map(_title, names))} |", "|---" * (1 + len(names)) + "|"]


def _table(first: str, rows: dict[str, list[list[Line]]]) -> list[str]:
    """Return a table of streams, each with its lines, where the best cells of all contestants are in bold."""
    found = _head(first, SHOWN)
    for row, streams in rows.items():
        cells = [", ".join(_cell(lines, name) for lines in streams) for name in SHOWN]
        found.append(f"| {row} | {' | '.join(cells)} |")
    every = [lines for streams in rows.values() for lines in streams]
    last = ["{:.2f} ({:.2f})".format(*_means(every, name)) for name in SHOWN]
    return [*found, f"| **mean** | {' | '.join(last)} |"]


def _others(streams: Sequence[list[Line]]) -> str:
    """Return the means of all without a column."""
    names = {line.contestant for lines in streams for line in lines}.difference(SHOWN)
    means = {_title(name): _means(streams, name)[1] for name in names}
    return ", ".join(f"{name} {means[name]:.2f}" for name in sorted(means, key=means.__getitem__, reverse=True)) + "."


def _reached(lines: Sequence[Line], name: str) -> dict[str, float]:
    """Return by setting, the one for all streams first, what a contestant reaches: the mean of its draws, else 0."""
    mine = sorted((line for line in lines if line.contestant == name), key=lambda line: not line.first)
    settings = dict.fromkeys(json.dumps(line.setting) for line in mine)
    return {
        setting: statistics.mean(line.ari or 0.0 for line in mine if json.dumps(line.setting) == setting)
        for setting in settings
    }


def _cell(lines: Sequence[Line], name: str) -> str:
    mine = [line for line in lines if line.contestant == name and line.first]
    refused = [line.refused for line in mine if line.refused]
    if refused or not mine:
        return "" if not mine else "too slow" if "too slow" in refused else "refused"
    best = max(next(iter(_reached(lines, each).values())) for each in {line.contestant for line in lines})
    value = f"{next(iter(_reached(lines, name).values())):.2f}"
    return f"**{value}**" if value == f"{best:.2f}" else value


def _means(streams: Sequence[list[Line]], name: str) -> tuple[float, float]:
    """Return a contestant's means over all streams, with one setting and with the best."""
    reached = [list(found.values()) for lines in streams if (found := _reached(lines, name))]
    return statistics.mean(found[0] for found in reached), statistics.mean(map(max, reached))
