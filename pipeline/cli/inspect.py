"""``resonance inspect``."""

import threading
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer
from resonance.pipeline.cli import one_cluster
from resonance.pipeline.cli import peers as peers_table
from resonance.pipeline.cli.options import PLACE, CommandApp, Json, Picture, load
from resonance.pipeline.cli.output import cell, footnote, print_json, print_line, print_table, records_bar, say
from resonance.pipeline.cli.stopping import UNCHANGED, says_when_stopped
from resonance.pipeline.errors import ConfigurationError, ResonanceError, counted, first_of, minute, number, some_of
from resonance.pipeline.stream_keys import readable, stream_id
from resonance.schemas import AutomaticNames, ClusterEvent, ClusterNames, sets_apart

if TYPE_CHECKING:
    from resonance.pipeline.checkpoint import deployment_context
    from resonance.pipeline.config import settings as config
    from resonance.pipeline.inspect import changed_ranges, inspection, listing
    from resonance.pipeline.kafka import log_reader

TEXT = """Show the clusters of a stream, with what sets each apart; without --stream, what streams there are. What was
processed since its newest snapshot is learned again first. With --at they are shown as they were: the newest archive
from before that time, and what was processed until then. With --peers: the streams whose recent records are unlike
those of the others, in which features, how far, and since when.

CLUSTER: the tree of what it came from and what it became; with --records the records of late that are most typical of
it; with --as it gets a name for all who look at it. A cluster that splits from a named one is called after it. No model
and no output depends on a name. Nothing else is written, and workers may be at work."""

SHOWN = 6
"""Features that the table shows; --json has them all."""

HINT_SECONDS = 3.0
"""Longest time that is spent on the hint that some streams are unlike the others."""

ROUNDING = 1e-12
"""Share of the centre below which a spread is what floating-point additions leave of equal values."""

OneCluster = Annotated[
    str | None, typer.Argument(metavar="CLUSTER", help="Id of a cluster, such as p0/1/3.", show_default=False)
]
OneStream = Annotated[
    str | None, typer.Option("--stream", parser=stream_id, metavar="STREAM", help="Show this stream, such as p0.")
]

Wide = Annotated[
    bool, typer.Option("--wide", help="Show the six features that differ most, nodes, and how clusters began.")
]
Stored = Annotated[bool, typer.Option("--stored", help="Show the newest snapshot, without learning what came since.")]
At = Annotated[
    str | None, typer.Option("--at", metavar=PLACE, help="Show the state at a time or an offset in the past.")
]
Peers = Annotated[bool, typer.Option("--peers", help="List the streams whose recent records are unlike the others.")]

Records = Annotated[bool, typer.Option("--records", help="Show the records that are most typical of CLUSTER.")]
As = Annotated[str | None, typer.Option("--as", metavar="NAME", help="Name CLUSTER; an empty NAME removes its name.")]
Names = Annotated[bool, typer.Option("--names", help="List the names of clusters.")]

GOES_WITH = {"CLUSTER": ("--records", "--as"), "--names": (), "--peers": ("--at", "--wide")}
"""What shows something else than streams, and which of the other options it goes with."""

FEWER_SPLITS = {"modal": "a lower engine.doubt", "evq": "a higher engine.margin"}
"""What gives fewer splits with an engine."""

app = CommandApp()


