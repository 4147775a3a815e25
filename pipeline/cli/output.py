"""Print results, with what explains them, to standard output; messages and progress bars to standard error."""

import contextlib
import logging
import os
import select
import shutil
import sys
import textwrap
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any, Literal, NoReturn

import orjson
import typer
from resonance.pipeline.logs import printable, printable_json
from resonance.schemas import Incident


@contextmanager
def progress(text: str, total: float | None) -> Iterator[Callable[[float], None]]:
    """Yield a function that takes how much of the total is done; it draws nothing unless on a terminal.

    `total` is None where it is unknown.
    """
    if not sys.stderr.isatty():
        yield lambda _: None
        return
    from rich import console, markup, progress

    with progress.Progress(console=console.Console(stderr=True), transient=True) as bar:
        task = bar.add_task(markup.escape(printable(text)), total=total)
        yield lambda done: bar.update(task, completed=done)


@contextmanager
def records_bar(text: str) -> Iterator[Callable[[int], None]]:
    """Yield a function that takes how many more records are done; it draws nothing unless on a terminal."""
    if not sys.stderr.isatty():
        yield lambda _: None
        return
    from rich import console, markup, progress

    columns = (
        progress.SpinnerColumn(),
        progress.TextColumn("{task.description}"),
        progress.TextColumn("{task.completed:>12,.0f} records"),
        progress.TextColumn("{task.fields[rate]:>10,.0f}/s"),
        progress.TimeElapsedColumn(),
    )
    with progress.Progress(*columns, console=console.Console(stderr=True), transient=True) as bar:
        task = bar.add_task(markup.escape(printable(text)), total=None, rate=0.0)

        def done(more: int) -> None:
            bar.advance(task, more)
            bar.update(task, rate=bar.tasks[0].speed or 0.0)

        yield done


def open_missing() -> None:
    """Let a closed standard stream lead nowhere: else Python has none, and the next file would be in its place."""
    for name, mode in (("stdin", "r"), ("stdout", "w"), ("stderr", "w")):
        if getattr(sys, name) is None:
            descriptor = os.open(os.devnull, os.O_RDWR)
            os.set_inheritable(descriptor, True)
            setattr(sys, name, os.fdopen(descriptor, mode))


def is_unread() -> bool:
    """Return whether standard output is a pipe without a reader."""
    poll = select.poll()
    with contextlib.suppress(OSError, ValueError):
        poll.register(sys.stdout.fileno(), 0)
    return any(event & select.POLLERR for _, event in poll.poll(0))


def forget_output() -> None:
    """Let standard output lead nowhere: what waits for it would fail once more at the end of the process."""
    with contextlib.suppress(OSError, ValueError):
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


def print_json(value: Any) -> None:
    """Print one JSON document."""
    typer.echo(json_text(value, orjson.OPT_INDENT_2))


def json_text(value: Any, option: int = 0) -> str:
    """Return a value as JSON that a terminal shows as it is."""
    from resonance.pipeline import exact_json

    return printable_json(exact_json.dumps(value, option).decode())


def print_table(columns: Sequence[str], rows: Iterable[Sequence[object]]) -> None:
    """Print a table with numbers aligned right; it is wrapped at words to a terminal's width, and nowhere else."""
    from rich.console import Console
    from rich.measure import Measurement
    from rich.table import Table

    rows = [list(row) for row in rows]
    table = Table(box=None, pad_edge=False, header_style="bold")
    for position, name in enumerate(columns):
        numeric = bool(rows) and all(
            isinstance(row[position], int | float | None) or row[position] == "-" for row in rows
        )
        texts = [cell(row[position]) for row in rows]
        # Only text of many words may take a second line. What is broken, such as an id, could not be copied.
        wraps = any(len(text.split()) > 2 for text in texts)
        whole = [word for text in texts for word in text.split()] if wraps else texts
        justify: Literal["right", "left"] = "right" if numeric else "left"
        least = max(map(len, whole), default=0)
        table.add_column(printable(name), justify=justify, overflow="fold", no_wrap=not wraps, min_width=least)
    for row in rows:
        table.add_row(*map(cell, row))
    # Names that people chose may look like markup.
    console = Console(
        markup=False, emoji=False, width=None if sys.stdout.isatty() else 10_000, soft_wrap=not sys.stdout.isatty()
    )
    # A pipe that is closed is an error here as elsewhere (`main`); rich would end the process.
    console.on_broken_pipe = _raise  # type: ignore[method-assign]
    needed = Measurement.get(console, console.options.update_width(10_000), table).minimum
    console.width = max(console.width, needed)
    console.print(table)


def print_incidents(incidents: Iterable[Incident]) -> None:
    """Print what happened, a line each."""
    from resonance.pipeline.incidents.incidents import COLUMNS, row_of

    print_table(COLUMNS, map(row_of, incidents))


def _raise() -> NoReturn:
    raise  # noqa: PLE0704 - what rich has caught


def fitted(line: str, indent: int) -> list[str]:
    """Return a line in lines of a terminal's width, the later ones indented; whole where output is no terminal."""
    line = printable(line)
    if not sys.stdout.isatty():
        return [line]
    width = max(shutil.get_terminal_size().columns, 2 * indent)
    margin = " " * indent
    return textwrap.wrap(line, width, subsequent_indent=margin, break_long_words=False, break_on_hyphens=False)


def cell(value: object) -> str:
    """Return a cell of a table as text: integers with thousands separators, None as empty text."""
    if value is None:
        return ""
    if isinstance(value, int) and not isinstance(value, bool):
        return f"{value:,}"
    return f"{value:.4g}" if isinstance(value, float) else printable(str(value))


def print_line(text: str = "", indent: int | None = None) -> None:
    """Print a line; with an `indent` it is wrapped as `fitted` does, else whole, as a command to be copied must be."""
    typer.echo(printable(text) if indent is None else "\n".join(fitted(text, indent)))


def footnote(text: str, *, as_json: bool = False) -> None:
    """Print what belongs beneath a table: to where that is, so that a file has both; beside JSON it is a message."""
    if as_json:
        say(text)
    else:
        print_line(text, 2)


def say(*lines: str) -> None:
    """Print a message that is no result."""
    # Where messages cannot be written, results still count.
    with contextlib.suppress(OSError):
        typer.echo("\n".join(map(printable, lines)), err=True)


def end(code: int) -> NoReturn:
    """End the process at once: running threads of the Kafka clients have nothing left to do."""
    with contextlib.suppress(OSError):
        sys.stdout.flush()
    logging.shutdown()
    os._exit(code)
