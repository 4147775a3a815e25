"""``resonance topics plan | create | check``."""

from typing import TYPE_CHECKING, Annotated, Any

import typer
from resonance.pipeline.cli.options import Broker, Config, Json, Name, Set, Stream, Topics, load_settings
from resonance.pipeline.cli.output import print_json, print_table, say
from resonance.pipeline.cli.stopping import UNCHANGED, says_when_stopped
from resonance.pipeline.errors import BrokerError, ConfigurationError

if TYPE_CHECKING:
    from resonance.pipeline.config.settings import Settings

MADE_SOME = "stopped; some topics may have been made (see `resonance topics plan`): the same command makes the rest"

Rate = Annotated[float | None, typer.Option(min=0, metavar="N", help="Records a second: show the bytes a day.")]
RecordBytes = Annotated[
    float | None,
    typer.Option(min=1, metavar="N", help="Bytes of an input record; without it those of the last ones on the topic."),
]
Acls = Annotated[bool, typer.Option("--acls", help="Show the rights that are needed instead; asks no broker.")]
Principal = Annotated[
    str | None, typer.Option(metavar="User:NAME", help="Whom to give them; by default the user of the settings.")
]
CreateInput = Annotated[
    int | None, typer.Option(min=1, metavar="N", help="Make missing input topics, too, with N partitions.")
]


def add_to(app: typer.Typer) -> None:
    """Add the commands."""
    group = typer.Typer(
        help="The topics of a deployment: plan, create, check.",
        no_args_is_help=True,
        rich_markup_mode=None,
    )
    group.command()(plan)
    group.command()(create)
    group.command()(check)
    app.add_typer(group, name="topics")


@says_when_stopped(UNCHANGED)
def plan(
    config: Config = None,
    name: Name = None,
    broker: Broker = None,
    topics: Topics = None,
    settings: Set = None,
    rate: Rate = None,
    record_bytes: RecordBytes = None,
    acls: Acls = False,
    principal: Principal = None,
    as_json: Json = False,
) -> None:
    """Show the topics as they are and as wanted.

    Each topic as it is or would be made; with --rate the bytes by which it grows; with --acls the rights that are
    needed. Nothing is changed.
    """
    if principal is not None and not acls:
        raise ConfigurationError("--principal: only --acls names one; add --acls")
    if record_bytes is not None and rate is None:
        raise ConfigurationError("--record-bytes: only --rate needs them; add --rate")
    loaded = _load(config, settings, name, broker, topics)
    from resonance.pipeline.kafka.acl import principal_of  # noqa: PLC0415
    from resonance.pipeline.kafka.clients import librdkafka  # noqa: PLC0415
    from resonance.pipeline.topics import report as topic_report  # noqa: PLC0415 - imports that --help can do without
    from resonance.pipeline.topics.acls import needed  # noqa: PLC0415

    client = librdkafka(loaded)
    if acls:
        shown = (client["bootstrap.servers"], principal or principal_of(client), needed(loaded))
        if as_json:
            print_json(topic_report.acl_values(*shown))
        else:
            typer.echo("\n".join(topic_report.acl_lines(*shown)))
        return
    from resonance.pipeline.topics.kinds import Topics as Wanted  # noqa: PLC0415
    from resonance.pipeline.topics.topics import survey  # noqa: PLC0415

    found = survey(_cluster(loaded, client), Wanted.of(loaded))
    volumes, size = None, record_bytes
    if rate is not None:
        volumes, size = _volumes(loaded, client, found, rate, record_bytes)
    if as_json:
        values = topic_report.as_values(found, volumes)
        print_json(values if rate is None else {**values, "rate": rate, "record_bytes": size})
        return
    columns = topic_report.COLUMNS + (topic_report.VOLUME_COLUMNS if volumes else ())
    print_table(columns, [topic_report.row(s, volumes and volumes[s.topic.name]) for s in found.all])
    for line in topic_report.notes(found):
        typer.echo(line)
    if rate is not None:
        typer.echo(
            f"at {rate:g} records a second of {size:,.0f} bytes, of one copy and before compression; snapshots: at most"
        )


