"""``resonance verify``."""

from typing import TYPE_CHECKING

import typer
from resonance.pipeline.cli.options import CommandApp, Json, injected, load
from resonance.pipeline.cli.output import print_json, print_line, print_table, records_bar
from resonance.pipeline.cli.replay import ChosenSpan, Fresh, Processes, say_start
from resonance.pipeline.cli.stopping import UNCHANGED, says_when_stopped
from resonance.pipeline.errors import DIFFERS, counted
from resonance.pipeline.machine import collect_rarely

if TYPE_CHECKING:
    from resonance.pipeline.verify import partition_verify
    from resonance.pipeline.verify import verify as verifying

TEXT = f"""Replay the input and compare it with the recorded assignments, events and dead letters, byte by byte.

The command prints `identical` and what it compared, or where the first difference is; it then ends with code {DIFFERS}.
It compares what is committed, so workers may run meanwhile. Without a range, the published incidents are
compared with what the outputs show, as long as all of these are there. The models begin as in `resonance replay`."""

SHOWN = 3
"""Incidents that are named."""


app = CommandApp()


@app.command(help=TEXT)
@injected
def verify(
    *,
    span: ChosenSpan,
    fresh: Fresh = False,
    processes: Processes,
    as_json: Json = False,
) -> None:
    """Verify what was recorded."""
    from resonance.pipeline.verify import verify as verifying

    settings = load()
    with says_when_stopped(UNCHANGED), records_bar("verify") as report:
        collect_rarely()
        verdict = verifying.verify(settings, span, fresh=fresh, processes=processes, report=report)
    _show(verdict, as_json=as_json)
    if not verdict.identical:
        raise typer.Exit(DIFFERS)


def _show(verdict: "verifying.Verdict", *, as_json: bool) -> None:
    for part in verdict.parts:
        say_start(f"{part.topic}[{part.partition}]", part)
    if as_json:
        print_json(verdict.as_json())
        return
    routed = ("routes",) if verdict.total("routes") else ()
    names = ("begin", "end", "records", *routed, "assignments", "events", "dead_letters")
    rows = [
        (part.topic, part.partition, *(getattr(part, name) for name in names), _verdict(part)) for part in verdict.parts
    ]
    head = ("topic", "partition", "from", "to", "records", *routed)
    print_table((*head, "assignments", "events", "dead letters", "verdict"), rows)
    for source, difference in verdict.differences():
        for sentence in difference.sentences(source):
            print_line(sentence)
    for key in verdict.incidents[:SHOWN]:
        print_line(f"incident {key} is not published as the outputs show it; does `resonance alerts --publish` run?")
    again = f", {verdict.total('repeats'):,} of them recorded more than once" if verdict.total("repeats") else ""
    older = f"; {verdict.total('older'):,} outputs of versions that were given up left aside"
    rare = [name for name in ("drift_events", "alerts") if verdict.total(name)]
    shown = (*names[3:-1], *rare, names[-1])
    counts = ", ".join(counted(verdict.total(name), name.removesuffix("s").replace("_", " ")) for name in shown)
    if verdict.published:
        counts += f", {counted(verdict.published, 'published incident')}"
        counts += f", {len(verdict.incidents):,} of them otherwise than shown" if verdict.incidents else ""
    print_line(
        f"{'identical' if verdict.identical else 'different'}: {counted(verdict.records, 'record')}, {counts}{again}"
        f"{older if verdict.total('older') else ''}"
    )


def _verdict(part: "partition_verify.Verified") -> str:
    if part.difference is not None:
        return "differs"
    return "identical" if part.compared else "nothing to compare"
