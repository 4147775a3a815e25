"""``resonance topics plan | create | check | look``."""

from typing import TYPE_CHECKING, Annotated, Any

import typer
from resonance.pipeline.cli.options import CommandApp, Json, load
from resonance.pipeline.cli.output import print_json, print_line, print_table, say
from resonance.pipeline.cli.stopping import UNCHANGED, says_when_stopped
from resonance.pipeline.errors import BrokerError, ConfigurationError, counted

if TYPE_CHECKING:
    from resonance.pipeline.config import settings as config

MADE_SOME = "stopped; some topics may have been made (see `resonance topics plan`): the same command makes the rest"

Acls = Annotated[
    bool, typer.Option("--acls", help="Show the necessary rights instead, without connecting to a broker.")
]
Principal = Annotated[
    str | None,
    typer.Option(metavar="User:NAME", help="Principal to grant the rights to; defaults to the configured user."),
]
CreateInput = Annotated[
    int | None, typer.Option(min=1, metavar="N", help="Also make missing input topics, with N partitions.")
]
RegisterSchemas = Annotated[
    bool, typer.Option("--register-schemas", help="Also register the outputs' JSON Schemas at schema_registry.url.")
]

LookedAt = Annotated[str, typer.Argument(metavar="TOPIC", help="The topic to look at.")]

app = CommandApp(no_args_is_help=True, help="The topics of a deployment: plan, create, check; look at one.")


@app.command(short_help="Show the topics as they are and should be.")
@says_when_stopped(UNCHANGED)
def plan(
    acls: Acls = False,
    principal: Principal = None,
    as_json: Json = False,
) -> None:
    """Show each topic as it is and as it should be, or with --acls the necessary rights; change nothing."""
    from resonance.pipeline.kafka import acl, clients
    from resonance.pipeline.topics import acls as rights
    from resonance.pipeline.topics import kinds, report
    from resonance.pipeline.topics import topics as surveys

    settings = load()
    if principal is not None and not acls:
        raise ConfigurationError("--principal: only --acls names one; add --acls")
    client = clients.librdkafka(settings)
    if acls:
        shown = (client["bootstrap.servers"], principal or acl.principal_of(client), rights.needed(settings))
        if as_json:
            print_json(report.acl_values(*shown))
        else:
            for line in report.acl_lines(*shown):
                print_line(line)
        return
    cluster = _cluster(settings, client)
    found = surveys.survey(cluster, kinds.Topics.of(settings))
    optional = [surveys.look_at(settings, cluster, kind) for kind in kinds.OPTIONAL]
    if as_json:
        print_json(report.as_values(found, optional))
        return
    print_table(report.COLUMNS, map(report.row, (*found.all, *optional)))
    for line in report.notes(found, optional):
        print_line(line)


@app.command()
@says_when_stopped(MADE_SOME)
def create(
    create_input: CreateInput = None,
    register_schemas: RegisterSchemas = False,
    as_json: Json = False,
) -> None:
    """Make the topics that are missing.

    Topics that exist are never changed: one that does not fit is an error with the command that corrects it.
    """
    from resonance.pipeline.kafka import clients
    from resonance.pipeline.topics import kinds, output_schemas
    from resonance.pipeline.topics import topics as surveys

    settings = load()
    if register_schemas:
        output_schemas.check_registry(settings)
    cluster = _cluster(settings, clients.librdkafka(settings))
    wanted = kinds.Topics.of(settings)
    if "name" not in settings.model_fields_set:
        say(f"deployment {settings.name} (name is not set)")
    made = surveys.make_inputs(cluster, wanted, create_input) if create_input is not None else []
    found = surveys.survey(cluster, wanted)
    made += surveys.make_missing(cluster, found)
    counts = {status.topic.name: status.partitions for status in found.all}
    registered = output_schemas.register_outputs(settings) if register_schemas else {}
    if as_json:
        schemas = {"schemas": registered} if register_schemas else {}
        print_json({"made": made, "partitions": found.partitions, "topics": len(found.all), **schemas})
    else:
        for topic in made:
            print_line(f"made {topic} with {counted(counts.get(topic, found.partitions), 'partition')}")
        if not made:
            print_line(f"all {len(found.all)} topics exist")
        for subject, number in registered.items():
            print_line(f"{subject} has schema {number}")
    surveys.checked(surveys.survey(cluster, wanted))


@app.command()
@says_when_stopped(UNCHANGED)
def check(as_json: Json = False) -> None:
    """Check what a worker checks at its start.

    The topics, the settings that must fit them, and the rights of the user. Nothing is changed.
    """
    from resonance.pipeline.kafka import clients
    from resonance.pipeline.topics import kinds, start_check

    settings = load()
    found = start_check.check_start(settings, clients.librdkafka(settings), create=False)
    count = len(kinds.Topics.of(settings).all)
    if as_json:
        print_json({"fits": True, "topics": count, "partitions": found.partitions})
    else:
        print_line(f"all {count} topics fit")


@app.command(short_help="Say what a topic holds, and suggest settings.")
@says_when_stopped(UNCHANGED)
def look(topic: LookedAt, as_json: Json = False) -> None:
    """Say in which format the newest messages of a topic are, what is in them, and with which settings to read them.

    The settings are printed as a resonance.toml, all else beside it. Nothing is changed.
    """
    from resonance.pipeline.files import suggest
    from resonance.pipeline.kafka import admin, clients, log_reader
    from resonance.pipeline.topics import kinds as named
    from resonance.pipeline.topics import look as looking
    from resonance.pipeline.topics import topics as surveys

    settings = load(topics=topic)
    client, patience = clients.librdkafka(settings), settings.broker.answer_timeout
    cluster = admin.ClusterAdmin(client, patience)
    there = surveys.read_deployment(cluster, named.Topics.named([topic]), named.INPUT.operations)
    partitions = [(topic, number) for number in range(there.partitions)]
    with log_reader.LogReader(client, settings.group, patience, foreign=True) as reader:
        messages = looking.newest(reader, partitions)
    found, text, notes = looking.look(messages), "", list[str]()
    if found.suggestion is not None:
        name = settings.name if "name" in settings.model_fields_set else topic
        broker = settings.dump()["broker"]
        text = suggest.as_file(found.suggestion, topic, name=name, broker=broker, more=found.given)
        notes = [note.text for note in found.suggestion.findings]
    kinds = dict(found.kinds.most_common())
    if as_json:
        print_json({"topic": topic, "kinds": kinds, "records": found.records, "notes": notes, "settings": text or None})
        return
    say(f"the newest {counted(len(messages), 'message')} of {topic}:")
    say(*(f"  {count:,}: {kind}" for kind, count in kinds.items()), *(f"note: {note}" for note in notes))
    for line in text.splitlines():
        print_line(line)


def _cluster(settings: "config.Settings", client: dict[str, Any]) -> Any:
    from resonance.pipeline.kafka import admin

    cluster = admin.ClusterAdmin(client, settings.broker.answer_timeout, settings.topics.replication_factor)
    if cluster.embedded:
        raise BrokerError(
            f"{cluster.servers} is an embedded broker, whose topics are made by touching them; name a Kafka cluster "
            "(broker.bootstrap)"
        )
    return cluster