@says_when_stopped(MADE_SOME)
def create(
    config: Config = None,
    name: Name = None,
    broker: Broker = None,
    topics: Topics = None,
    settings: Set = None,
    create_input: CreateInput = None,
    as_json: Json = False,
) -> None:
    """Make the topics that are missing.

    Topics that exist are never changed: one that does not fit is an error with the command that corrects it.
    """
    loaded = _load(config, settings, name, broker, topics)
    from resonance.pipeline.kafka.clients import librdkafka  # noqa: PLC0415
    from resonance.pipeline.topics.inputs import make_inputs  # noqa: PLC0415
    from resonance.pipeline.topics.kinds import Topics as Wanted  # noqa: PLC0415
    from resonance.pipeline.topics.topics import checked, make_missing, survey  # noqa: PLC0415

    cluster = _cluster(loaded, librdkafka(loaded))
    wanted = Wanted.of(loaded)
    if "name" not in loaded.model_fields_set:
        say(f"deployment {loaded.name} (name is not set)")
    made = make_inputs(cluster, wanted, create_input) if create_input is not None else []
    found = survey(cluster, wanted)
    made += make_missing(cluster, found)
    counts = {status.topic.name: status.partitions for status in found.all}
    if as_json:
        print_json({"made": made, "partitions": found.partitions, "topics": len(found.all)})
    else:
        for topic in made:
            typer.echo(f"made {topic} with {counts.get(topic, found.partitions)} partitions")
        if not made:
            typer.echo(f"all {len(found.all)} topics exist")
    checked(survey(cluster, wanted))


@says_when_stopped(UNCHANGED)
def check(
    config: Config = None,
    name: Name = None,
    broker: Broker = None,
    topics: Topics = None,
    stream: Stream = None,
    settings: Set = None,
    as_json: Json = False,
) -> None:
    """Check what a worker checks at its start.

    The topics, the settings that must fit them, and the rights of the user. Nothing is changed.
    """
    loaded = _load(config, settings, name, broker, topics, stream)
    from resonance.pipeline.kafka.clients import faust_credentials, librdkafka  # noqa: PLC0415
    from resonance.pipeline.topics.kinds import Topics as Wanted  # noqa: PLC0415
    from resonance.pipeline.topics.start_check import check_start  # noqa: PLC0415

    faust_credentials(loaded)
    found = check_start(loaded, librdkafka(loaded), create=False)
    count = len(Wanted.of(loaded).all)
    if as_json:
        print_json({"fits": True, "topics": count, "partitions": found.partitions})
    else:
        typer.echo(f"all {count} topics fit")


def _load(
    config: Any, pairs: Any, name: str | None, broker: str | None, topics: str | None, stream: str | None = None
) -> "Settings":
    return load_settings(config, pairs, name=name, broker=broker, topics=topics, stream=stream)


def _cluster(settings: "Settings", client: dict[str, Any]) -> Any:
    from resonance.pipeline.kafka.admin import ClusterAdmin  # noqa: PLC0415

    cluster = ClusterAdmin(client, settings.broker.answer_timeout, settings.topics.replication_factor)
    if cluster.embedded:
        raise BrokerError(
            f"{cluster.servers} is an embedded broker, whose topics are made by touching them; name a Kafka cluster "
            "(broker.bootstrap)"
        )
    return cluster


def _volumes(settings: "Settings", client: dict[str, Any], found: Any, rate: float, size: float | None) -> Any:
    from resonance.pipeline.kafka.log_reader import LogReader  # noqa: PLC0415
    from resonance.pipeline.topics import volume as topic_volume  # noqa: PLC0415

    with LogReader(client, settings.group, settings.broker.answer_timeout) as reader:
        samples = topic_volume.sample(reader, found)
    if size is None:
        seen = [samples[s.topic.name].record_bytes for s in found.inputs if s.topic.name in samples]
        if not seen:
            raise BrokerError(
                f"input topic {found.inputs[0].topic.name} on {client['bootstrap.servers']} is empty, so the size of a "
                "record is not known; give it with --record-bytes"
            )
        size = sum(seen) / len(seen)
    return topic_volume.volumes(settings, found, rate, size, samples), size
