"""``resonance inspect``."""

from collections.abc import Sequence
from typing import Annotated

import typer
from resonance.pipeline.checkpoint import inspection, listing
from resonance.pipeline.cli.injection import CommandApp, injected
from resonance.pipeline.cli.options import SETTINGS_HELP, Deployment, Json
from resonance.pipeline.cli.output import cell, print_json, print_table, say
from resonance.pipeline.cli.stopping import UNCHANGED, says_when_stopped
from resonance.pipeline.recovery import entry
from resonance.schemas import SalientFeature

TEXT = f"""Show the clusters of a stream, as its newest snapshot has them; without --stream, what streams there are.
Nothing is written, and workers may be at work.

{SETTINGS_HELP}"""

SHOWN = 6
"""Features that the table shows; --json has them all."""

ROUNDING = 1e-12
"""Share of the centre below which a spread is what floating-point additions leave of equal values."""

OneStream = Annotated[str | None, typer.Option("--stream", metavar="STREAM", help="The stream, such as p0.")]

app = CommandApp()


@app.command(help=TEXT)
@says_when_stopped(UNCHANGED)
@injected
def inspect(stream: OneStream = None, *, settings: Deployment, as_json: Json = False) -> None:
    """Show the clusters of a stream, or all streams."""
    with entry.opened(settings) as (source, reader):
        states = listing.read_states(source, reader)
        names = listing.names_of(states)
        if stream is not None:
            listing.check_stored(stream, states, settings)
        only = stream or (names[0] if len(names) == 1 else None)
        found = inspection.inspect(settings, reader, states, only)
    if as_json:
        print_json(found[0].as_json() if only else inspection.overview(found))
    elif only:
        _show(found[0])
    elif not found:
        say(listing.none_yet(settings, f"deployment {settings.name}"))
    else:
        print_table(
            ("stream", "version", "next offset", "records", "clusters", "snapshot written"),
            [(s.stream, s.version, s.next, s.records, len(s.clusters), s.written) for s in found],
        )


def place(centre: float, spread: float) -> str:
    """Return centre and spread of a cluster in one feature; a spread that is only rounding becomes 0."""
    return f"{cell(centre)} ± {cell(spread) if spread > ROUNDING * abs(centre) else '0'}"


def _show(stream: "inspection.InspectedStream") -> None:
    """Print a stream and its clusters."""
    at = f"{stream.topic}[{stream.partition}]"
    count = len(stream.clusters)
    typer.echo(
        f"{stream.stream}, version {stream.version} ({stream.engine}): {count:,} cluster{'s' if count != 1 else ''} "
        f"after {stream.records:,} records"
    )
    when = f" ({stream.time})" if stream.time else ""
    behind = f"; the group stands at offset {stream.committed}" if stream.committed >= 0 else ""
    typer.echo(f"as of {at}@{stream.next - 1}{when}, snapshot written {stream.written}{behind}")
    if (labels := stream.labels) is not None:
        first = ", ".join(labels.known[:SHOWN]) + (", ..." if len(labels.known) > SHOWN else "")
        typer.echo(
            f"{len(labels.known):,} labels of {labels.records:,} records{': ' if first else ''}{first}; "
            f"{labels.buffered:,} records can still be labelled, {labels.waiting:,} labels wait for theirs"
        )
    if stream.open_drift is not None:
        typer.echo(f"the data are changing since drift event {stream.open_drift:,} (resonance watch --kind drift)")
    if not stream.clusters:
        return
    typer.echo("")
    names, portraits = _portraits(stream.clusters)
    rows = []
    for cluster, cells in zip(stream.clusters, portraits, strict=True):
        emerged = cluster.emerged
        came = f"{emerged.time}" + (f" from {emerged.split_from}" if emerged.split_from else "") if emerged else None
        rows.append(
            ("  " * (cluster.level - 1) + cluster.id, cluster.size, cluster.nodes, cluster.records, came, *cells)
        )
    print_table(("cluster", "size", "nodes", "age in records", "emerged", *names), rows)
    more = max(len(cluster.centre) for cluster in stream.clusters) - SHOWN
    if more > 0:
        say(f"{more:,} more features: --json has them")
    if omitted := max(cluster.omitted for cluster in stream.clusters):
        which = "those with the smallest means relative to their ranges"
        say(f"up to {omitted:,} features of a cluster are left out, {which}: a message would not hold them")


def _portraits(clusters: "Sequence[inspection.InspectedCluster]") -> tuple[list[str], list[list[str]]]:
    """Return columns and cells that describe clusters: the same features for all, or for each cluster its own."""
    if any(cluster.salient for cluster in clusters):
        portraits = [", ".join(map(_salient, cluster.salient[:SHOWN])) for cluster in clusters]
        return ["most salient features (salience x weight)"], [[text] for text in portraits]
    features = list(clusters[0].centre)
    if all(features == list(cluster.centre) for cluster in clusters):
        names = features[:SHOWN]
        return names, [[place(each.centre[name], each.spread[name]) for name in names] for each in clusters]
    portraits = []
    for cluster in clusters:
        largest = sorted(cluster.centre, key=lambda name, cluster=cluster: -cluster.centre[name])[:SHOWN]  # type: ignore[misc]
        portraits.append(", ".join(f"{name} {place(cluster.centre[name], cluster.spread[name])}" for name in largest))
    return ["largest means"], [[text] for text in portraits]


def _salient(each: SalientFeature) -> str:
    return f"{each['feature']} {each['salience']:.2f}x{each['weight']:.2f}"
