"""``resonance evaluate``."""

from collections.abc import Mapping
from dataclasses import replace
from functools import partial
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer
from resonance.pipeline.cli.file_settings import Advised, ChosenColumns, for_file, remedy_for
from resonance.pipeline.cli.main import command_line
from resonance.pipeline.cli.options import CommandApp, Json, injected, load
from resonance.pipeline.cli.output import (
    footnote,
    print_incidents,
    print_json,
    print_line,
    print_table,
    records_bar,
    say,
)
from resonance.pipeline.cli.replay import ChosenSpan, Partitions, Processes, as_file, load_for, with_assignments
from resonance.pipeline.cli.stopping import UNCHANGED, says_when_stopped
from resonance.pipeline.errors import MISSED, ConfigurationError, missing_extra
from resonance.pipeline.machine import collect_rarely

if TYPE_CHECKING:
    from resonance.pipeline.config import settings as config

TEXT = """Compare engines and settings on recorded records.

SOURCE is an input topic or a file: JSONL, CSV, Parquet. Every candidate begins with empty models at the first record;
each record is assigned first and learned then. The tables have two baselines: all records in one cluster, and k-means
that is given the number of clusters. Nothing of the deployment is changed."""

SourceName = Annotated[str, typer.Argument(metavar="SOURCE", help="Topic or file.")]
Engines = Annotated[
    list[str] | None, typer.Option("--engine", "-e", metavar="NAME", help="An engine to compare; repeatable.")
]
Sweep = Annotated[
    list[str] | None,
    typer.Option(
        "--sweep", metavar="KEY=VALUE,...", help="Values of a setting to compare; several settings form a grid."
    ),
]
Truth = Annotated[
    str | None,
    typer.Option("--truth", metavar="PATH", help="Member or column with the true class or labels, or labels.topic."),
]
Shuffle = Annotated[
    int, typer.Option("--shuffle", min=0, metavar="N", help="Also evaluate N random orders: mean and spread.")
]
FailUnder = Annotated[
    list[str] | None,
    typer.Option("--fail-under", metavar="FIGURE=N", help="Exit with code 4 if the best candidate has less."),
]
FailOver = Annotated[
    list[str] | None,
    typer.Option("--fail-over", metavar="FIGURE=N", help="Exit with code 4 if the best candidate has more."),
]
Folder = Annotated[
    Path | None,
    typer.Option(
        "--output", "--report", "-o", metavar="FOLDER", help="Write report.html and report.json into this folder."
    ),
]

app = CommandApp()


@app.command(help=TEXT)
@injected
def evaluate(
    source_name: SourceName,
    *,
    engines: Engines = None,
    sweep: Sweep = None,
    truth: Truth = None,
    shuffle: Shuffle = 0,
    fail_under: FailUnder = None,
    fail_over: FailOver = None,
    folder: Folder = None,
    span: ChosenSpan,
    partitions: Partitions = 1,
    columns: ChosenColumns,
    yes: Advised = False,
    processes: Processes,
    as_json: Json = False,
) -> None:
    """Evaluate candidates on a topic or a file."""
    from resonance.pipeline.evaluate import candidates as grid
    from resonance.pipeline.evaluate import evaluation, source, summary, tables
    from resonance.pipeline.evaluate import report as reports
    from resonance.pipeline.files import arrays
    from resonance.pipeline.task.decode import unpacking

    check_extra("evaluate")
    under, over = summary.bounds_of("--fail-under", fail_under), summary.bounds_of("--fail-over", fail_over)
    file = as_file(source_name)
    suited, columns = for_file([file], columns, truth=truth, yes=yes) if file else (None, columns)

    def loaded(changes: Mapping[str, Any]) -> "config.Settings":
        named = {name.replace(".", "__"): value for name, value in changes.items()}
        given = load(suited, **named) if suited else load_for(source_name, partial(load, **named))
        return with_assignments(given, "all")

    made = grid.candidates(loaded, engines or (), grid.sweep_of(sweep or ()))
    settings = made[0].settings
    found = [replace(each, settings=unpacking.of_single_records(each.settings)) for each in made]
    truth = truth or settings.input.label_path
    if folder is not None:
        reports.make_folder(folder)
    with says_when_stopped(UNCHANGED), records_bar("evaluate") as progress:
        collect_rarely()
        records: source.Recording
        if file is not None:
            if not span.whole:
                raise ConfigurationError("--from, --to, --last and --partition are for topics; leave them out")
            settings.check_stream(partitions)
            chosen = source.with_members(columns, [truth] if truth else [])
            encode = arrays.encoder(found[0].settings, file)
            unpacker = unpacking.Unpacker(settings) if settings.is_otlp else None
            records = source.FileSource(
                file,
                chosen,
                settings.input.topics[0],
                partitions,
                encode=encode,
                unpacker=unpacker,
                remedy=remedy_for(file),
            )
        else:
            records = source.open_topic(settings, source_name, span, settings.labels.topic)
        result = evaluation.evaluate(
            found, records, truth=truth, shuffles=shuffle, processes=processes, report=progress
        )
        content = summary.document(result, source_name, command_line())
        missed = summary.missed(content, under, over)
        if folder is not None:
            reports.of_evaluation(result, content).save(folder)
    if as_json:
        print_json(content)
    else:
        shown = tables.short_names(content)
        if content["incidents"]:
            print_incidents(content["incidents"])
            print_line()
        for table in tables.tables(content):
            print_table(table.columns, [(shown.get(str(name), name), *row) for name, *row in table.rows])
            print_line()
        for name, short in shown.items():
            print_line(f"{short.partition(':')[0]}: {name}")
    for note in (*result.notes, summary.best_sentence(content)):
        footnote(note, as_json=as_json)
    if folder is not None:
        say(f"report: {folder / reports.PAGE}")
    if missed:
        say("; ".join(missed))
        raise typer.Exit(MISSED)


def check_extra(command: str) -> None:
    """Raise `ConfigurationError` where a library of the extra ``evaluate`` is not installed."""
    for module, name in {"sklearn": "scikit-learn", "matplotlib": "matplotlib", "jinja2": "Jinja2"}.items():
        if find_spec(module) is None:
            raise missing_extra(command, name, "evaluate")
