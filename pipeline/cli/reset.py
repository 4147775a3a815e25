"""``resonance reset``."""

from typing import TYPE_CHECKING, Annotated

import typer
from resonance.pipeline.cli import plans
from resonance.pipeline.cli.options import PLACE, CommandApp, Json, load
from resonance.pipeline.cli.output import say
from resonance.pipeline.cli.stopping import UNCHANGED, says_when_stopped
from resonance.pipeline.errors import ConfigurationError
from resonance.pipeline.stream_keys import stream_id

if TYPE_CHECKING:
    from resonance.pipeline.checkpoint import deployment_context
    from resonance.pipeline.recovery import rewrite

TEXT = """Forget models, archives and offsets, and begin anew where the log begins; or less, with an option. Stop
every worker of the group first. Without --yes the command only prints its plan."""

OneStream = Annotated[
    str | None,
    typer.Option(
        "--stream",
        parser=stream_id,
        metavar="STREAM",
        help="Forget only this stream's model: its next record begins its next version.",
    ),
]
ToArchive = Annotated[
    str | None,
    typer.Option(
        "--to-archive",
        metavar=PLACE,
        help="Go back to the newest archive at or before this place; what was answered since is answered again.",
    ),
]


app = CommandApp()


@app.command(help=TEXT)
@says_when_stopped(UNCHANGED)
def reset(
    stream: OneStream = None,
    to_archive: ToArchive = None,
    yes: plans.Yes = False,
    *,
    as_json: Json = False,
) -> None:
    """Reset a deployment or a stream, or return to an archive."""
    from resonance.pipeline.recovery import entry

    settings = load()
    if stream is not None and to_archive is not None:
        raise ConfigurationError(
            "--stream and --to-archive: an archive has all streams of a partition, and they stand at one offset; "
            "choose one of the options"
        )
    for option, value in (("--stream", stream), ("--to-archive", to_archive)):
        if value is not None:
            settings.check_local(
                f"resonance reset {option}",
                "roots and subtrees stand in two logs and would have to change together; reset the whole deployment, "
                "or give it another name, which begins anew beside this one",
            )
    source = entry.open_source(settings)
    if yes:
        # Plan on an empty group, because what workers do after the plan would be given up unseen.
        plans.alone(source)
    changes = _plan(source, stream, to_archive)
    if stream is not None:
        written = {source.snapshots: "the next version is written", source.archive: "archived anew"}
    elif to_archive is not None:
        written = {source.snapshots: "those of the archive are written"}
        if any(change.archive for change in changes):
            # They go on as the next version, of which this is the first.
            written[source.archive] = "archived anew"
    else:
        written = {
            source.snapshots: "all are forgotten, and the archives with them",
            source.settings.topic("clusters"): "emptied by tombstones",
        }
    plans.carry_out(source, changes, written, yes=yes, as_json=as_json)


def _plan(
    source: "deployment_context.DeploymentContext",
    stream: str | None,
    to_archive: str | None,
) -> "list[rewrite.Change]":
    from resonance.pipeline.kafka import positions
    from resonance.pipeline.recovery import reset as whole_reset
    from resonance.pipeline.recovery import rollback

    if stream is not None:
        return [whole_reset.plan_stream_reset(source, stream)]
    if to_archive is not None:
        changes, unchanged = rollback.plan_return(source, positions.Position.parse(to_archive, "--to-archive"))
        for topic, partition in unchanged:
            say(f"{topic}[{partition}] does not stand behind that and stays as it is")
        return changes
    return whole_reset.plan_reset(source)
