"""``resonance replay``."""

from collections.abc import Callable
from contextlib import ExitStack
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, Annotated, Literal, get_args

import typer
from resonance.pipeline.cli.file_settings import Advised, ChosenColumns, for_file, remedy_for
from resonance.pipeline.cli.options import PLACE, CommandApp, Depends, Json, Picture, injected, load
from resonance.pipeline.cli.output import (
    footnote,
    print_incidents,
    print_json,
    print_line,
    print_table,
    records_bar,
    say,
)
from resonance.pipeline.cli.peers import show as show_peers
from resonance.pipeline.cli.stopping import UNCHANGED, SigtermAsCtrlC
from resonance.pipeline.errors import ConfigurationError, counted, nearest, some_of
from resonance.pipeline.machine import collect_rarely, cores
from resonance.pipeline.stream_keys import readable
from resonance.schemas import AlertRule, Incident

if TYPE_CHECKING:
    from resonance.pipeline.config import settings as config
    from resonance.pipeline.kafka import positions
    from resonance.pipeline.peers import peers
    from resonance.pipeline.replay import replaying
    from resonance.pipeline.replay import run as replay_run

TEXT = """Run recorded records through the models again: the same answers and events, bit for bit.

SOURCE is an input topic (without it all of input.topics) or a file: JSONL, CSV, Parquet. Options choose a range of a
topic; the models then come from the newest archive at or before it, or learn from their first record, which the output
names. Files are replayed one behind the other, as if they had been produced to the first input topic. Nothing of the
deployment is changed."""

SourceName = Annotated[str | None, typer.Argument(metavar="SOURCE", help="Topic or file.")]
More = Annotated[list[Path] | None, typer.Argument(metavar="FILE...", help="More files, behind the first.")]
From = Annotated[
    str | None,
    typer.Option("--from", metavar=PLACE, help="First record."),
]
To = Annotated[str | None, typer.Option("--to", metavar=PLACE, help="First record that is left out.")]
Last = Annotated[
    str | None, typer.Option(metavar="10m", help="Only the last 10m before the newest record (ms, s, m, h, d).")
]
Partition = Annotated[int | None, typer.Option(min=0, metavar="N", help="Only this partition.")]
Fresh = Annotated[bool, typer.Option("--fresh", help="Begin with empty models, even if there are stored ones.")]
Folder = Annotated[
    Path | None, typer.Option("--output", "-o", metavar="FOLDER", help="Write the outputs into this folder, as JSONL.")
]
ToName = Annotated[
    str | None, typer.Option(metavar="NAME", help="Produce outputs to the topics of this name: NAME.assignments, ...")
]
RulesOnly = Annotated[
    bool, typer.Option("--rules-only", help="Count how often each rule of the alerts opens, and write nothing.")
]
Partitions = Annotated[int, typer.Option(min=1, metavar="N", help="Partitions of the topic that a file stands for.")]

SHOWN = 3
"""Most streams that a note names."""

DRAWN = ("assignments", "cluster_events", "drift_events", "clusters")
"""Kinds of outputs that a picture needs."""

app = CommandApp()


def _span(begin: From = None, end: To = None, last: Last = None, partition: Partition = None) -> "positions.Span":
    from resonance.pipeline.kafka import positions

    return positions.Span.parse(begin, end, last, partition)


def _processes(
    processes: Annotated[
        int | None,
        typer.Option(min=1, metavar="N", help="Partitions to work on at once; by default one for each core."),
    ] = None,
) -> int:
    return processes or cores()


ChosenSpan = Annotated["positions.Span", Depends(_span)]
Processes = Annotated[int, Depends(_processes)]


