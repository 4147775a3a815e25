"""``resonance promote``."""

from typing import Annotated

import typer
from resonance.pipeline.cli import plans
from resonance.pipeline.cli.options import CommandApp, Json, load
from resonance.pipeline.cli.output import print_line, print_table, say
from resonance.pipeline.cli.stopping import UNCHANGED, says_when_stopped

TEXT = """Let the models of a deployment, such as a shadow, take the place of those of a live one on the same input.

Every partition stays at the live one's offset, and goes on there with the models of the other, in a version of its
streams that was never used. A cluster that agrees with one of the other deployment names it as its successor. Stop the
workers of both first. Without --yes the command only prints its plan."""

New = Annotated[str, typer.Argument(metavar="NAME", help="Name of the deployment whose models go on.")]
Over = Annotated[str, typer.Option("--over", metavar="NAME", help="Name of the live deployment.")]

app = CommandApp()


@app.command("promote", help=TEXT)
@says_when_stopped(UNCHANGED)
def command(new: New, live: Over, yes: plans.Yes = False, *, as_json: Json = False) -> None:
    """Promote a deployment."""
    from resonance.pipeline.recovery import rewrite
    from resonance.pipeline.shadow import deployments, promote

    # With which `stream` each of them has learned stands in its snapshots.
    both = deployments.find_both(load({"stream": "partition"}), (new, live))
    promote.check(*both)
    if yes:
        for one in both:
            plans.alone(one)
        rewrite.end_open_transaction(both[1])
    promotion = promote.plan_promotion(*both)
    source = promotion.source
    if promotion.changes and not as_json:
        for phrase in promotion.settings:
            print_line(f"setting: {phrase}")
        if promotion.successors:
            print_table((f"cluster of {live}", f"its successor, by its name in {new}"), promotion.successors.items())
        print_line()
    further = {"settings": promotion.settings, "successors": promotion.successors}
    written = {source.snapshots: "the next version is written", source.archive: "archived"}
    plans.carry_out(source, promotion.changes, written, yes=yes, as_json=as_json, further=further)
    if promotion.settings and promotion.changes:
        say(f"workers of {live} must then be started with the settings of {new} that are listed; others do not start")
    if not yes:
        plans.warn_of_members(both[0])
