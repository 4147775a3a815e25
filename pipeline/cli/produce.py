"""``resonance produce``."""

import shlex
import sys
from itertools import chain
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import orjson
import typer
from resonance.pipeline.cli.file_settings import (
    ChosenColumns,
    command_with_config,
    confirmed,
    describes,
    examined,
    topic_from,
)
from resonance.pipeline.cli.options import CommandApp, Json, given, injected, load, shared
from resonance.pipeline.cli.output import footnote, print_json, print_line, print_table, progress, say
from resonance.pipeline.cli.stopping import UNCHANGED, SigtermAsCtrlC, says_when_stopped
from resonance.pipeline.errors import ConfigurationError, InputFileError, counted, some_of
from resonance.pipeline.files.rows import FileRecord
from resonance.pipeline.json_paths import ABSENT, find, parse_path
from resonance.pipeline.machine import collect_rarely

if TYPE_CHECKING:
    from resonance.pipeline.config import settings as config
    from resonance.pipeline.files import examination
    from resonance.pipeline.files import produce as work

MOST_DEAD_LETTERS = 0.01
"""Share of the records that may be dead letters without a terminal to confirm it."""

SHOWN = 3
"""Records that a dry run shows."""

TEXT = """Produce the records of files into a topic.

A FILE is JSONL, CSV, Parquet or .npy; JSONL and CSV may be compressed (.gz). Each row becomes a JSON object. A
record goes to the partition of its key as every Kafka client would send it; without keys the partitions take turns.
Before anything is sent, the command shows what makes records unusable, with the option that helps; on a terminal it
offers to take it. Without a terminal it sends nothing if more than 1 % would be dead letters, unless --yes is given. At
the end it shows the settings with which a worker reads these records."""

Files = Annotated[
    list[Path],
    typer.Argument(
        metavar="FILE...", help="Files with one record a row, one behind the other; suffixes say the format."
    ),
]
Topic = Annotated[
    str | None,
    typer.Option(
        "--topic",
        "-t",
        metavar="TOPIC",
        help="Topic for the records; by default the first of input.topics, or the file's name.",
    ),
]
Rate = Annotated[float | None, typer.Option(min=0.001, metavar="N", help="Send at most N records a second.")]
Limit = Annotated[int | None, typer.Option(min=1, metavar="N", help="Send at most N records.")]
Create = Annotated[
    int | None,
    typer.Option("--create-partitions", min=1, metavar="N", help="Make the topic with N partitions if it is missing."),
]
Save = Annotated[
    Path | None, typer.Option("--save-settings", metavar="FILE", help="Write the settings into this new file.")
]
Yes = Annotated[
    bool,
    typer.Option("--yes", help="Take the options that the notes advise without a question, and produce in any case."),
]
DryRun = Annotated[
    bool, typer.Option("--dry-run", help="Only show the first records and the settings; this needs no broker.")
]


app = CommandApp()


