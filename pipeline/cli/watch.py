"""``resonance watch``."""

import os
import sys
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import replace
from typing import TYPE_CHECKING, Annotated

import typer
from resonance.pipeline.cli.options import PLACE, CommandApp, Json, Streams, load_outputs
from resonance.pipeline.cli.output import fitted, json_text, say
from resonance.pipeline.stream_keys import readable
from resonance.schemas import ClusterNames

if TYPE_CHECKING:
    from resonance.pipeline.kafka import admin
    from resonance.pipeline.watch import watch as watched

PATIENCE = 10.0
_MARGIN = 21
"""Columns before the kind of an output: its time."""
COLOURS = {
    "assignments": "cyan",
    "events": "green",
    "drift": "magenta",
    "alerts": "bright_red",
    "dead-letters": "red",
    "clusters": "blue",
}

TEXT = """Show the outputs as they come, in sentences.

Cluster events, drift, alerts and dead letters are a sentence each, or with --json a JSON object; --kind assignments
shows the answer to every record. Each topic comes in its order, with --until-end all by their times. Alike alerts of
many streams that come together are one line. The command waits for topics that do not exist yet, belongs to no group
and changes nothing, so any number of people can watch. For your own programs: docs/consuming.md."""

Kinds = Annotated[
    list[str] | None,
    typer.Option(
        "--kind",
        "-k",
        metavar="KIND",
        help="assignments, events, drift, alerts, dead-letters, clusters, or a kind of event: emerged, absorbed, "
        "split, vanished, described, version_started, stream_ended, and of drift rescaled, which drift leaves out; "
        "repeatable. By default all but assignments, clusters and rescaled.",
    ),
]
From = Annotated[str, typer.Option("--from", metavar=PLACE, help="Where to begin.")]
Limit = Annotated[int | None, typer.Option(min=1, metavar="N", help="End after N outputs.")]
UntilEnd = Annotated[
    bool, typer.Option("--until-end", help="End where the topics end now, instead of waiting for more.")
]
EachAlert = Annotated[
    bool, typer.Option("--each", help="Print a line for each alert, even of many streams or beside its drift.")
]


# The command has no end of its own: Ctrl-C is its regular end, at every point.
@contextmanager
def _until_stopped() -> Iterator[None]:
    with suppress(KeyboardInterrupt):
        yield


app = CommandApp()


@app.command(help=TEXT)
@_until_stopped()
def watch(
    streams: Streams = None,
    kinds: Kinds = None,
    start: From = "latest",
    limit: Limit = None,
    until_end: UntilEnd = False,
    each: EachAlert = False,
    *,
    as_json: Json = False,
) -> None:
    """Show the outputs."""
    from resonance.pipeline.kafka import admin, clients, log_reader, positions
    from resonance.pipeline.watch import named, outputs
    from resonance.pipeline.watch import watch as watched

    settings = load_outputs()
    wanted = replace(watched.Filter.of(kinds or (), streams or ()), drift_once=not (each or as_json))
    begin = positions.Position.parse(start, "--from")
    cluster = admin.ClusterAdmin(clients.librdkafka(settings), settings.broker.answer_timeout)
    kind_of = {settings.topic(watched.OUTPUTS[kind]): kind for kind in wanted.kinds}
    topics = _existing(cluster, kind_of, chosen=bool(kinds))
    if not topics and not until_end:
        topics, begin = _waited_for(cluster, kind_of, chosen=bool(kinds)), positions.EARLIEST
    # Where none exists, the error names the first one.
    topics = topics or dict(list(kind_of.items())[:1])
    partitions = [at for topic in topics for at in positions.partitions_of(cluster, topic, settings.name)]
    with log_reader.LogReader(clients.librdkafka(settings), f"{settings.name}-watch", PATIENCE) as reader:
        ranges = positions.ranges_from(reader, partitions, begin)
        starts = {at: first for at, (first, _) in ranges.items()}
        of_events = {at: first for at, first in starts.items() if topics[at[0]] == "events"}
        if begin == positions.LATEST:
            clusters = named.partitions_there(reader, settings.topic("clusters")) if of_events else []
            table = watched.present_clusters(reader, clusters)
        else:
            table = watched.clusters_before(reader, of_events)
        names = named.read_names(reader, settings)
        behind = reader.bounds(named.partitions_there(reader, settings.topic("names")))
    followed_starts = starts | {at: end for at, (_, end) in behind.items()}
    ends = {at: end for at, (_, end) in ranges.items()}
    shown = 0
    with outputs.DeploymentOutputs(settings, followed_starts) as followed:
        hint = "; --from earliest shows what is there already" if begin == positions.LATEST else ""
        following = watched.Watch(followed, wanted, say, hint, table, names)
        for batch in following.batches(ends, follow=not until_end):
            here = batch if limit is None else batch[: limit - shown]
            _print(here, names, each=each, as_json=as_json)
            shown += len(here)
            if shown == limit:
                return
    if until_end and not shown:
        say(f"nothing on {', '.join(topics)} from {start} to the end")


def _existing(cluster: "admin.ClusterAdmin", topics: dict[str, str], *, chosen: bool) -> dict[str, str]:
    """Return the topics that exist; where kinds were chosen, nothing unless all do."""
    counts = cluster.partition_counts()
    found = {topic: kind for topic, kind in topics.items() if topic in counts}
    return found if len(found) == len(topics) or not chosen else {}


def _waited_for(cluster: "admin.ClusterAdmin", topics: dict[str, str], *, chosen: bool) -> dict[str, str]:
    """Wait until topics exist, and return them."""
    from resonance.pipeline import errors
    from resonance.pipeline.watch import watch as watched

    first = next(iter(topics))
    near = errors.nearest(first, cluster.partition_counts())
    say(f"there is no topic {first} yet{near}; waiting for a worker that makes it (Ctrl-C ends it)")
    while not (found := _existing(cluster, topics, chosen=chosen)):
        time.sleep(watched.LOOK_SECONDS)
    return found


def _print(outputs: "Sequence[watched.WatchedOutput]", names: ClusterNames, *, each: bool, as_json: bool) -> None:
    from resonance.pipeline.watch import alike_alerts
    from resonance.pipeline.watch import watch as watched

    if as_json:
        lines = [json_text(watched.as_json(output, names)) for output in outputs]
    else:
        width = max(map(len, COLOURS))
        coloured = sys.stdout.isatty() and "NO_COLOR" not in os.environ
        lines = []
        for alike in alike_alerts.together(outputs, watched.alert_of, each=each):
            kind = alike[0].kind
            text = readable(watched.as_line(*alike, names=names), *map(watched.stream_of, alike))
            first, *more = fitted(f"{watched.time_of(alike[0]):19}  {kind:{width}}  {text}", _MARGIN)
            styled = typer.style(kind, fg=COLOURS[kind]) if coloured else kind
            lines += [first[:_MARGIN] + styled + first[_MARGIN + len(kind) :], *more]
    # One write for many lines, because there may be thousands a second.
    sys.stdout.write("\n".join(lines) + "\n")
    sys.stdout.flush()
