"""``resonance bootstrap``."""

from typing import Annotated

import typer
from resonance.pipeline.cli.file_options import Key, Map, Null, SkipBad, Time, as_columns
from resonance.pipeline.cli.options import SETTINGS_HELP, Broker, Config, Json, Name, Set, Stream, Topics
from resonance.pipeline.cli.output import print_json, print_table, say
from resonance.pipeline.cli.replay import Processes, as_file, load_for
from resonance.pipeline.cli.stopping import says_when_stopped
from resonance.pipeline.errors import ConfigurationError

TEXT = f"""Learn recorded data silently, and leave models from which workers go on: no event of the past is emitted.

SOURCE is an input topic (without it all of input.topics) or a file: JSONL, CSV, Parquet. Of a topic everything up to
--to is learned, and workers go on at the record behind it. A file is learned as if its records stood before those of
the first input topic, which workers then read from its beginning (or where `start` says). The first record
that is emitted of a stream lists its clusters.

The deployment must be new, and no worker may run. Snapshots, archive and offsets are written at once.

{SETTINGS_HELP}"""

STOPPED = (
    "stopped; what is learned is written at the very end, all at once: `resonance inspect` shows whether it is there, "
    "and without it this can be done again"
)

SourceName = Annotated[str | None, typer.Argument(metavar="SOURCE", help="Topic or file.")]
To = Annotated[
    str | None,
    typer.Option("--to", metavar="OFFSET|TIME|-10m", help="Of topics: first record that is left to the workers."),
]


def add_to(app: typer.Typer) -> None:
    """Add the command."""
    app.command(help=TEXT, short_help="Learn recorded data silently, to begin with.")(bootstrap)


def bootstrap(
    source: SourceName = None,
    end: To = None,
    mapping: Map = None,
    key: Key = None,
    time: Time = None,
    null: Null = None,
    skip_bad: SkipBad = False,
    processes: Processes = None,
    config: Config = None,
    name: Name = None,
    broker: Broker = None,
    topics: Topics = None,
    stream: Stream = None,
    settings: Set = None,
    as_json: Json = False,
) -> None:
    """Learn recorded data."""
    from dataclasses import asdict  # noqa: PLC0415 - imports that --help can do without

    from resonance.pipeline.cli.progress import records_bar  # noqa: PLC0415
    from resonance.pipeline.kafka.ranges import Span  # noqa: PLC0415
    from resonance.pipeline.machine import collect_rarely, cores  # noqa: PLC0415
    from resonance.pipeline.replay import bootstrapping  # noqa: PLC0415

    span = Span.parse(end=end)
    file = as_file(source)
    if file is not None and end is not None:
        raise ConfigurationError("--to is for topics: a file is learned to its end; leave it out")
    topic = None if file else source
    loaded = load_for(topic, config, settings, name, broker, topics, stream)
    loaded.check_local(
        "resonance bootstrap",
        "what is learned silently would leave no messages for the subtrees; let workers read the topic from its "
        "beginning (start = earliest), or choose hierarchy = local",
    )
    inputs = (topic,) if topic else loaded.input.topics
    what = inputs if file is None else bootstrapping.FromFile(file, as_columns(mapping, key, time, null), skip_bad)
    with says_when_stopped(STOPPED), records_bar("bootstrap") as report:
        collect_rarely()
        learned = bootstrapping.bootstrap(loaded, what, span, processes=processes or cores(), report=report)
    records = sum(part.records for part in learned)
    if as_json:
        print_json({"group": loaded.group, "records": records, "partitions": [asdict(part) for part in learned]})
    else:
        names = ("topic", "partition", "records", "streams", "clusters", "dead_letters", "offset")
        rows = [[getattr(part, each) for each in names] for part in learned]
        print_table([*(each.replace("_", " ") for each in names[:-1]), "workers go on at"], rows)
    without = [f"{part.topic}[{part.partition}]" for part in learned if not part.archived]
    if without:
        say(f"no archive of {', '.join(without)} was written: it cannot be replayed from there")
    say(f"learned {records:,} records silently; `resonance worker` goes on as group {loaded.group}")
