"""``resonance snapshots``: list, export and import."""

import time
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer
from resonance.pipeline.cli import plans
from resonance.pipeline.cli.options import CommandApp, Json, load
from resonance.pipeline.cli.output import print_json, print_line, print_table, say
from resonance.pipeline.cli.stopping import UNCHANGED, says_when_stopped
from resonance.pipeline.errors import MismatchError, counted
from resonance.pipeline.mismatches import NEW_VERSION

if TYPE_CHECKING:
    from resonance.pipeline.config import settings as config
    from resonance.pipeline.inspect import listing

TargetFile = Annotated[Path, typer.Argument(metavar="FILE", help="File to write: a new one.")]
SourceFile = Annotated[Path, typer.Argument(metavar="FILE", help="File that `snapshots export` wrote.")]

app = CommandApp(no_args_is_help=True, help="The models as they are stored: list, export, import.")


def _read(settings: "config.Settings") -> "list[listing.StoredPartition]":
    from resonance.pipeline.inspect import listing
    from resonance.pipeline.recovery import entry

    with entry.opened(settings) as (source, reader):
        return listing.read_states(source, reader)


@app.command("list", short_help="List the newest snapshot of every stream.")
@says_when_stopped(UNCHANGED)
def list_snapshots(as_json: Json = False) -> None:
    """List the newest snapshot of every stream: its offset, its size, its version, and its age."""
    from resonance.pipeline.inspect import listing
    from resonance.pipeline.task.alerts.sentences import length

    settings = load()
    now = time.time()
    rows: list[dict[str, Any]] = []
    for state in _read(settings):
        if (checkpoint := state.checkpoint) is None:
            continue
        for snapshot in checkpoint.streams:
            rows.append(
                {
                    "stream": snapshot.stream,
                    "topic": state.at[0],
                    "partition": state.at[1],
                    "next": snapshot.next,
                    "behind": max(0, state.committed - snapshot.next) if state.committed >= 0 else None,
                    "bytes": len(snapshot.body),
                    "version": snapshot.header["version"],
                    "engine": snapshot.header["engine"],
                    "revision": checkpoint.record.identity.revision,
                    "age_seconds": round(max(0.0, now - state.written[snapshot.stream] / 1000), 1),
                }
            )
    if as_json:
        print_json(rows)
    elif rows:
        print_table(
            ("stream", "version", "next offset", "offsets behind", "bytes", "engine", "revision", "age"),
            [
                (
                    *(row[column] for column in ("stream", "version", "next", "behind", "bytes", "engine", "revision")),
                    length(row["age_seconds"]),
                )
                for row in rows
            ],
        )
    else:
        say(listing.none_yet(settings, f"deployment {settings.name}"))


@app.command("export", short_help="Write them into one file.")
@says_when_stopped(UNCHANGED)
def export_snapshots(file: TargetFile, *, as_json: Json = False) -> None:
    """Write the newest snapshots into one file, with the deployment they belong to and their offsets."""
    from resonance.pipeline.checkpoint import codec

    settings = load()
    partitions = [state.checkpoint for state in _read(settings) if state.checkpoint is not None]
    size = codec.write_file(file, partitions)
    count = sum(len(partition.streams) for partition in partitions)
    if as_json:
        print_json({"file": str(file), "bytes": size, "partitions": len(partitions), "streams": count})
    else:
        print_line(f"{file}: {counted(count, 'stream')} of {counted(len(partitions), 'partition')}, {size:,} bytes")


@app.command("import", short_help="Bring those of a file back.")
@says_when_stopped(UNCHANGED)
def import_snapshots(file: SourceFile, yes: plans.Yes = False, *, as_json: Json = False) -> None:
    """Restore the snapshots of a file into the deployment, whose workers must be stopped; they continue from there.

    Without --yes the command only prints its plan. Each partition of the file returns to the offset where it
    stood.
    """
    from resonance.pipeline.checkpoint import codec
    from resonance.pipeline.recovery import entry, rollback

    settings = load()
    settings.check_local(
        "resonance snapshots import",
        "roots and subtrees would have to come from the same moment of both logs; go on from the snapshots that the "
        "deployment has, or give it another name and let it begin anew",
    )
    partitions = codec.read_file(file)
    source = entry.open_source(settings)
    if yes:
        plans.alone(source)
    try:
        changes = rollback.plan_import(source, partitions)
    except MismatchError as error:
        remedy = "; set settings and release back" if error.remedies == (NEW_VERSION,) else ""
        raise MismatchError(f"{file} cannot be imported: {error.problem}{remedy}") from None
    written = {source.snapshots: "those of the file are written"}
    plans.carry_out(source, changes, written, yes=yes, as_json=as_json)
