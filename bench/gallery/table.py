"""The lines of the gallery as a table by group, with the mean and the worst of each engine."""

import statistics
import sys
from collections.abc import Callable, Iterable, Sequence

from rich.console import Console
from rich.table import Table

from bench.gallery.line import Line

WIDTH = 168
"""Columns of a table that goes to a file or a pipe."""

CAPTION = (
    "ARI: second half, answers before learning, noise left out. clusters: those that answer 0.5 % of the second half "
    "and more / its classes (at the end). largest: share of the largest where there is one class. events: per 1,000 "
    "records of the second half. splits: all (taken back). novel, null: shares of the second half. units: at half, at "
    "the end. task, engine: microseconds of CPU time a record, second and last tenth. state: kB. mean and worst: ARI "
    "of streams with several classes."
)
HEADINGS = (
    "ARI",
    "clusters",
    "largest",
    "events",
    "splits",
    "novel",
    "null",
    "units",
    "task us",
    "engine us",
    "state",
)

Values = Sequence[float | None]


def _number(value: float | None, digits: int = 0) -> str:
    return "" if value is None else f"{value:,.{digits}f}"


def _pair(first: float | None, second: float | None, digits: int = 0) -> str:
    """Return two figures, a dash for one of them that is not there."""
    if first is None and second is None:
        return ""
    return " ".join(_number(value, digits) or "-" for value in (first, second))


def _share(value: float | None) -> str:
    return "" if value is None else f"{value:.1%}"


def _cells(line: Line) -> tuple[str, ...]:
    clusters = f"{line.answering}/{line.classes} ({line.present})"
    return (
        _number(line.ari, 3),
        clusters,
        _share(line.largest) if line.classes == 1 else "",
        _number(line.events, 2),
        "" if line.splits is None else f"{line.splits} ({line.taken_back})",
        _share(line.novel),
        _share(line.nulls),
        _pair(line.units_half, line.units_end),
        _pair(line.task_second, line.task_last, 1),
        _pair(line.engine_second, line.engine_last, 1),
        "" if line.state_bytes is None else _number(line.state_bytes / 1e3, 1),
    )


def _known(values: Iterable[float | None]) -> list[float]:
    return [value for value in values if value is not None]


def _over(values: Iterable[float | None], how: Callable[[list[float]], float]) -> float | None:
    known = _known(values)
    return how(known) if known else None


def _summary(
    lines: Sequence[Line], low: Callable[[list[float]], float], high: Callable[[list[float]], float]
) -> tuple[str, ...]:
    """Return the cells of a mean, or of the worst: `low` of what should be high, `high` of what should be low."""
    several = [line.ari for line in lines if line.classes != 1]
    single = [line.largest for line in lines if line.classes == 1]
    beyond = [abs(line.answering - line.classes) for line in lines if line.answering is not None and line.classes]
    excess = _over(beyond, high)
    return (
        _number(_over(several, low), 3),
        "" if excess is None else f"off {excess:.1f}",
        _share(_over(single, low)),
        _number(_over((line.events for line in lines), high), 2),
        f"{_number(_over((line.splits for line in lines), high), 1)} "
        f"({_number(_over((line.taken_back for line in lines), high), 1)})",
        _share(_over((line.novel for line in lines), high)),
        _share(_over((line.nulls for line in lines), high)),
        _pair(_over((line.units_half for line in lines), high), _over((line.units_end for line in lines), high)),
        _pair(_over((line.task_second for line in lines), high), _over((line.task_last for line in lines), high), 1),
        _pair(
            _over((line.engine_second for line in lines), high), _over((line.engine_last for line in lines), high), 1
        ),
        _number(_over((line.state_bytes / 1e3 for line in lines if line.state_bytes is not None), high), 1),
    )


def _of_group(group: str, lines: Sequence[Line]) -> Table:
    table = Table(title=group, title_justify="left")
    table.add_column("stream", no_wrap=True)
    table.add_column("engine", no_wrap=True)
    for heading in HEADINGS:
        table.add_column(heading, justify="right", no_wrap=True)
    seeds = len({line.seed for line in lines}) > 1
    for line in lines:
        name = f"{line.stream}, seed {line.seed}" if seeds else line.stream
        if line.refused is None:
            table.add_row(name, line.engine, *_cells(line))
        else:
            table.add_row(name, line.engine, "failed" if line.failed else "refused")
    table.add_section()
    for engine in dict.fromkeys(line.engine for line in lines):
        own = [line for line in lines if line.engine == engine and line.refused is None]
        if len(own) > 1:
            table.add_row(f"mean of {len(own)}", engine, *_summary(own, statistics.mean, statistics.mean))
            table.add_row("worst", engine, *_summary(own, min, max))
    return table


def _remarks(lines: Sequence[Line]) -> list[str]:
    """Return what is no column: why a line is empty, and when a novelty got clusters of its own."""
    found = [f"{line.stream}, {line.engine}: {line.refused}" for line in lines if line.refused is not None]
    for line in lines:
        for name, records in line.emerged.items():
            when = "never" if records is None else f"after {records:,} of its records"
            found.append(f"{line.stream}, {line.engine}, seed {line.seed}: {name} has a cluster of its own {when}")
    return found


def show(lines: Sequence[Line]) -> None:
    """Print a table for each group, and what is to be said beside it."""
    console = Console(width=None if sys.stdout.isatty() else WIDTH)
    for group in dict.fromkeys(line.group for line in lines):
        own = [line for line in lines if line.group == group]
        console.print(_of_group(group, own))
        for remark in _remarks(own):
            console.print(remark, markup=False, highlight=False)
    console.print(CAPTION, style="dim")
