"""Faults one after another on a real Kafka, then the judges: ``python -m tests.chaos --faults 200 --seed 1``.

Which faults come, and how long each lasts, follows from the seed; where they hit does not. A fault comes as soon as
the workers have committed something since the one before, or up to three seconds later.
"""

import argparse
import random
import statistics
import sys
import time
from collections import defaultdict
from pathlib import Path

from rich.console import Console
from rich.progress import Progress
from rich.table import Table

from tests.chaos import judges
from tests.chaos.faults import FAULTS, plan
from tests.chaos.lab import Lab, lab

KINDS = {fault.__name__: fault for fault in FAULTS}


def disturb(lab: Lab, kinds: list[str], count: int, rng: random.Random, progress: Progress) -> dict[str, list[float]]:
    """Let faults happen; return the seconds from the end of each to the next commit, by kind."""
    recovered: dict[str, list[float]] = defaultdict(list)
    for fault in progress.track(plan([KINDS[kind] for kind in kinds], count, rng), description="faults"):
        lab.note(fault.__name__)
        fault(lab, rng)
        lab.note(f"{fault.__name__} is over")
        recovered[fault.__name__].append(lab.wait_for_commit())
        time.sleep(rng.choice((0.0, rng.uniform(0.0, 3.0))))
    return recovered


def main() -> int:
    """Run it."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--faults", type=int, default=200, help="how many (default 200: about half an hour)")
    parser.add_argument("--kinds", nargs="*", choices=KINDS, default=list(KINDS), metavar="KIND", help=", ".join(KINDS))
    parser.add_argument("--seed", type=int, default=1, help="decides kinds, order and lengths")
    parser.add_argument("--rate", type=float, default=400.0, help="records a second")
    parser.add_argument("--engine", default="caea", help="the engine")
    parser.add_argument("--keep", type=Path, help="folder for the broker's data and the logs, should it fail")
    given = parser.parse_args()
    console, began = Console(stderr=True), time.monotonic()
    settings = {"engine.name": given.engine}
    with (
        lab(rate=given.rate, keep=given.keep, **settings) as made,
        Progress(console=console, disable=not console.is_terminal) as progress,
    ):
        recovered = disturb(made, given.kinds, given.faults, random.Random(given.seed), progress)
        made.finish()
        records = judges.books(made.deployment)
        judges.verify(made.deployment)
        read = judges.console_consumer(made.deployment)
    table = Table("fault", "times", "median s", "longest s", title="From the end of a fault to the next commit")
    for name, seconds in sorted(recovered.items()):
        table.add_row(name, str(len(seconds)), f"{statistics.median(seconds):.1f}", f"{max(seconds):.1f}")
    out = Console()
    out.print(table)
    ends = ", ".join(f"{code}: {times}" for code, times in sorted(made.exits.items()))
    out.print(
        f"{given.faults} faults in {time.monotonic() - began:.0f} s; {records:,} records answered once each, verified; "
        f"the console consumer reads {read:,} assignments; exit codes {{{ends}}}",
        highlight=False,
    )
    return 0


if __name__ == "__main__":
    sys.exit(main())
