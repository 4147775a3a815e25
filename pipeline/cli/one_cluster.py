"""What ``resonance inspect`` prints of one cluster: its lineage, its typical records, its name."""

from resonance.pipeline.cli.options import load, load_outputs
from resonance.pipeline.cli.output import print_json, print_line, print_table, records_bar, say
from resonance.pipeline.errors import ConfigurationError
from resonance.schemas import AutomaticNames, ClusterTable
from resonance.schemas.common import place_text


def show_lineage(cluster: str, *, as_json: bool) -> None:
    """Print the tree of what a cluster came from and what it became, as far as the topic of the events reaches."""
    from resonance.pipeline.kafka import admin, clients, log_reader, positions
    from resonance.pipeline.watch import lineage as trees
    from resonance.pipeline.watch import named, naming

    settings = load_outputs()
    client = clients.librdkafka(settings)
    cluster_admin = admin.ClusterAdmin(client, settings.broker.answer_timeout)
    partitions = positions.partitions_of(cluster_admin, settings.topic("cluster_events"), settings.name)
    table = ClusterTable(strict=False)
    automatic = AutomaticNames(table)
    with log_reader.LogReader(client, f"{settings.name}-watch", naming.SECONDS) as reader:
        for event in named.stored_events(reader, partitions, [cluster.rsplit("/", 2)[0]]):
            automatic.apply(event)
        if cluster not in table.lives:
            for event in () if table.lives else named.stored_events(reader, partitions):
                table.apply(event)
            raise ConfigurationError(naming.unknown_cluster(cluster, table.lives))
        names = named.read_names(reader, settings)
    tree = trees.tree_of(cluster, table, names, automatic)
    if as_json:
        print_json(tree.as_json())
        return
    for line in trees.lines_of(tree):
        print_line(line, 6)


def show_records(cluster: str, *, as_json: bool) -> None:
    """Print the most typical records of a cluster of late; what came since the newest snapshot is learned first."""
    from resonance.pipeline.inspect import inspection, listing, originals
    from resonance.pipeline.recovery import entry
    from resonance.pipeline.watch import naming

    settings = load()
    stream = cluster.rsplit("/", 2)[0]
    with entry.opened(settings) as (source, reader):
        states = listing.read_states(source, reader)
        listing.check_stored(stream, states, settings)
        with records_bar("learning what came since the snapshot") as learned:
            (found,) = inspection.inspect(settings, reader, states, stream, learned=learned)
        clusters = {each.id: each for each in found.clusters}
        if cluster not in clusters:
            raise ConfigurationError(naming.unknown_cluster(cluster, clusters))
        records = originals.originals(reader, clusters[cluster].examples, settings)
    if as_json:
        print_json([record.as_json(settings) for record in records])
        return
    if not records:
        say(f"no record is known to be typical of {cluster}: none came yet, or the cluster is below the first level")
    for record in records:
        where = record.example["source"]
        name = "" if record.example["id"] is None else f" {record.example['id']}"
        place = f"{place_text(where)}{name} ({record.example['score']:.3g})"
        if record.record is None:
            print_line(f"{place}: {record.missing}", 2)
            continue
        text = originals.shown(originals.value_of(record.record, settings))
        print_line(f"{place}: {text}", 2)


def give_name(cluster: str, name: str, *, as_json: bool) -> None:
    """Give a cluster a name, or take it away where the name is empty."""
    from resonance.pipeline.watch import naming

    naming.give(load_outputs(), cluster, name or None)
    if as_json:
        print_json({"cluster": cluster, "name": name or None})
    else:
        print_line(f"{cluster} is named {name}" if name else f"{cluster} has no name of its own any more")


def list_names(*, as_json: bool) -> None:
    """Print the names that people gave, and what became of the clusters."""
    from resonance.pipeline.kafka import clients, log_reader
    from resonance.pipeline.watch import named, naming

    settings = load_outputs()
    with log_reader.LogReader(clients.librdkafka(settings), f"{settings.name}-watch", naming.SECONDS) as reader:
        names = named.read_names(reader, settings)
    lives = names.table.lives
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
        say('no cluster has a name; give one: resonance inspect p0/1/3 --as "night batch"')
