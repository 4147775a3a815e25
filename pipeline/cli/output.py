"""Print results to standard output, and everything else to standard error."""

import contextlib
import logging
import os
import sys
from collections.abc import Iterable, Sequence
from typing import Any, NoReturn

import orjson
import typer


def print_json(value: Any) -> None:
    """Print one JSON document."""
    typer.echo(orjson.dumps(value, option=orjson.OPT_INDENT_2).decode())


def print_table(columns: Sequence[str], rows: Iterable[Sequence[object]]) -> None:
    """Print a table with numbers aligned right; it is wrapped to the width of a terminal, and nowhere else."""
    from rich.console import Console  # noqa: PLC0415 - not needed by --help
    from rich.table import Table  # noqa: PLC0415

    rows = [list(row) for row in rows]
    table = Table(box=None, pad_edge=False, header_style="bold")
    for position, name in enumerate(columns):
        numeric = bool(rows) and all(isinstance(row[position], int | float | None) for row in rows)
        # Only text of many words may take a second line.
        words = any(len(str(row[position]).split()) > 2 for row in rows)
        table.add_column(name, justify="right" if numeric else "left", overflow="fold", no_wrap=not words)
    for row in rows:
        table.add_row(*map(cell, row))
    Console(width=None if sys.stdout.isatty() else 10_000, soft_wrap=not sys.stdout.isatty()).print(table)


def cell(value: object) -> str:
    """Return a cell of a table as text: integers with thousands separators, None as empty text."""
    if value is None:
        return ""
    if isinstance(value, int) and not isinstance(value, bool):
        return f"{value:,}"
    return f"{value:.4g}" if isinstance(value, float) else str(value)


def say(text: str) -> None:
    """Print a message that is no result."""
    # Where messages cannot be written, results still count.
    with contextlib.suppress(OSError):
        typer.echo(text, err=True)


def end(code: int) -> NoReturn:
    """End the process at once: running threads of the Kafka clients have nothing left to do."""
    sys.stdout.flush()
    # Standard error has no buffer of its own, and a pipe that is not read would hold up a flush.
    logging.shutdown()
    os._exit(code)
