"""Show what a command would change in a deployment, or do it."""

import sys
import threading
from collections.abc import Mapping, Sequence
from types import MappingProxyType
from typing import TYPE_CHECKING, Annotated, Any

import typer
from resonance.pipeline.cli.main import as_options, command_line
from resonance.pipeline.cli.output import print_json, print_line, print_table, say
from resonance.pipeline.cli.stopping import UNCHANGED, says_when_stopped
from resonance.pipeline.errors import DeniedError

if TYPE_CHECKING:
    from resonance.pipeline.checkpoint import deployment_context
    from resonance.pipeline.recovery import rewrite

WRITING = "stopped while it was being written: it may be done, in part or as a whole; give the same command again"
"""Message of a command that is stopped after it has begun to change a deployment."""

Yes = Annotated[bool, typer.Option("--yes", "-y", help="Do it; without this option the command only prints its plan.")]


def alone(source: "deployment_context.DeploymentContext") -> None:
    """Wait until the group has no members; raise `BrokerError` where workers do not leave it in time."""
    from resonance.pipeline.recovery import rewrite

    rewrite.wait_for_empty_group(source, threading.Event(), say)


def warn_of_members(source: "deployment_context.DeploymentContext") -> None:
    """Print a warning where workers of the group run and the user has the right to see them."""
    from resonance.pipeline.recovery import rewrite

    try:
        members = rewrite.members_of(source)
    except DeniedError:
        return
    if members is not None:
        count = f"{len(members)} worker{' runs' if len(members) == 1 else 's run'}" if members else "workers join"
        seconds = source.settings.broker.session_timeout + rewrite.WAITING_SECONDS
        say(f"{count} in group {source.group}: stop them first; --yes waits {seconds:.0f} s for that and then refuses")


def carry_out(
    source: "deployment_context.DeploymentContext",
    changes: "Sequence[rewrite.Change]",
    topics: Mapping[str, str],
    *,
    yes: bool,
    as_json: bool,
    further: Mapping[str, Any] = MappingProxyType({}),
) -> None:
    """Make the changes, if `yes`, and print them.

    `topics` maps the topics that are written to, or whose records are deleted, to a few words on what becomes of each;
    `further` are more members of the JSON.
    """
    from resonance.pipeline.recovery import rewrite

    with says_when_stopped(WRITING if yes else UNCHANGED):
        if yes:
            rewrite.write(source, changes)
        # Writing uses up the planned messages, but not what is shown of the changes.
        _show(source, changes, topics, further, done=yes, as_json=as_json)


def _show(
    source: "deployment_context.DeploymentContext",
    changes: "Sequence[rewrite.Change]",
    topics: Mapping[str, str],
    further: Mapping[str, Any],
    *,
    done: bool,
    as_json: bool,
) -> None:
    command = None if done else _command()
    if any(_cleared(source, change) for change in changes):
        topics = {**topics, source.settings.topic("alerts"): "open alerts whose state goes are cleared"}
    if as_json:
        partitions = [_as_json(change) | {"alerts": _cleared(source, change)} for change in changes]
        print_json(
            {"done": done, "group": source.group, "topics": list(topics), "partitions": partitions, "command": command}
            | {**further}
        )
        return
    if not changes:
        say("nothing is to be changed")
        return
    print_line(f"group {source.group}; topics: {', '.join(f'{name} ({what})' for name, what in topics.items())}")
    print_line()
    rows = [(f"{c.at[0]}[{c.at[1]}]", c.was if c.was >= 0 else "none", c.offset) for c in changes]
    print_table(("partition", "offset from", "to"), [(at, str(before), str(after)) for at, before, after in rows])
    streams = [stream for change in changes for stream in change.streams]
    if streams:
        print_line()
        print_table(
            ("stream", "newest snapshot", "becomes"), [(s.stream, _at(s.before), _at(s.after)) for s in streams]
        )
    alerts = [alert for change in changes for alert in _cleared(source, change)]
    if alerts:
        print_line()
        print_table(("open alert", "becomes"), [(alert, "cleared") for alert in alerts])
    if done:
        print_line()
        print_line("this was done; workers that are started now go on from there")
        return
    print_line()
    print_line(f"nothing was changed; this does it: {command}")
    warn_of_members(source)


def _as_json(change: "rewrite.Change") -> dict[str, Any]:
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


def _cleared(source: "deployment_context.DeploymentContext", change: "rewrite.Change") -> list[str]:
    """Return the keys of the open alerts that a change clears."""
    topic = source.settings.topic("alerts")
    messages = (message for batch in change.outputs if batch.topic == topic for message in batch.messages)
    return [(message.key or b"").decode() for message in messages]


def _at(standing: "rewrite.StreamPosition | None") -> str:
    if standing is None:
        return "not there"
    at = f" at offset {standing.next}" if standing.next is not None else ", in no snapshot yet"
    return f"version {standing.version}{at}"


def _command() -> str:
    """Return the given command line with --yes; one with a secret is not repeated."""
    from resonance.pipeline.config import messages

    shown = command_line([*as_options(sys.argv[1:]), "--yes"])
    return "the same command with --yes" if messages.MASK in shown else shown
