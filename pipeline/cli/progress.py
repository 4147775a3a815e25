"""Progress bars of long commands, on standard error where it is a terminal."""

import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from rich.console import Console
from rich.progress import Progress, SpinnerColumn, TextColumn, TimeElapsedColumn


@contextmanager
def progress(text: str, total: float | None) -> Iterator[Callable[[float], None]]:
    """Yield a function that takes how much of the total is done; it draws nothing unless on a terminal.

    `total` is None where it is unknown.
    """
    if not sys.stderr.isatty():
        yield lambda _: None
        return
    with Progress(console=Console(stderr=True), transient=True) as bar:
        task = bar.add_task(text, total=total)
        yield lambda done: bar.update(task, completed=done)


@contextmanager
def records_bar(text: str) -> Iterator[Callable[[int], None]]:
    """Yield a function that takes how many more records are done; it draws nothing unless on a terminal."""
    if not sys.stderr.isatty():
        yield lambda _: None
        return
    columns = (
        SpinnerColumn(),
        TextColumn("{task.description}"),
        TextColumn("{task.completed:>12,.0f} records"),
        TextColumn("{task.fields[rate]:>10,.0f}/s"),
        TimeElapsedColumn(),
    )
    with Progress(*columns, console=Console(stderr=True), transient=True) as bar:
        task = bar.add_task(text, total=None, rate=0.0)

        def done(more: int) -> None:
            bar.advance(task, more)
            bar.update(task, rate=bar.tasks[0].speed or 0.0)

        yield done
