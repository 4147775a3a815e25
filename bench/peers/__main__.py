"""The same streams through our default engine and through clusterers of other projects.

Each answers a record before it learns it; ARI of the second half of the answers. Each with one setting for all streams,
and with the best of a sweep of four. ``--page docs/peers.md`` writes the page.
"""

import json
import sys
from pathlib import Path

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, SpinnerColumn, TextColumn, TimeElapsedColumn

from bench.peers.contest import Line, contest, prepare, streams
from bench.peers.contestants import CONTESTANTS, engine
from bench.peers.page import page
from bench.report import Row, arguments, show

GROUPS = ["long", "shapes", "sets", "ladder"]


def main() -> None:
    """Run it."""
    parser = arguments(__doc__.partition("\n")[0])
    parser.add_argument("--groups", nargs="+", choices=GROUPS, default=GROUPS, help="groups of streams")
    parser.add_argument("--contestants", nargs="+", metavar="NAME", help="only names with it")
    parser.add_argument("--engines", nargs="+", metavar="NAME", help="these engines of ours alone, with their defaults")
    parser.add_argument("--lines", type=Path, help="file of lines: those in it are not measured again")
    parser.add_argument("--page", type=Path, help="the page to write")
    given = parser.parse_args()
    wanted = [
        one for one in CONTESTANTS if not given.contestants or any(part in one.name for part in given.contestants)
    ]
    if given.engines:
        wanted = [engine(name) for name in given.engines]
    lines: list[Line] = []
    if given.lines and given.lines.exists():
        lines = [Line(**json.loads(text)) for text in given.lines.read_text().splitlines()]
    known = {(line.group, line.stream, line.contestant) for line in lines}
    jobs = [
        (stream, one)
        for stream in streams(given.groups)
        for one in wanted
        if (stream.group, stream.name, one.name) not in known
    ]
    prepare()
    bar = (SpinnerColumn(), TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), TimeElapsedColumn())
    with Progress(*bar, console=Console(stderr=True), transient=True, disable=not sys.stderr.isatty()) as progress:
        whole = progress.add_task("peers", total=len(jobs))
        for stream, contestant in jobs:
            progress.update(whole, description=f"{stream.name}, {contestant.name}")
            found = list(contest(stream, contestant))
            lines += found
            if given.lines:
                with given.lines.open("a") as file:
                    file.writelines(json.dumps(line.as_dict()) + "\n" for line in found)
            progress.advance(whole)
    if given.page:
        given.page.write_text(page(given.page.read_text(), lines))
    rows = [
        Row(f"{line.stream}, {line.contestant}", "ARI", line.ari)
        for line in lines
        if line.first and line.ari is not None
    ]
    show("Live answers beside those of other projects", rows, given.json)


if __name__ == "__main__":
    main()
