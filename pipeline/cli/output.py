"""Results on standard output, everything else on standard error."""

import os
import sys
from collections.abc import Iterable, Sequence
from typing import Any, NoReturn

import orjson
import typer


def print_json(value: Any) -> None:
    """Print one JSON document for machines."""
    typer.echo(orjson.dumps(value, option=orjson.OPT_INDENT_2).decode())


def print_table(columns: Sequence[str], rows: Iterable[Sequence[object]]) -> None:
    """Print a table: numbers to the right, and as wide as it is where nobody looks at it on a terminal.

    Parameters
    ----------
    columns : sequence of str
        Headings.
    rows : iterable of sequence
        Cells; numbers get separators of thousands, None an empty cell.
    """
    from rich.console import Console  # noqa: PLC0415 - not needed by --help
    from rich.table import Table  # noqa: PLC0415

    rows = [list(row) for row in rows]
    table = Table(box=None, pad_edge=False, header_style="bold")
    for position, name in enumerate(columns):
        numeric = bool(rows) and all(isinstance(row[position], int | float | None) for row in rows)
        table.add_column(name, justify="right" if numeric else "left", overflow="fold")
    for row in rows:
        table.add_row(*map(cell, row))
    Console(width=None if sys.stdout.isatty() else 10_000, soft_wrap=not sys.stdout.isatty()).print(table)


def cell(value: object) -> str:
    """Return a cell of a table as text."""
    if value is None:
        return ""
    if isinstance(value, int) and not isinstance(value, bool):
        return f"{value:,}"
    return f"{value:.4g}" if isinstance(value, float) else str(value)


def say(text: str) -> None:
    """Tell people something that is no result."""
    typer.echo(text, err=True)


def end(code: int) -> NoReturn:
    """End the process at once: threads of the Kafka clients that still run have nothing left to do."""
    sys.stdout.flush()
    sys.stderr.flush()
    os._exit(code)