@app.command(help=TEXT)
@says_when_stopped(UNCHANGED)
def inspect(
    cluster: OneCluster = None,
    stream: OneStream = None,
    wide: Wide = False,
    stored: Stored = False,
    at: At = None,
    peers: Peers = False,
    picture: Picture = None,
    records: Records = False,
    name: As = None,
    names_only: Names = False,
    *,
    as_json: Json = False,
) -> None:
    """Show the clusters of a stream, all streams, or one cluster."""
    from resonance.pipeline.inspect import inspection, listing
    from resonance.pipeline.kafka import positions
    from resonance.pipeline.peers import peers as comparing
    from resonance.pipeline.recovery import entry
    from resonance.pipeline.watch import named
    from resonance.pipeline.watch import picture as drawing

    shown = {"CLUSTER": cluster, "--names": names_only, "--peers": peers}
    those = {"--stream": stream, "--at": at, "--stored": stored, "--picture": picture, "--wide": wide}
    _check_options({**shown, **those, "--records": records, "--as": name})
    if cluster is not None:
        _one(cluster, records, name, as_json=as_json)
        return
    if records or name is not None:
        raise ConfigurationError("--records and --as are for one cluster: name it, such as p0/1/3")
    if names_only:
        one_cluster.list_names(as_json=as_json)
        return
    if picture is not None:
        drawing.check(picture)
    settings = load()
    moment = None if at is None else positions.Position.parse(at, "--at")
    with entry.opened(settings) as (source, reader):
        states = listing.read_states(source, reader)
        if moment is not None:
            present = listing.names_of(states)
            states = listing.states_at(source, reader, states, moment, at or "")
            _check_past(at or "", stream, present, listing.names_of(states))
        names = listing.names_of(states)
        if peers:
            with records_bar("reading the last records") as read:
                compared = comparing.compare_streams(settings, reader, states, read)
            if as_json:
                print_json(compared.as_json())
            else:
                peers_table.show(compared, wide=wide)
            return
        if stream is not None:
            listing.check_stored(stream, states, settings)
        only = stream or (names[0] if len(names) == 1 else None)
        for option, value in (("--picture", picture), ("--wide", wide)):
            if value and only is None and names:
                raise ConfigurationError(f"{option} shows one stream; name it with --stream: {first_of(names, SHOWN)}")
        events: list[ClusterEvent] = []
        automatic = AutomaticNames()

        def keep(event: ClusterEvent) -> None:
            automatic.apply(event)
            if picture is not None:
                events.append(event)

        with records_bar("learning what came since the snapshot") as learned:
            found = inspection.inspect(settings, reader, states, only, stored=stored, learned=learned, read=keep)
        called = named.read_names(reader, settings)
        # Records with schemas would wait for the registry.
        beside = None if as_json or only or stored or settings.is_framed else _hint(source, states)
        if picture is not None and found:
            _draw(picture, settings, reader, found[0], events, called)
    if as_json:
        print_json(_as_json(found[0], called, automatic) if only else inspection.overview(found))
    elif only:
        _show(found[0], called, automatic, wide=wide)
    elif not found:
        say(listing.none_yet(settings, f"deployment {settings.name}"))
    else:
        print_table(
            ("stream", "version", "next offset", "offsets since", "records", "clusters", "snapshot written"),
            [
                (
                    readable(s.stream, s.stream),
                    s.version,
                    s.next,
                    s.behind,
                    *((s.records, len(s.clusters)) if s.records else ("-", "-")),
                    s.written,
                )
                for s in found
            ],
        )
        footnote(
            "as of these snapshots; the partition's offsets since may be of other streams; -: no model yet; "
            "--stream NAME also learns what came since"
        )
        if beside is not None:
            peers_table.hint(*beside)


def _check_options(options: Mapping[str, object]) -> None:
    """Refuse options that would say nothing beside what is to be shown."""
    given = [option for option, value in options.items() if value not in (None, False)]
    for view, others in GOES_WITH.items():
        if view in given:
            if unused := [option for option in given if option not in (view, *others)]:
                with_which = f"with {' or '.join(others)}" if others else "alone"
                raise ConfigurationError(f"{view} goes {with_which}; leave out {' and '.join(unused)}")
            return


def _one(cluster: str, records: bool, name: str | None, *, as_json: bool) -> None:
    if records and name is not None:
        raise ConfigurationError("--records and --as: choose one")
    if name is not None:
        one_cluster.give_name(cluster, name, as_json=as_json)
    else:
        (one_cluster.show_records if records else one_cluster.show_lineage)(cluster, as_json=as_json)


def _check_past(at: str, stream: str | None, present: Sequence[str], known: Sequence[str]) -> None:
    """Say which of the present streams no state from before a time has; raise where it is `stream`."""
    from resonance.pipeline.inspect import listing

    later = sorted(set(present) - set(known))
    if stream in later:
        raise ConfigurationError(
            f"--stream {stream}: no archive from before --at {at} has it, because it began later, or soon before; "
            f"{listing.EARLIER}"
        )
    if later and stream is None:
        count = f"left out: {len(later):,} of {counted(len(present), 'stream')}"
        say(f"{count}; no archive from before {at} has them ({first_of(later, SHOWN)})")


