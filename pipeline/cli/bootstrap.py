"""``resonance bootstrap``."""

from collections.abc import Iterable, Mapping
from dataclasses import asdict
from typing import TYPE_CHECKING, Annotated, Any

import orjson
import typer
from resonance.pipeline.cli.file_settings import Advised, ChosenColumns, for_file
from resonance.pipeline.cli.main import command_line
from resonance.pipeline.cli.options import PLACE, CommandApp, Json, injected, load, shared
from resonance.pipeline.cli.output import footnote, print_json, print_table, records_bar, say
from resonance.pipeline.cli.replay import Processes, SourceName, as_file, load_for
from resonance.pipeline.cli.stopping import says_when_stopped
from resonance.pipeline.errors import ConfigurationError, counted
from resonance.pipeline.json_paths import find, parse_path
from resonance.pipeline.machine import collect_rarely

if TYPE_CHECKING:
    from resonance.pipeline.config import settings as config

TEXT = """Learn recorded data silently, and leave models from which workers go on: no event of the past is emitted.

SOURCE is an input topic (without it all of input.topics) or a file: JSONL, CSV, Parquet. Of a topic everything up to
--to is learned, and workers go on at the record behind it. A file is learned as if its records stood before those of
the first input topic, which workers then read from its beginning (or where `start` says). The first record that is
emitted of a stream lists its clusters. Re-keyed streams learn several partitions in the order of their timestamps.

The deployment must be new, and no worker may run. Snapshots, archive and offsets are written at once."""

STOPPED = (
    "stopped; what is learned is written at the very end, all at once: `resonance inspect` shows whether it is there, "
    "and without it this can be done again"
)

To = Annotated[
    str | None,
    typer.Option("--to", metavar=PLACE, help="First record of a topic that is left to the workers."),
]


app = CommandApp()


@app.command(help=TEXT)
@injected
def bootstrap(
    source: SourceName = None,
    end: To = None,
    *,
    columns: ChosenColumns,
    yes: Advised = False,
    processes: Processes,
    as_json: Json = False,
) -> None:
    """Learn recorded data."""
    from resonance.pipeline.kafka import positions
    from resonance.pipeline.replay import bootstrapping

    span = positions.Span.parse(end=end)
    file = as_file(source)
    if file is not None and end is not None:
        raise ConfigurationError("--to is for topics: a file is learned to its end; leave it out")
    if file is not None and load({"input.topics": "-"}).input.topics == ("-",):
        raise ConfigurationError(
            f"input.topics is not set: what is learned of {file} is for workers that read a topic; name it, --topics "
            f"TOPIC; resonance replay {file} shows what is found in it, and needs none"
        )
    topic = None if file else source
    suited: Mapping[str, Any] = {"input.topics": topic} if topic else {}
    if file is not None:
        found, columns = for_file([file], columns, yes=yes, otherwise={})
        # Without a key, which records share a model is the deployment's choice.
        suited = {name: value for name, value in found.items() if (name, value) != ("stream", "topic")}
    settings = load(suited) if file else load_for(topic, load)
    settings.check_local(
        "resonance bootstrap",
        "what is learned silently would leave no messages for the subtrees; let workers read the topic from its "
        "beginning (start = earliest), or choose hierarchy = local",
    )
    inputs = (topic,) if topic else settings.input.topics
    what = inputs if file is None else bootstrapping.FromFile(file, columns)
    with says_when_stopped(STOPPED), records_bar("bootstrap") as report:
        collect_rarely()
        learned = bootstrapping.bootstrap(settings, what, span, processes=processes, report=report)
    records = sum(part.records for part in learned)
    if as_json:
        print_json({"group": settings.group, "records": records, "partitions": [asdict(part) for part in learned]})
    else:
        names = ("topic", "partition", "records", "streams", "clusters", "dead_letters", "offset")
        rows = [[getattr(part, each) for each in names] for part in learned]
        print_table([*(each.replace("_", " ") for each in names[:-1]), "workers go on at"], rows)
    command = _worker(settings, suited)
    sentence = f"learned {counted(records, 'record')} silently; `{command}` goes on as group {settings.group}"
    footnote(sentence, as_json=as_json)
    without = [f"{part.topic}[{part.partition}]" for part in learned if not part.archived]
    if without:
        say(f"no archive of {', '.join(without)} was written: it cannot be replayed from there")


def _worker(settings: "config.Settings", suited: Iterable[str]) -> str:
    """Return the command that goes on, with the options of this one and the settings that `suited` the source."""
    dumped = settings.model_dump()
    values = {name: find(dumped, parse_path(name)) for name in suited}
    texts = {name: each if isinstance(each, str) else orjson.dumps(each).decode() for name, each in values.items()}
    return command_line(["worker", *shared.with_more(texts)])