@app.command(help=TEXT)
@injected
def replay(
    source: SourceName = None,
    more: More = None,
    *,
    span: ChosenSpan,
    fresh: Fresh = False,
    folder: Folder = None,
    to_name: ToName = None,
    rules_only: RulesOnly = False,
    picture: Picture = None,
    partitions: Partitions = 1,
    columns: ChosenColumns,
    yes: Advised = False,
    processes: Processes,
    as_json: Json = False,
) -> None:
    """Replay a topic or a file."""
    from resonance.pipeline.incidents import sign_table
    from resonance.pipeline.replay import file_peers, replaying, sinks
    from resonance.pipeline.watch import lifelines
    from resonance.pipeline.watch import picture as drawing

    if folder is not None and to_name is not None:
        raise ConfigurationError("--output and --to-name: outputs go to one place; leave one out")
    if rules_only and (folder is not None or to_name is not None):
        raise ConfigurationError("--rules-only writes nothing; leave --output and --to-name out")
    if picture is not None:
        if rules_only or to_name is not None:
            raise ConfigurationError("--picture needs the outputs in a folder; leave --rules-only and --to-name out")
        drawing.check(picture)
    file = as_file(source)
    files = [file, *(more or ())] if file is not None else []
    if more and file is None:
        raise ConfigurationError(f"{source} is a topic, and {more[0]} a file behind it: name files alone, or a topic")
    suited, columns = for_file(files, columns, yes=yes) if files else (None, columns)
    settings = load(suited) if file else load_for(source, load)
    if rules_only:
        settings = rules_alone(settings)
    output = replaying.ReplayOutput(folder, to_name)
    with ExitStack() as stack:
        stack.enter_context(SigtermAsCtrlC(_stopped(output)))
        written = output
        if folder is None and to_name is None and not rules_only:
            kinds = sign_table.FOLLOWED if picture is None else (*DRAWN, "alerts")
            written = replaying.ReplayOutput(Path(stack.enter_context(TemporaryDirectory())), kinds=kinds)
        if picture is not None and folder is None:
            settings = with_assignments(settings, "all")
        with records_bar("replay") as report:
            collect_rarely()
            if file is not None:
                if not span.whole or fresh:
                    raise ConfigurationError(
                        "--from, --to, --last, --partition and --fresh are for topics; leave them out"
                    )
                summary = replaying.replay_file(
                    settings,
                    files,
                    columns,
                    written,
                    partitions=partitions,
                    processes=processes,
                    report=report,
                )
            else:
                # Of records that are routed the answers are in what follows the routes.
                alone = source is not None and not (settings.is_rekeyed and settings.input.topics == (source,))
                inputs = (source,) if source is not None and alone else settings.logs
                summary = replaying.replay_topics(
                    settings,
                    inputs,
                    span,
                    written,
                    fresh=fresh,
                    # The counts need no models that continue those of the deployment.
                    or_fresh=rules_only,
                    processes=processes,
                    report=report,
                )
        answered = summary.records > summary.dead_letters.total()
        if picture is not None and written.folder is not None and answered:
            lives, left_out = lifelines.stream_lives(*(sinks.lines(written.folder, kind) for kind in DRAWN))
            drawing.draw(picture, lives, left_out)
        found = _incidents(written.folder, summary) if written.folder is not None else None
        unlike = None
        if files and written.folder is not None and answered:
            drifts = sinks.lines(written.folder, "drift_events")
            unlike = file_peers.compare_file(settings, files, columns, drifts, found or (), partitions=partitions)
    if rules_only and not as_json:
        show_rules(summary)
    else:
        _show(summary, output, found, unlike, of_file=file is not None, as_json=as_json)
    if picture is not None and answered:
        say(f"picture: {picture}")
    _require_answers(summary, file)


def _require_answers(summary: "replaying.Summary", file: Path | None) -> None:
    """Raise `ConfigurationError` where every record became a dead letter: the settings fit other records."""
    unusable = summary.dead_letters
    if summary.records and unusable.total() >= summary.records:
        why = ", ".join(f"{kind} {count:,}" for kind, count in unusable.most_common())
        if file is None:
            where = ", ".join(dict.fromkeys(part.topic for part in summary.parts))
            remedy = "compare input.features with a record, or say what was wrong: resonance dlq list"
        else:
            where, remedy = str(file), remedy_for(file)
        raise ConfigurationError(
            f"none of the {counted(summary.records, 'record')} of {where} could be used ({why}); {remedy}"
        )


def rules_alone(settings: "config.Settings") -> "config.Settings":
    """Return the settings without assignments, which a replay of the rules does not need.

    Raises `ConfigurationError` where every rule is off.
    """
    if not settings.raises_alerts:
        raise ConfigurationError("--rules-only: every rule is off (alerts.off); switch one on")
    return with_assignments(settings, "none")


def with_assignments(settings: "config.Settings", which: Literal["all", "none"]) -> "config.Settings":
    """Return the settings with other assignments."""
    from resonance.pipeline.config import settings as config

    return config.Settings.of({**settings.model_dump(), "output.assignments": which})


def show_rules(summary: "replaying.Summary") -> None:
    """Print how often each rule opened an alert, and how many are still open at the end."""
    _say_starts(summary)
    opened, now = summary.alerts, summary.open_alerts
    rows = [(rule, opened[rule], now[rule]) for rule in get_args(AlertRule)]
    print_table(("rule", "opened", "open at the end"), rows)
    _say_unwatched(summary)
    records = f"{counted(summary.records, 'record')} ({summary.seconds:.1f} s)"
    footnote(f"{counted(opened.total(), 'alert')} opened in {records}; nothing written")


def as_file(source: str | None) -> Path | None:
    """Return the file that a source names; None for a topic."""
    from resonance.pipeline.files import record_file

    if source is None:
        return None
    path = Path(source)
    return path if path.exists() or path.suffix.lower() in (*record_file.FORMATS, ".gz") else None