def _hint(
    source: "deployment_context.DeploymentContext", states: "Sequence[listing.StoredPartition]"
) -> tuple[int, int] | None:
    """Return how many streams are unlike the others, and of how many; None where that is not soon known.

    A hint neither fails, as where the records may not be read, nor waits for a broker.
    """
    from resonance.pipeline.kafka import log_reader
    from resonance.pipeline.peers import peers as comparing

    over = threading.Event()
    timer = threading.Timer(HINT_SECONDS, over.set)
    timer.start()
    try:
        with records_bar("comparing the streams") as read, source.reader(over) as reader:
            return comparing.hint(source.settings, reader, states, read)
    except (ResonanceError, log_reader.RestoreCancelledError):
        return None
    finally:
        timer.cancel()


def _draw(
    picture: Path,
    settings: "config.Settings",
    reader: "log_reader.LogReader",
    stream: "inspection.InspectedStream",
    events: list[ClusterEvent],
    called: ClusterNames,
) -> None:
    """Draw the life-lines of a stream from its stored outputs, and its clusters."""
    from resonance.pipeline.inspect import stream_outputs
    from resonance.pipeline.watch import lifelines
    from resonance.pipeline.watch import picture as drawing

    at = (stream.topic, stream.partition)
    outputs = stream_outputs.StreamOutputs(settings, reader, at, stream.stream, stream.next)
    answers = outputs.answers(stream_outputs.DRAWN)
    drifts = outputs.values("drift_events")
    clusters = [{"stream": stream.stream, **cluster.snapshot} for cluster in stream.clusters]
    recent = {cluster.id: cluster.recent for cluster in stream.clusters if cluster.recent is not None}
    lives, left_out = lifelines.stream_lives(answers, events, drifts, clusters, recent=recent)
    for line in (line for life in lives for line in life.lines):
        line.called = str(called.of(line.name))
    drawing.draw(picture, lives, left_out)
    say(f"picture: {picture}")


def place(centre: float, spread: float) -> str:
    """Return centre and spread of a cluster in one feature; a spread that is only rounding becomes 0."""
    return f"{cell(centre)} ± {cell(spread) if spread > ROUNDING * abs(centre) else '0'}"


def _as_json(stream: "inspection.InspectedStream", called: ClusterNames, automatic: AutomaticNames) -> dict[str, Any]:
    """Return a stream as plain values, with the names of its clusters."""
    values = stream.as_json()
    snapshots = [cluster.snapshot for cluster in stream.clusters]
    for each, snapshot in zip(values["clusters"], snapshots, strict=True):
        each.update(called.of(each["id"])._asdict(), automatic_name=automatic.name(snapshot, snapshots))
    return values


def _show(stream: "inspection.InspectedStream", called: ClusterNames, automatic: AutomaticNames, *, wide: bool) -> None:
    shown_name, of = readable(stream.stream, stream.stream), f"version {stream.version} ({stream.engine})"
    clusters = counted(len(stream.clusters), "cluster")
    footnote(f"{shown_name}, {of}: {clusters} after {counted(stream.records, 'record')}")
    when = f" ({stream.time})" if stream.time else ""
    footnote(f"as of {stream.topic}[{stream.partition}]@{stream.next - 1}{when}; {_since(stream)}")
    if (labels := stream.labels) is not None:
        first = first_of(labels.known, SHOWN)
        footnote(
            f"{counted(len(labels.known), 'label')} of {counted(labels.records, 'record')}"
            f"{': ' if first else ''}{first}; "
            f"{counted(labels.buffered, 'record')} can still be labelled, waiting for theirs: "
            f"{counted(labels.waiting, 'label')}"
        )
    if stream.open_drift is not None:
        footnote(f"the data are changing since drift event {stream.open_drift:,} (resonance watch --kind drift)")
    for change in stream.ranges:
        footnote(range_sentence(stream, change))
    if stream.hint:
        footnote(stream.hint)
    if stream.taken_back:
        fewer = FEWER_SPLITS.get(stream.engine)
        hint = f"; {fewer} gives fewer splits" if fewer else ""
        footnote(f"{stream.taken_back:,} of {stream.splits:,} splits were taken back by a merge{hint}")
    if not stream.clusters:
        return
    print_line()
    columns, rows = (_wide if wide else _narrow)(stream.clusters)
    shown = [called.of(cluster.id) for cluster in stream.clusters]
    if any(shown):
        # Beside names that people gave, the others have theirs too.
        snapshots = [cluster.snapshot for cluster in stream.clusters]
        columns.insert(1, "name")
        for row, name, snapshot in zip(rows, shown, snapshots, strict=True):
            row.insert(1, str(name) or (f"[{own}]" if (own := automatic.name(snapshot, snapshots)) else ""))
    print_table(columns, rows)
    more = max(len(cluster.centre) for cluster in stream.clusters) - SHOWN
    if wide and more > 0:
        footnote(f"{more:,} more features: --json has them")
    if omitted := max(cluster.omitted for cluster in stream.clusters):
        which = "those with the smallest means relative to their ranges"
        footnote(f"up to {omitted:,} features of a cluster are left out, {which}: a message would not hold them")


