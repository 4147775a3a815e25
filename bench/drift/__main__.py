"""The benchmark of the watch for changes, as a table or as JSON."""

import json
import sys
from argparse import Namespace
from collections.abc import Callable, Iterator
from importlib.util import find_spec

from resonance.engine import ENGINES
from rich.console import Console
from rich.progress import track
from rich.table import Table

from bench.drift.costs import costs
from bench.drift.detectors import PEERS
from bench.drift.findings import Line, of_changes, of_unchanging
from bench.drift.fleet import fleet
from bench.drift.real import CHANGES as REAL_CHANGES
from bench.drift.real import SETS, Score, of_real
from bench.drift.streams import CHANGES, RHYTHMS, STEADY
from bench.report import arguments, figure, show

WIDTH = 150
"""Columns of a table that goes to a file or a pipe."""
SHAPES = ("2x4", "4x6", "8x8", "16x8")
PARTS = ("changes", "steady", "rhythms", "real", "fleet", "cost")
REAL_HEADINGS = ("streams", "precision", "recall", "F1", "delay")
HEADINGS = ("streams", "in 500", "1,000", "1,500", "delay", "cell", "feature", "before", "false", "late", "misses")


def _options() -> Namespace:
    parser = arguments("Changes that the watch finds, what it finds in vain, and what it costs.")
    parser.add_argument("--parts", nargs="+", choices=PARTS, default=PARTS)
    parser.add_argument("--shapes", nargs="+", default=SHAPES, metavar="DxK")
    parser.add_argument("--kinds", nargs="+", choices=(*CHANGES, *STEADY, *RHYTHMS), help="instead of all")
    parser.add_argument("--seeds", type=int, default=20, help="streams with a change, of each kind and shape")
    parser.add_argument("--records", type=int, default=280_000, help="of a stream without one, of each kind and shape")
    parser.add_argument("--streams", type=int, default=1, help="streams without one, of each kind and shape")
    parser.add_argument("--fleet", type=int, default=10_000_000, help="records of the 1,000 stationary streams in all")
    parser.add_argument("--engine", choices=list(ENGINES), default="modal", help="the engine whose clusters make cells")
    parser.add_argument(
        "--detectors", nargs="+", choices=("watch", *PEERS), default=("watch",), help="River's KSWIN takes hours"
    )
    return parser.parse_args()


def _jobs(given: Namespace) -> Iterator[Callable[[], Line]]:
    kinds = given.kinds or (*CHANGES, *STEADY, *RHYTHMS)
    for detector in given.detectors:
        for kind in kinds:
            for shape in given.shapes:
                d, K = map(int, shape.split("x"))
                place = (detector, given.engine)
                if kind in CHANGES and "changes" in given.parts:
                    yield lambda a=(kind, d, K, given.seeds, *place): of_changes(*a)  # type: ignore[misc]
                rhythm = kind in RHYTHMS
                if kind not in CHANGES and ("rhythms" if rhythm else "steady") in given.parts:
                    yield lambda a=(kind, d, K, given.records, given.streams, *place, rhythm): of_unchanging(*a)  # type: ignore[misc]


def _cells(line: Line) -> list[str]:
    within = line.within or (None, None, None)
    numbers = map(figure, (*within, line.delay, line.cell, line.feature))
    counts = ("" if count is None else f"{count:,}" for count in (line.before, line.false, line.late))
    return [line.kind, line.shape, line.detector, str(line.streams), *numbers, *counts, ", ".join(line.misses)]


def _scores(given: Namespace) -> Iterator[Callable[[], Score | None]]:
    for data in SETS:
        for change in REAL_CHANGES:
            for gradual in (False, True):
                for detector in given.detectors:
                    yield lambda a=(data, change, gradual, given.seeds, detector, given.engine): of_real(*a)  # type: ignore[misc]


def _show_real(scores: list[Score]) -> None:
    table = Table(title="Changes made in real data, found within 2,000 records", title_justify="left")
    for heading in ("data", "change", "detector"):
        table.add_column(heading, no_wrap=True)
    for heading in REAL_HEADINGS:
        table.add_column(heading, justify="right")
    for one in scores:
        numbers = map(figure, (one.precision, one.recall, one.f1, one.delay))
        table.add_row(one.data, one.change, one.detector, str(one.streams), *numbers)
    Console(width=None if sys.stdout.isatty() else WIDTH).print(table)


def _show(lines: list[Line], engine: str) -> None:
    table = Table(title=f"Changes at record 6,000 and none, cells by {engine}", title_justify="left")
    for heading in ("kind", "shape", "detector"):
        table.add_column(heading, no_wrap=True)
    for heading in HEADINGS:
        table.add_column(heading, justify="left" if heading == "misses" else "right", no_wrap=True)
    for line in lines:
        table.add_row(*_cells(line))
    steady = [line for line in lines if line.false is not None and line.late is None]
    notes = [
        f"{detector}: {sum(own.false or 0 for own in own_lines)} false in {sum(own.records for own in own_lines):,}"
        for detector in dict.fromkeys(line.detector for line in steady)
        if (own_lines := [line for line in steady if line.detector == detector])
    ]
    table.caption, table.caption_justify = "; ".join(notes) or None, "left"
    Console(width=None if sys.stdout.isatty() else WIDTH).print(table)


def main() -> None:
    """Run the benchmark."""
    given = _options()
    if find_spec("river") is None and not {"watch", "always"}.issuperset(given.detectors):
        print("river is not installed: its detectors are left out", file=sys.stderr)
        given.detectors = [name for name in given.detectors if name in {"watch", "always"}]
    jobs = list(_jobs(given))
    progress = track(jobs, "drift", console=Console(stderr=True), transient=True, disable=not sys.stderr.isatty())
    lines = [job() for job in progress]
    scores = [score for job in _scores(given) if (score := job())] if "real" in given.parts else []
    alerts = fleet(given.fleet) if "fleet" in given.parts else []
    rows = costs() if "cost" in given.parts else []
    if given.json:
        print(json.dumps([one.as_dict() for one in (*lines, *scores, *alerts, *rows)], indent=1))
        return
    if lines:
        _show(lines, given.engine)
    if scores:
        _show_real(scores)
    if alerts:
        show("A fleet of stationary streams", alerts, False)
    if rows:
        show("Cost: the fastest tenth of batches of 512 records", rows, False)


if __name__ == "__main__":
    main()