@app.command(help=TEXT)
@injected
def produce(
    files: Files,
    topic: Topic = None,
    *,
    columns: ChosenColumns,
    rate: Rate = None,
    limit: Limit = None,
    create_partitions: Create = None,
    save: Save = None,
    yes: Yes = False,
    dry_run: DryRun = False,
    as_json: Json = False,
) -> None:
    """Produce the records of some files."""
    from resonance.pipeline.files import arrays, examination, several_files
    from resonance.pipeline.files import produce as work
    from resonance.pipeline.kafka import clients

    collect_rarely()
    file, names = files[0], [str(file) for file in files]
    named = ", ".join(names)
    # The file may hold labels, and the input topic must differ from labels.topic.
    settings = load({"input.topics": topic_from(file)}, topics=topic, labels__topic="none")
    target = ["--topic", topic] if topic else []
    target += ["--create-partitions", str(create_partitions)] if create_partitions else []
    topic = settings.input.topics[0]
    _check_new(save, settings)
    found = None
    described = settings if describes(settings) else None
    # Of labels the settings of the records say nothing, and export requests hold the records.
    if not settings.is_otlp and (described is None or topic != load({"input.topics": topic}).labels.topic):
        offer = None if dry_run or as_json or not _on_terminal() else confirmed
        with says_when_stopped(UNCHANGED):
            taken = (lambda note: note.advised) if yes else offer
            found = examined(files, columns, limit, taken, settings, described)
        if taken is None and not dry_run:
            _check_usable(found)
        columns = found.columns
    with several_files.SeveralFiles(files, columns) as source:
        batches = source.batches()
        first = next(batches, None)
        if first is None:
            skipped = f", and {counted(source.skipped, 'bad line')}" if source.skipped else ""
            raise InputFileError(f"{named} holds no records{skipped}; there is nothing to produce")
        if source.nested:
            inner = " within ".join(reversed(parse_path(source.nested[0])))
            say(f"note: {some_of(source.nested, 3)}: dots in names make objects, such as {inner}")
        if dry_run:
            suggestion = _suggestion(found, settings, topic, names, target)
            _show(first[:limit], suggestion, topic, as_json=as_json)
            if save or not as_json:
                next_one = ["worker"] if len(files) > 1 else ["replay", *names, *columns.options]
                _offer_settings(suggestion, save, shlex.join(["resonance", *next_one]))
            return
        batches = chain([first], batches)
        sent = examination.limited(batches, limit) if found is None else found.rest(batches, limit)
        sent = map(arrays.encoder(settings, file), sent)
        known = set() if found is None else {note.about for note in found.findings}
        left_out = {} if found is None else found.suggestion.left_out
        state = f"stopped before the broker had confirmed all: {topic} may hold a part of {named}, or all of it"
        reads = found is None or found.suggestion.time_path is not None
        with SigtermAsCtrlC(state) as stop:
            to = _target(settings, first, create_partitions, own_times=bool(columns.time), time_path_reads=reads)
            if found is not None and to.partitions > 1 and (described or found.suggestion).stream == "topic":
                one = "--create-partitions 1" if to.created else f"--topic {topic}-2 --create-partitions 1"
                say(
                    f"note: one model learns the records of {to.partitions} partitions in the order in which they are "
                    f"read: days of a backlog mix; {one} keeps their order, --key gives each key a model"
                )
            with progress(topic, limit or source.total) as draw:
                result = work.produce(
                    clients.librdkafka(settings),
                    to,
                    sent,
                    rate=rate,
                    limit=limit,
                    advanced=lambda done: draw(done if limit else source.position),
                )
        skipped_rows = source.skipped
        for note in found.findings if found else ():
            if note.about not in known:
                say(f"note: {note}")
        if back := [path for path in left_out if found and path in found.suggestion.features]:
            say(f"note: {', '.join(back)}: a feature after all, because later records differ; the settings have it")
        suggestion = _suggestion(found, settings, topic, names, target)
    if as_json:
        print_json(
            {
                "file": named,
                "topic": topic,
                "records": result.records,
                "skipped": skipped_rows,
                "bytes": result.bytes,
                "seconds": round(result.seconds, 3),
                "partitions": {str(partition): count for partition, count in enumerate(result.by_partition)},
            }
        )
    else:
        print_table(["partition", "records"], enumerate(result.by_partition))
    bad_lines = f", {counted(skipped_rows, 'bad line')} left out" if skipped_rows else ""
    how = "stopped after" if result.interrupted else "produced"
    sentence = f"{how} {counted(result.records, 'record')} of {named} on {topic} in {result.seconds:.1f} s{bad_lines}"
    footnote(sentence, as_json=as_json)
    _offer_settings(suggestion, save, "resonance worker")
    if result.interrupted:
        raise typer.Exit(stop.exit_code)


def _target(
    settings: "config.Settings",
    first: list[FileRecord],
    create_partitions: int | None,
    *,
    own_times: bool,
    time_path_reads: bool,
) -> "work.Target":
    """Return the topic, made where that is wanted; refuse records whose times it does not take."""
    from resonance.pipeline.files import produce as work
    from resonance.pipeline.kafka import admin, clients

    topic = settings.input.topics[0]
    cluster = admin.ClusterAdmin(
        clients.librdkafka(settings), settings.broker.answer_timeout, settings.topics.replication_factor
    )
    target = work.find_target(cluster, topic, create_partitions, own_times=own_times)
    if target.created:
        say(f"made topic {topic} with {counted(target.partitions, 'partition')}")
    elif create_partitions not in (None, target.partitions):
        say(f"topic {topic} is there already, with {counted(target.partitions, 'partition')}")
    work.check_times(target, first, cluster, time_path_reads=time_path_reads)
    return target