def range_sentence(stream: "inspection.InspectedStream", change: "changed_ranges.ChangedRange") -> str:
    """Return since when a feature has another range, and which clusters have a mean of before."""
    before, now = (" to ".join(map(number, each)) for each in (change.range_before, change.range))
    text = f"the range of {change.feature} is {now} since {minute(change.time)}, {before} before"
    names = [cluster.id for cluster in stream.clusters if change.feature in cluster.of_before]
    return f"{text}; of before are the means of {some_of(names, SHOWN)}" if names else text


def _since(stream: "inspection.InspectedStream") -> str:
    """Return how the snapshot and the group stand to what is shown."""
    again = (
        f", {counted(stream.next - stream.stored, 'offset')} learned again since" if stream.next > stream.stored else ""
    )
    behind = f"; the group stands at offset {stream.committed}" if stream.committed > stream.next else ""
    return f"snapshot written {stream.written}{again}{behind}"


def _narrow(clusters: "Sequence[inspection.InspectedCluster]") -> tuple[list[str], list[list[object]]]:
    """Return columns and rows that fit a terminal: each cluster with what sets it apart from the others."""
    from resonance.pipeline.watch import sentences

    snapshots = [cluster.snapshot for cluster in clusters]
    has_recent = any(cluster.recent is not None for cluster in clusters)
    rows: list[list[object]] = []
    for cluster, snapshot in zip(clusters, snapshots, strict=True):
        level = [other for own, other in zip(clusters, snapshots, strict=True) if own.parent == cluster.parent]
        recent = [f"{cluster.recent or 0.0:.0%}"] if has_recent else []
        since = minute(cluster.emerged.time) if cluster.emerged else None
        described = sentences.portrait(snapshot, level)
        rows.append(["  " * (cluster.level - 1) + cluster.id, cluster.size, *recent, since, described])
    return ["cluster", "size", *(["recent"] if has_recent else []), "since", "what sets it apart"], rows


def _wide(clusters: "Sequence[inspection.InspectedCluster]") -> tuple[list[str], list[list[object]]]:
    """Return columns and rows with nodes, age, beginning, and centre and spread of the features that differ most."""
    names, portraits = _portraits(clusters)
    has_keywords = any(cluster.keywords for cluster in clusters)
    rows: list[list[object]] = []
    for cluster, cells in zip(clusters, portraits, strict=True):
        emerged = cluster.emerged
        came = f"{emerged.time}" + (f" from {emerged.split_from}" if emerged.split_from else "") if emerged else None
        words = [", ".join(cluster.keywords or ())] if has_keywords else []
        name = "  " * (cluster.level - 1) + cluster.id
        rows.append([name, cluster.size, cluster.nodes, cluster.records, came, *words, *cells])
    return ["cluster", "size", "nodes", "age in records", "emerged", *["keywords"] * has_keywords, *names], rows


def _portraits(clusters: "Sequence[inspection.InspectedCluster]") -> tuple[list[str], list[list[str]]]:
    """Return columns and cells that describe clusters: the same features for all, or for each cluster its own."""
    if any(cluster.salient for cluster in clusters):
        portraits = [", ".join(map(_salient, cluster.salient[:SHOWN])) for cluster in clusters]
        return ["most salient features (salience x weight)"], [[text] for text in portraits]
    features = list(clusters[0].centre)
    if all(features == list(cluster.centre) for cluster in clusters):
        names = sets_apart.columns([cluster.snapshot for cluster in clusters], SHOWN)
        return names, [[place(each.centre[name], each.spread[name]) for name in names] for each in clusters]
    portraits = []
    for cluster in clusters:
        largest = sorted(cluster.centre, key=lambda name, cluster=cluster: -cluster.centre[name])[:SHOWN]  # type: ignore[misc]
        portraits.append(", ".join(f"{name} {place(cluster.centre[name], cluster.spread[name])}" for name in largest))
    return ["largest means"], [[text] for text in portraits]


def _salient(each: Mapping[str, Any]) -> str:
    return f"{each['feature']} {each['salience']:.2f}x{each['weight']:.2f}"
