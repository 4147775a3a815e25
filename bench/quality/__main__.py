"""Streams through contestants, one line each."""

import json
import sys
from argparse import ArgumentTypeError, Namespace
from dataclasses import asdict
from pathlib import Path

from resonance.engine import ENGINES
from resonance.pipeline.config.sections import EngineSection
from rich.console import Console
from rich.progress import track

from bench.quality.contest import Line, means, measured
from bench.quality.contestants import Contestant, engine
from bench.quality.streams import GROUPS, STREAMS
from bench.report import arguments, show, show_lines

NOTES = (
    "ARI of the second half, noise left out. Classes of it, clusters that answer 0.5 % of it and more, and those that "
    "are there at the end; share of the largest. Events: per 1,000 of its records. Micros: CPU of a record."
)


def _setting(text: str) -> tuple[str, str]:
    name, equals, value = text.partition("=")
    if not equals or not name:
        raise ArgumentTypeError(f"{text!r}: write KEY=VALUE, such as engine.lambda=40")
    return name, value


def _options() -> Namespace:
    parser = arguments("How good the clusters are: streams with their truth, and contestants.")
    parser.add_argument("--groups", nargs="+", choices=GROUPS, default=GROUPS, help="groups of streams")
    parser.add_argument("--streams", nargs="+", metavar="PART", help="only names with it")
    parser.add_argument("--contestants", nargs="+", metavar="NAME", help="engines, parts of other names, or all")
    parser.add_argument("--set", type=_setting, nargs="+", default=[], metavar="KEY=VALUE", help="settings of engines")
    parser.add_argument("--sweep", action="store_true", help="each contestant also with its other settings")
    parser.add_argument("--records", type=float, default=1.0, help="up to 10 times a stream's own number, else records")
    parser.add_argument("--seed", type=int, help="instead of each group's own")
    parser.add_argument("--lines", type=Path, help="file of lines: those in it are not measured again")
    parser.add_argument("--page", type=Path, help="the page to write, from streams of 6,000 records")
    parser.add_argument("--papers", nargs="*", metavar="ENGINE", help="figures of the papers instead; of engines")
    return parser.parse_args()


def _contestants(given: Namespace) -> list[Contestant]:
    names = given.contestants or [EngineSection().name]
    if set(names) <= set(ENGINES) and not given.sweep:
        return [engine(name, given=dict(given.set)) for name in names]
    from bench.quality.peers import CONTESTANTS  # noqa: PLC0415 - needs the packages of requirements/bench.txt

    return [one for one in CONTESTANTS if "all" in names or any(name in one.name for name in names)]


def _measure(given: Namespace) -> list[Line]:
    """Return the lines of the file and all that are not in it."""
    lines: list[Line] = []
    if given.lines and given.lines.exists():
        lines = [Line(**json.loads(text)) for text in given.lines.read_text().splitlines()]
    known = {(line.stream, line.contestant, json.dumps(line.setting)) for line in lines}
    streams = [stream for stream in STREAMS if stream.group in given.groups]
    if given.page:
        from bench.quality import page  # noqa: PLC0415 - needs them too

        streams = [stream for stream in streams if stream.group == "ladder" or stream.name in page.STREAMS]
    jobs = [
        (stream, one, setting)
        for stream in streams
        if not given.streams or any(part in stream.name for part in given.streams)
        for one in _contestants(given)
        for setting in one.settings[: None if given.sweep else 1]
        if (stream.name, one.name, json.dumps(dict(setting))) not in known
    ]
    for name in {one.name for _, one, _ in jobs if one.name in ENGINES}:
        ENGINES[name].compile()
    console = Console(stderr=True)
    for job in track(jobs, "quality", console=console, transient=True, disable=not console.is_terminal):
        lines.append(measured(*job, 6_000 if given.page else given.records, given.seed))
        if given.lines:
            with given.lines.open("a") as file:
                file.write(json.dumps(asdict(lines[-1])) + "\n")
    return lines


def main() -> None:
    """Run it."""
    given = _options()
    if given.papers is not None:
        from bench.quality.papers import rows_of  # noqa: PLC0415 - loads much

        show("Figures of the papers, ours beside them", rows_of(given.papers), given.json)
        return
    lines = _measure(given)
    if not lines:
        raise SystemExit("no stream or contestant has that in its name")
    if given.page:
        from bench.quality.page import page  # noqa: PLC0415

        given.page.write_text(page(given.page.read_text(), lines))
    groups = [[line for line in lines if line.group == group] for group in given.groups]
    shown = [line for group in groups if group for line in (*group, *means(group))]
    show_lines("Quality", lines if given.json else shown, given.json, NOTES)


if __name__ == "__main__":
    sys.exit(main())