def load_for(topic: str | None, load: "Callable[..., config.Settings]") -> "config.Settings":
    """Return the settings for a `topic`, which applies where ``input.topics`` is not set.

    Raises `ConfigurationError`, which lists the input topics, for a topic that the deployment does not read.
    """
    settings = load({"input.topics": topic} if topic else None)
    if topic is not None and topic not in settings.logs:
        raise ConfigurationError(
            f"{topic} is neither a file nor an input topic of {settings.name}{nearest(topic, settings.logs)}; it "
            f"reads {', '.join(settings.input.topics)} (input.topics)"
        )
    return settings


def say_start(where: str, part: "replay_run.PartitionResult") -> None:
    """Print where the models of a partition come from, and what was left aside."""
    for note in part.notes:
        say(f"{where}: {note}")
    if part.start:
        learned = f", {counted(part.silent, 'record')} learned silently" if part.silent else ""
        say(f"{where}: {part.start}{learned}")


def _say_starts(summary: "replaying.Summary") -> bool:
    """Print where the models of each partition come from, and return whether they are of several topics."""
    several = len({part.topic for part in summary.parts}) > 1
    for part in summary.parts:
        say_start(f"{part.topic}[{part.partition}]" if several else f"partition {part.partition}", part)
    return several


def _show(
    summary: "replaying.Summary",
    output: "replaying.ReplayOutput",
    found: list[Incident] | None,
    unlike: "peers.ComparedStreams | None",
    *,
    of_file: bool,
    as_json: bool,
) -> None:
    if summary.note:
        say(summary.note)
    several = _say_starts(summary)
    if as_json:
        shown = {"output": output.name or (str(output.folder) if output.folder else None), "incidents": found or []}
        print_json(summary.as_json() | shown | ({} if unlike is None else {"peers": unlike.as_json()}))
        return
    if found:
        print_incidents(found)
    if unlike is not None and unlike.names:
        show_peers(unlike, wide=False, brief=True)
    counts = ("records", "assignments", "events", "dead letters")
    if of_file:
        # Its partitions are nothing that it has itself.
        print_table(counts, [_counts(summary)])
    else:
        rows = [
            (*((part.topic,) if several else ()), part.partition, part.begin, part.end, *_counts(part))
            for part in summary.parts
        ]
        print_table((*(("topic",) if several else ()), "partition", "from", "to", *counts), rows)
    if examples := summary.examples:
        print_line()
        names = ("source", "class", "message", "value")
        print_table(("record", *names[1:]), [[each[name] for name in names] for each in examples])
    if hint := summary.hint:
        footnote(f"hint: {hint}")
    for part in summary.parts:
        if part.warm_up:
            footnote(f"{part.topic}[{part.partition}]: {part.warm_up}; prepare.warmup_records has how many it takes")
    to = f" to {output.folder or output.name}" if output.folder or output.name else ""
    _say_unwatched(summary)
    if found == []:
        footnote("no incidents")
    footnote(_sentence(summary, to))


def _counts(of: "replaying.Summary | replay_run.Replayed") -> tuple[int, int, int, str]:
    """Return how many records, assignments, events and dead letters there were."""
    dead = ", ".join(f"{kind} {count:,}" for kind, count in sorted(of.dead_letters.items())) or "none"
    return of.records, of.assignments, of.events, dead


def _say_unwatched(summary: "replaying.Summary") -> None:
    """Print which streams have too few records for alerts and drifts."""
    from resonance.pipeline.replay import run as replay_run

    names = [readable(name, name) for part in summary.parts for name in part.unwatched]
    if names:
        footnote(
            f"too few records of {some_of(names, SHOWN)}: alerts are raised from about "
            f"{replay_run.ALERTS_FROM} of a stream on, drift is seen from {replay_run.WATCHED_FROM} on"
        )


def _incidents(folder: Path, summary: "replaying.Summary") -> list[Incident]:
    """Return what happened by the outputs of a replay in a folder, the newest first."""
    from resonance.pipeline.incidents import incidents, sign_table
    from resonance.pipeline.replay import sinks

    table = incidents.IncidentTable()
    for kind in sign_table.FOLLOWED:
        for output in sinks.lines(folder, kind):
            table.apply(kind, output)
    for part in summary.parts:
        table.reached(part.topic, part.partition, part.now / 1000)
    return table.incidents()


def _stopped(output: "replaying.ReplayOutput") -> str:
    if output.folder:
        return f"{UNCHANGED}, but {output.folder} may hold a part of the outputs"
    return f"{UNCHANGED}, but the topics of {output.name} may hold a part of the outputs" if output.name else UNCHANGED


def _sentence(summary: "replaying.Summary", to: str) -> str:
    learned = f", and learned {summary.silent:,} silently before them," if summary.silent else ""
    return (
        f"replayed {counted(summary.records, 'record')}{learned} in {summary.seconds:.1f} s "
        f"({summary.rate:,.0f} a second){to}"
    )