def _on_terminal() -> bool:
    return sys.stdin.isatty() and sys.stderr.isatty()


def _check_usable(found: "examination.Examination") -> None:
    """Refuse records of which more than a few would be dead letters."""
    count, all_of_them = sum(note.dead_letters for note in found.findings), found.seen.records
    if count > MOST_DEAD_LETTERS * all_of_them:
        raise ConfigurationError(
            f"up to {min(count, all_of_them):,} of {counted(all_of_them, 'record')} would be dead letters, and there "
            "is no terminal to confirm it, so nothing was produced; give the options that the notes above name, or "
            "--yes, which takes those that it can and produces the records in any case"
        )


def _suggestion(
    found: "examination.Examination | None",
    settings: "config.Settings",
    topic: str,
    names: list[str],
    target: list[str],
) -> str | None:
    """Return a settings file for the examined records; None where the settings already describe them.

    `target` are the options that name the topic.
    """
    from resonance.pipeline.files import suggest

    if found is None or found.described is not None:
        return None
    name = settings.name if settings.name != type(settings).model_fields["name"].default else topic
    dumped, own = settings.dump(), dict[str, Any]()
    for setting in given(shared.pairs, {}):
        value = find(dumped, parse_path(setting))
        if value is not ABSENT and setting not in ("name", "input.topics", "labels.topic"):
            own[setting] = value
    text = suggest.as_file(found.suggestion, topic, name=name, broker=dumped["broker"], more=own)
    if options := found.columns.options:
        text = f"# For the records of: {shlex.join(['resonance', 'produce', *names, *target, *options])}\n{text}"
    if found.more:
        text += f"\n# From the first {found.seen.records:,} records; without --dry-run all that are produced count.\n"
    return text


def _check_new(save: Path | None, settings: "config.Settings") -> None:
    """Refuse, before anything is produced, a settings file that exists, has no folder, or would have no content."""
    if save is None:
        return
    if describes(settings):
        name = "input.features" if settings.input.sparse is None else "input.sparse"
        raise ConfigurationError(
            f"--save-settings: {name} is set, so nothing is suggested; leave it out (is there a resonance.toml?)"
        )
    if save.exists():
        raise ConfigurationError(f"--save-settings {save}: it is there already; name a new file, or remove it")
    if not save.absolute().parent.is_dir():
        raise ConfigurationError(f"--save-settings {save}: there is no folder {save.parent}; make it, or name another")


def _offer_settings(suggestion: str | None, save: Path | None, command: str) -> None:
    """Print the suggested settings, or write them and print the command that reads them."""
    if suggestion is None:
        return
    if save is None:
        say("", "A resonance.toml with which `resonance worker` reads them:", "", *suggestion.split("\n"))
        return
    try:
        with save.open("x", encoding="utf-8") as file:
            file.write(suggestion)
    except OSError as error:
        say("", "A resonance.toml with which `resonance worker` reads them:", "", *suggestion.split("\n"))
        raise ConfigurationError(f"--save-settings {save}: it cannot be written ({error.strerror}); copy it") from error
    say(f"settings saved to {save}; next: {command_with_config(command, save)}")


def _show(first: list[FileRecord], suggestion: str | None, topic: str, *, as_json: bool) -> None:
    shown = [
        {
            "key": None if record.key is None else record.key.decode(errors="replace"),
            "timestamp": record.timestamp,
            "value": orjson.Fragment(record.value),
        }
        for record in first[:SHOWN]
    ]
    if as_json:
        print_json({"topic": topic, "records": shown, "settings": suggestion})
        return
    for record in first[:SHOWN]:
        key = "" if record.key is None else f"{record.key.decode(errors='replace')}: "
        print_line(key + record.value.decode(errors="replace"))
    say("", f"nothing was produced; these would be the first records on {topic}")
