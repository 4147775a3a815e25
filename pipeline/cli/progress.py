"""Progress bars of long commands, on standard error where it is a terminal."""

import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from resonance.pipeline.logs import printable


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
