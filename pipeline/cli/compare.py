"""``resonance compare``."""

from typing import Annotated

import typer
from resonance.pipeline.cli.evaluate import Folder, check_extra
from resonance.pipeline.cli.main import command_line
from resonance.pipeline.cli.options import CommandApp, Json, injected, load
from resonance.pipeline.cli.output import footnote, print_json, print_line, print_table, records_bar, say
from resonance.pipeline.cli.replay import ChosenSpan
from resonance.pipeline.cli.stopping import UNCHANGED, says_when_stopped
from resonance.pipeline.machine import collect_rarely

TEXT = """Compare what two deployments on the same input have recorded, such as one and its shadow.

FIRST and SECOND are their names. The command reads assignments and cluster events, and shows how far they agree, which
clusters are alike, events, sizes, and the 20 records that disagree most. Workers may run; nothing is changed."""

First = Annotated[str, typer.Argument(metavar="FIRST", help="Name of a deployment, such as the live one.")]
Second = Annotated[str, typer.Argument(metavar="SECOND", help="Name of another one on the same input.")]

Contents = Annotated[bool, typer.Option("--contents", help="Show what the records that disagree most contain.")]
Cost = Annotated[bool, typer.Option("--cost", help="Measure the CPU time: learn the records again, with empty models.")]

app = CommandApp()


@app.command(help=TEXT)
@injected
def compare(
    first: First,
    second: Second,
    *,
    span: ChosenSpan,
    contents: Contents = False,
    cost: Cost = False,
    folder: Folder = None,
    as_json: Json = False,
) -> None:
    """Compare two deployments."""
    from resonance.pipeline.evaluate import report as reports
    from resonance.pipeline.shadow import comparison, deployments, summary
    from resonance.schemas.common import place_text

    check_extra("compare")
    if folder is not None:
        reports.make_folder(folder)
    with says_when_stopped(UNCHANGED), records_bar("compare") as progress:
        collect_rarely()
        # With which `stream` each of them has learned stands in its snapshots.
        both = deployments.find_both(load({"stream": "partition"}), (first, second))
        found = comparison.read(both, comparison.ranges_of(both[0], span), report=progress)
        learned = [comparison.learn_again(one, found, progress) for one in both if cost]
        content = summary.document(both, found, command_line(), learned, contents=contents)
        if folder is not None:
            summary.report(found, content).save(folder)
    if as_json:
        print_json(content)
    else:
        for table in summary.all_tables(content):
            print_table(table.columns, table.rows)
            print_line()
        for record in content["disagreeing"] if contents else ():
            print_line(f"{place_text(record)}: {summary.content_of(record)}", 2)
    footnote(summary.sentence(content), as_json=as_json)
    if folder is not None:
        say(f"report: {folder / reports.PAGE}")
