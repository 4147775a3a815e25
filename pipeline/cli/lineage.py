"""``resonance lineage``."""

from typing import Annotated

import typer
from resonance.pipeline.cli.injection import CommandApp, injected
from resonance.pipeline.cli.options import Json, Outputs
from resonance.pipeline.cli.output import print_json, print_line
from resonance.pipeline.cli.stopping import UNCHANGED, says_when_stopped
from resonance.pipeline.errors import ConfigurationError
from resonance.pipeline.kafka import admin, clients, log_reader, positions
from resonance.pipeline.watch import lineage as trees
from resonance.pipeline.watch import named, naming
from resonance.schemas import AutomaticNames

OneCluster = Annotated[str, typer.Argument(metavar="CLUSTER", help="Id of the cluster, such as p0/1/3.")]

app = CommandApp()


@app.command()
@says_when_stopped(UNCHANGED)
@injected
def lineage(cluster: OneCluster, *, settings: Outputs, as_json: Json = False) -> None:
    """Show the tree of what a cluster came from and what it became, with sizes and times.

    It is read from the topic of the events, and reaches back as far as these are kept. Sizes are those of the last
    event that described a cluster.
    """
    client = clients.librdkafka(settings)
    cluster_admin = admin.ClusterAdmin(client, settings.broker.answer_timeout)
    partitions = positions.partitions_of(cluster_admin, settings.topic("cluster_events"), settings.name)
    automatic = AutomaticNames()
    with log_reader.LogReader(client, f"{settings.name}-watch", naming.SECONDS) as reader:
        lives = named.lives_of(reader, partitions, [cluster.rsplit("/", 2)[0]], automatic.apply)
        if cluster not in lives.lives:
            known = lives.lives or named.lives_of(reader, partitions).lives
            raise ConfigurationError(naming.unknown_cluster(cluster, known))
        names = named.read_names(reader, settings)
    tree = trees.tree_of(cluster, lives, names, automatic)
    if as_json:
        print_json(tree.as_json())
        return
    for line in trees.lines_of(tree):
        print_line(line, 6)
