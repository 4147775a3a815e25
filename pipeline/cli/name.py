"""``resonance name``."""

from typing import Annotated

import typer
from resonance.pipeline.cli.injection import CommandApp, injected
from resonance.pipeline.cli.options import Json, Outputs
from resonance.pipeline.cli.output import print_json, print_line, print_table, say
from resonance.pipeline.cli.stopping import UNCHANGED, says_when_stopped
from resonance.pipeline.config import settings as config
from resonance.pipeline.errors import ConfigurationError
from resonance.pipeline.kafka import clients, log_reader
from resonance.pipeline.watch import named, naming

OneCluster = Annotated[str | None, typer.Argument(metavar="[CLUSTER]", help="Id of the cluster, such as p0/1/3.")]
Text = Annotated[str | None, typer.Argument(metavar="[NAME]", help="Its name, one line.")]
Remove = Annotated[bool, typer.Option("--remove", help="Take its name away.")]

app = CommandApp()


@app.command()
@says_when_stopped(UNCHANGED)
@injected
def name(
    cluster: OneCluster = None, text: Text = None, remove: Remove = False, *, settings: Outputs, as_json: Json = False
) -> None:
    """Name a cluster for all who look at it; without arguments, list the names.

    watch, inspect, lineage, alerts and pictures show it. A cluster that splits from a named one is called after it. No
    model and no output depends on a name.
    """
    if cluster is None:
        if remove:
            raise ConfigurationError("--remove: whose name? resonance name CLUSTER --remove")
        _list(settings, as_json=as_json)
        return
    if (text is None) != remove:
        raise ConfigurationError(
            f'{cluster}: give a name or --remove, such as resonance name {cluster} "night batch"'
            if text is None
            else "--remove takes no name: leave one of the two out"
        )
    naming.give(settings, cluster, text)
    if as_json:
        print_json({"cluster": cluster, "name": text})
    else:
        print_line(f"{cluster} has no name of its own any more" if text is None else f"{cluster} is named {text}")


def _list(settings: "config.Settings", *, as_json: bool) -> None:
    client = clients.librdkafka(settings)
    with log_reader.LogReader(client, f"{settings.name}-watch", naming.SECONDS) as reader:
        names = named.read_names(reader, settings)
    lives = names.lineage.lives
    rows = []
    for cluster, given in sorted(names.given.items()):
        life = lives.get(cluster)
        rows.append((cluster, given, life.end if life else None, life.heir if life else None))
    if as_json:
        columns = ("cluster", "name", "ended", "heir")
        print_json([dict(zip(columns, row, strict=True)) for row in rows])
    elif rows:
        print_table(["cluster", "name", "ended", "goes on as"], rows)
    else:
        say('no cluster has a name; give one: resonance name p0/1/3 "night batch"')
