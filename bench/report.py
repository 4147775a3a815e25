"""What every benchmark shares: rows, the table, medians of alternating runs."""

import argparse
import json
import statistics
import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass, fields
from typing import Any

from rich.console import Console
from rich.table import Table

WIDTH = 150
"""Columns of a table that goes to a file or a pipe."""


@dataclass(frozen=True, slots=True)
class Row:
    """One figure beside what it is compared with, both from the same run.

    Attributes
    ----------
    case : str
        What was measured, such as ``caea d=8 nodes=50``.
    unit : str
        Unit of both values.
    value, reference_value : float or None
        The figure, and that of the reference; None where there is none.
    reference : str or None
        What it is compared with, such as ``river dbstream``.
    """

    case: str
    unit: str
    value: float
    reference: str | None = None
    reference_value: float | None = None

    @property
    def ratio(self) -> float | None:
        """Value divided by the reference's."""
        return self.value / self.reference_value if self.reference_value else None

    def as_dict(self) -> dict[str, str | float | None]:
        """Return the row as ``--json`` writes it."""
        return {
            "case": self.case,
            "unit": self.unit,
            "value": self.value,
            "reference": self.reference,
            "reference_value": self.reference_value,
            "ratio": self.ratio,
        }


def arguments(description: str) -> argparse.ArgumentParser:
    """Return a parser that knows what all benchmarks know."""
    parser = argparse.ArgumentParser(description=description, formatter_class=argparse.ArgumentDefaultsHelpFormatter)
    parser.add_argument("--json", action="store_true", help="print the rows as a JSON list instead of a table")
    return parser


def figure(value: float | None) -> str:
    """Return a number as people read it."""
    if value is None:
        return ""
    return f"{value:,.0f}" if abs(value) >= 1000 else f"{value:.3g}" if abs(value) < 1 else f"{value:.2f}"


def show(title: str, rows: list[Row], as_json: bool, notes: str = "") -> None:
    """Print the rows, as a table or as JSON."""
    if as_json:
        print(json.dumps([row.as_dict() for row in rows], indent=1))
        return
    table = Table(title=title, title_justify="left", caption=notes or None, caption_justify="left")
    table.add_column("case", no_wrap=True)
    table.add_column("value", justify="right")
    table.add_column("unit")
    table.add_column("reference", no_wrap=True)
    table.add_column("its value", justify="right")
    table.add_column("ratio", justify="right")
    for row in rows:
        cells = (figure(row.value), row.unit, row.reference or "", figure(row.reference_value), figure(row.ratio))
        table.add_row(row.case, *cells)
    Console(width=None if sys.stdout.isatty() else WIDTH).print(table)


def show_lines(title: str, lines: Sequence[Any], as_json: bool, notes: str = "") -> None:
    """Print dataclasses as a table with a column for each member that any of them has, or as JSON."""
    if as_json:
        print(json.dumps([asdict(line) for line in lines], indent=1))
        return
    names = [each.name for each in fields(lines[0]) if any(_shown(getattr(line, each.name)) for line in lines)]
    table = Table(*names, title=title, title_justify="left", caption=notes or None, caption_justify="left")
    for line in lines:
        table.add_row(*(_shown(getattr(line, name)) for name in names))
    Console(width=None if sys.stdout.isatty() else WIDTH).print(table)


def _shown(value: object) -> str:
    if value is None or isinstance(value, float):
        return figure(value)
    if isinstance(value, dict):
        return ", ".join(f"{name}={_shown(each) or 'never'}" for name, each in value.items())
    if isinstance(value, tuple):
        return ", ".join(map(_shown, value))
    return f"{value:,}" if isinstance(value, int) and not isinstance(value, bool) else str(value)


def alternating(contestants: Mapping[str, Callable[[], float]], rounds: int) -> dict[str, float]:
    """Run all contestants in turn, `rounds` times, and return the median of what each returned.

    A machine that becomes slower or faster meanwhile does so for all of them.
    """
    values: dict[str, list[float]] = {name: [] for name in contestants}
    for _ in range(rounds):
        for name, run in contestants.items():
            values[name].append(run())
    return {name: statistics.median(found) for name, found in values.items()}
