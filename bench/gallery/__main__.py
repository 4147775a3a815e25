"""All streams of the gallery through the partition task, one line each."""

import json
import sys
from argparse import ArgumentTypeError, Namespace

from resonance.engine import ENGINES
from resonance.pipeline.config.sections import EngineSection
from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, SpinnerColumn, TextColumn, TimeElapsedColumn

from bench.gallery.jobs import Job, results
from bench.gallery.line import Line
from bench.gallery.streams import GROUPS, Stream
from bench.gallery.table import show
from bench.report import arguments


def _setting(text: str) -> tuple[str, str]:
    name, equals, value = text.partition("=")
    if not equals or not name:
        raise ArgumentTypeError(f"{text!r}: write KEY=VALUE, such as engine.lambda=40")
    return name, value


def _options() -> Namespace:
    parser = arguments("Streams that a practitioner would try first, through the partition task.")
    parser.add_argument("--groups", nargs="+", choices=list(GROUPS), default=list(GROUPS), help="groups of streams")
    parser.add_argument("--streams", action="append", default=[], metavar="PART", help="only names with it; repeatable")
    parser.add_argument("--engine", action="append", choices=list(ENGINES), help="an engine; repeatable")
    parser.add_argument(
        "--set", type=_setting, action="append", default=[], metavar="KEY=VALUE", help="a setting; repeatable"
    )
    parser.add_argument(
        "--records", type=float, default=1.0, metavar="N", help="length: up to 10 times a stream's own, else records"
    )
    parser.add_argument("--seed", type=int, action="append", help="instead of each group's own; repeatable")
    parser.add_argument("--jobs", type=int, default=1, help="processes at once; times are comparable with one only")
    return parser.parse_args()


def _jobs(given: Namespace) -> list[Job]:
    engines = given.engine or [EngineSection().name]
    streams: list[Stream] = [stream for group in given.groups for stream in GROUPS[group]()]
    if given.streams:
        streams = [stream for stream in streams if any(part in stream.name for part in given.streams)]
    return [
        Job(stream.group, stream.name, engine, given.records, seed, dict(given.set))
        for stream in streams
        for seed in given.seed or [None]
        for engine in engines
    ]


def main() -> None:
    """Run the gallery."""
    given = _options()
    jobs = _jobs(given)
    if not jobs:
        raise SystemExit(f"no stream of {', '.join(given.groups)} has {' or '.join(given.streams)} in its name")
    for engine in {job.engine for job in jobs}:
        # Once for all processes, which would otherwise compile the same side by side.
        ENGINES[engine].compile()
    found: dict[int, Line] = {}
    bar = (SpinnerColumn(), TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), TimeElapsedColumn())
    with Progress(*bar, console=Console(stderr=True), transient=True, disable=not sys.stderr.isatty()) as progress:
        bar_of_all = progress.add_task("gallery", total=len(jobs))
        for at, line in results(jobs, given.jobs):
            found[at] = line
            progress.update(bar_of_all, advance=1, description=f"{line.stream}, {line.engine}")
    lines = [found[at] for at in range(len(jobs))]
    if given.json:
        print(json.dumps([line.as_dict() for line in lines], indent=1))
    else:
        show(lines)
    if any(line.failed for line in lines):
        raise SystemExit(1)


if __name__ == "__main__":
    main()
