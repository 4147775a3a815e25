"""The benchmark of the watch for changes, as tables or as JSON."""

import sys
from argparse import Namespace
from collections.abc import Callable, Iterator

from resonance.engine import ENGINES
from rich.console import Console
from rich.progress import track

from bench.drift.costs import costs
from bench.drift.detectors import DETECTORS
from bench.drift.findings import Line, of_changes, of_unchanging
from bench.drift.fleet import fleet
from bench.drift.real import CHANGES as REAL_CHANGES
from bench.drift.real import SETS, of_real
from bench.drift.streams import CHANGES, RHYTHMS, STEADY
from bench.report import arguments, show, show_lines

SHAPES = ("2x4", "4x6", "8x8", "16x8")
PARTS = ("changes", "steady", "rhythms", "real", "fleet", "cost")


def _options() -> Namespace:
    parser = arguments("Changes that the watch finds, what it finds in vain, and what it costs.")
    parser.add_argument("--parts", nargs="+", choices=PARTS, default=PARTS)
    parser.add_argument("--shapes", nargs="+", default=SHAPES, metavar="DxK")
    parser.add_argument("--kinds", nargs="+", choices=(*CHANGES, *STEADY, *RHYTHMS), help="instead of all")
    parser.add_argument("--seeds", type=int, default=20, help="streams with a change, of each kind and shape")
    parser.add_argument("--records", type=int, default=280_000, help="of a stream without one, of each kind and shape")
    parser.add_argument("--fleet", type=int, default=10_000_000, help="records of the 1,000 stationary streams in all")
    parser.add_argument("--engine", choices=list(ENGINES), default="modal", help="the engine whose clusters make cells")
    parser.add_argument("--detector", choices=DETECTORS, default="watch", help="ADWIN needs requirements/bench.txt")
    return parser.parse_args()


def _jobs(given: Namespace) -> Iterator[Callable[[], Line]]:
    place = (given.detector, given.engine)
    for kind in given.kinds or (*CHANGES, *STEADY, *RHYTHMS):
        part = "changes" if kind in CHANGES else "rhythms" if kind in RHYTHMS else "steady"
        for shape in given.shapes if part in given.parts else ():
            d, K = map(int, shape.split("x"))
            if part == "changes":
                yield lambda kind=kind, d=d, K=K: of_changes(kind, d, K, given.seeds, *place)  # type: ignore[misc]
            else:
                rhythm = part == "rhythms"
                yield lambda kind=kind, d=d, K=K, rhythm=rhythm: of_unchanging(  # type: ignore[misc]
                    kind, d, K, given.records, 1, *place, rhythm
                )


def main() -> None:
    """Run the benchmark."""
    given = _options()
    jobs, console = list(_jobs(given)), Console(stderr=True)
    lines = [job() for job in track(jobs, "drift", console=console, transient=True, disable=not console.is_terminal)]
    real = [(data, change, gradual) for data in SETS for change in REAL_CHANGES for gradual in (False, True)]
    scores = [
        score
        for job in (real if "real" in given.parts else ())
        if (score := of_real(*job, given.seeds, given.detector, given.engine)) is not None
    ]
    steady = [line for line in lines if line.false is not None and line.late is None]
    false = (
        f"{sum(line.false or 0 for line in steady)} false in {sum(line.records for line in steady):,} steady records"
    )
    if lines:
        show_lines(f"Changes at record 6,000 and none, cells by {given.engine}", lines, given.json, false)
    if scores:
        show_lines("Changes made in real data, found within 2,000 records", scores, given.json)
    if "fleet" in given.parts:
        show("A fleet of stationary streams", fleet(given.fleet), given.json)
    if "cost" in given.parts:
        show("Cost: the fastest tenth of batches of 512 records", costs(), given.json)


if __name__ == "__main__":
    sys.exit(main())
