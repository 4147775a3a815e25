"""``resonance show``."""

from typing import Annotated

import typer
from resonance.pipeline.checkpoint import inspection, listing, originals
from resonance.pipeline.cli.injection import CommandApp, injected
from resonance.pipeline.cli.options import Deployment, Json
from resonance.pipeline.cli.output import print_json, print_line, say
from resonance.pipeline.cli.progress import records_bar
from resonance.pipeline.cli.stopping import UNCHANGED, says_when_stopped
from resonance.pipeline.errors import ConfigurationError
from resonance.pipeline.recovery import entry
from resonance.pipeline.watch import naming

OneCluster = Annotated[str, typer.Argument(metavar="CLUSTER", help="Id of the cluster, such as p0/1/3.")]

app = CommandApp()


@app.command()
@says_when_stopped(UNCHANGED)
@injected
def show(cluster: OneCluster, *, settings: Deployment, as_json: Json = False) -> None:
    """Show the most typical records of a cluster of late, as they stand on the input topic.

    Models keep the ids and places of three records of each cluster of the first level. What was processed since the
    newest snapshot is learned again first, as by inspect; the records are then read by their offsets.
    """
    stream = cluster.rsplit("/", 2)[0]
    with entry.opened(settings) as (source, reader):
        states = listing.read_states(source, reader)
        listing.check_stored(stream, states, settings)
        with records_bar("learning what came since the snapshot") as learned:
            (found,) = inspection.inspect(settings, reader, states, stream, learned=learned)
        clusters = {each.id: each for each in found.clusters}
        if cluster not in clusters:
            raise ConfigurationError(naming.unknown_cluster(cluster, clusters))
        records = originals.originals(reader, clusters[cluster].examples)
    if as_json:
        print_json([record.as_json(settings) for record in records])
        return
    if not records:
        say(f"no record is known to be typical of {cluster}: none came yet, or the cluster is below the first level")
    for record in records:
        where = record.example["source"]
        name = "" if record.example["id"] is None else f" {record.example['id']}"
        place = f"{where['topic']}[{where['partition']}]@{where['offset']}{name} ({record.example['score']:.3g})"
        if record.record is None:
            print_line(f"{place}: {record.missing}", 2)
            continue
        text = originals.shown(originals.value_of(record.record, settings))
        print_line(f"{place}: {text}", 2)
