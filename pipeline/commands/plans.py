"""What a command that changes a deployment would do, shown before it is done."""

import shlex
import sys
from collections.abc import Sequence
from typing import TYPE_CHECKING, Annotated, Any

import typer
from resonance.pipeline.commands.output import print_json, print_table, say

if TYPE_CHECKING:
    from resonance.pipeline.changes import Change, Standing
    from resonance.pipeline.restore import Source

Yes = Annotated[bool, typer.Option("--yes", "-y", help="Do it; without this it is only shown what would be done.")]


def alone(source: "Source") -> None:
    """Return once the group has no members.

    Raises
    ------
    BrokerError
        Somebody is still there.
    """
    import threading  # noqa: PLC0415 - imports that --help can do without

    from resonance.pipeline.changes import wait_for_empty_group  # noqa: PLC0415

    wait_for_empty_group(source, threading.Event(), say)


def show(source: "Source", changes: "Sequence[Change]", topics: Sequence[str], *, done: bool, as_json: bool) -> None:
    """Print what was changed, or would be.

    Parameters
    ----------
    source : Source
        The deployment.
    changes : sequence of Change
        By input partition.
    topics : sequence of str
        Topics that are written to, or whose records are deleted.
    done : bool
        It was done.
    as_json : bool
        For machines.
    """
    command = None if done else _command()
    if as_json:
        partitions = [_as_json(change) for change in changes]
        print_json(
            {"done": done, "group": source.group, "topics": topics, "partitions": partitions, "command": command}
        )
        return
    if not changes:
        say("nothing is to be changed")
        return
    typer.echo(f"group {source.group}; topics: {', '.join(topics)}")
    typer.echo("")
    rows = [(f"{c.at[0]}[{c.at[1]}]", c.was if c.was >= 0 else "none", c.offset) for c in changes]
    print_table(("partition", "offset from", "to"), [(at, str(before), str(after)) for at, before, after in rows])
    streams = [stream for change in changes for stream in change.streams]
    if streams:
        typer.echo("")
        print_table(("stream", "from", "to"), [(s.stream, _told(s.before), _told(s.after)) for s in streams])
    if not done:
        say(f"\nnothing was changed; this does it: {command}")


def _as_json(change: "Change") -> dict[str, Any]:
    streams = [
        {
            "stream": stream.stream,
            "before": stream.before and stream.before._asdict(),
            "after": stream.after and stream.after._asdict(),
        }
        for stream in change.streams
    ]
    topic, partition = change.at
    was = change.was if change.was >= 0 else None
    return {"topic": topic, "partition": partition, "from": was, "to": change.offset, "streams": streams}


def _told(standing: "Standing | None") -> str:
    return "not there" if standing is None else f"version {standing.version} at offset {standing.next}"


def _command() -> str:
    """Return the command line that was given, with --yes; without what nobody should read over a shoulder."""
    if any("password" in argument.lower() for argument in sys.argv):
        return "the same command with --yes"
    return shlex.join(["resonance", *sys.argv[1:], "--yes"])
