"""Options of commands that read files of records, and settings for files that no settings describe."""

import re
import shlex
from collections.abc import Callable, Container, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Final

import orjson
import typer
from resonance.pipeline.cli.options import Depends, given, load, load_settings, replace_on_command_line, shared
from resonance.pipeline.cli.output import say
from resonance.pipeline.errors import ConfigurationError, counted
from resonance.pipeline.files.rows import Columns
from resonance.pipeline.logs import printable

if TYPE_CHECKING:
    from resonance.pipeline.config import settings as config
    from resonance.pipeline.files import examination, notes


Map = Annotated[
    list[str] | None,
    typer.Option("--map", "-m", metavar="NAME=COLUMN", help="Take only this column, under this name; repeatable."),
]
Key = Annotated[
    list[str] | None,
    typer.Option(metavar="COLUMN", help="Column with the record's key; several: they name it together."),
]
Time = Annotated[
    list[str] | None,
    typer.Option(metavar="COLUMN", help="Column with the record's Kafka timestamp; two: a date and a time of day."),
]
TimeForm = Annotated[
    str | None,
    typer.Option(metavar="FORM", help="Format of --time, such as '%d.%m.%Y %H:%M'; %s: seconds since 1970."),
]
Names = Annotated[
    str | None,
    typer.Option(
        metavar="A,B,...", help="Names, such as id,c1..c9, for the columns of CSV without a header, or of .npy."
    ),
]
Null = Annotated[
    list[str] | None, typer.Option(metavar="TEXT", help="Read this text, such as N/A, as a missing value; repeatable.")
]
Decimal = Annotated[
    str | None, typer.Option(metavar=".|,", help="Decimal separator of CSV; by default that of its first rows.")
]
Numbers = Annotated[bool, typer.Option("--numbers", help='Read texts such as "2.5", "1,500", "12 %", "$3" as numbers.')]
Unit = Annotated[
    list[str] | None,
    typer.Option(metavar="TEXT", help="Read numbers with this unit, such as kN, behind them; repeatable."),
]
Advised = Annotated[bool, typer.Option("--yes", help="Take the options that the notes on a file advise.")]
SkipBad = Annotated[bool, typer.Option("--skip-bad", help="Leave out lines that cannot be used, and count them.")]

_SERIES: Final = re.compile(r"(.*?)([0-9]{1,5})\.\.(?:\1)?([0-9]{1,5})")


def as_columns(
    mapping: Map = None,
    key: Key = None,
    time: Time = None,
    time_form: TimeForm = None,
    names: Names = None,
    null: Null = None,
    decimal: Decimal = None,
    numbers: Numbers = False,
    unit: Unit = None,
    skip_bad: SkipBad = False,
) -> Columns:
    """Return the columns that the options choose.

    Raises `ConfigurationError`, with the correct form, for an incomplete ``--map``, for a name given twice, and for
    another decimal separator.
    """
    if decimal not in (None, ".", ","):
        raise ConfigurationError(f"--decimal {decimal}: it must be a point or a comma")
    members: dict[str, str] = {}
    for pair in mapping or ():
        name, separator, column = pair.partition("=")
        column = column if separator else name
        if not name or not column:
            raise ConfigurationError(f"--map {pair}: write it as NAME=COLUMN, or as the name of a column")
        if name in members:
            raise ConfigurationError(f"--map {pair}: {name} is given twice; leave one out")
        members[name] = column
    for option, columns in ("--key", [*(key or ())]), ("--time", [*(time or ())]):
        if len({*columns}) < len(columns):
            raise ConfigurationError(f"{option}: {columns[-1]} is given twice; leave one out")
    return Columns(
        members,
        tuple(key or ()),
        tuple(time or ()),
        time_form,
        _split(names),
        tuple(null or ()),
        decimal,
        numbers,
        tuple(unit or ()),
        skip_bad,
    )


def _split(names: str | None) -> tuple[str, ...]:
    found = () if names is None else tuple(each for name in names.split(",") for each in _named(name.strip()))
    if "" in found or len(set(found)) < len(found):
        raise ConfigurationError(f"--names {names}: each column needs a name of its own, with commas between them")
    return found


def _named(name: str) -> list[str]:
    """Return the names that one of ``--names`` stands for: ``s1..s3`` for three."""
    series = _SERIES.fullmatch(name)
    return [f"{series[1]}{number}" for number in range(int(series[2]), int(series[3]) + 1)] if series else [name]


ChosenColumns = Annotated[Columns, Depends(as_columns)]


def topic_from(file: Path) -> str:
    """Return the default name of the topic for a file's records: its name, without the suffixes of a format."""
    from resonance.pipeline.files.record_file import without_suffixes

    stem = without_suffixes(file)
    return "".join(letter if letter.isascii() and (letter.isalnum() or letter in "_-") else "-" for letter in stem)


def describes(settings: "config.Settings") -> bool:
    """Return whether the settings already say where the features stand."""
    section = settings.input
    named = section.features != type(section).model_fields["features"].default
    return bool(section.sparse is not None or named or section.format != "json")


def confirmed(note: "notes.Note") -> bool:
    """Return whether the option of a note is wanted, by a question on the terminal."""
    try:
        return typer.confirm(printable(f"  {note.remedy}: {note.option}?"), default=note.advised, err=True)
    except typer.Abort:
        raise KeyboardInterrupt from None


def examined(
    files: list[Path],
    columns: Columns,
    limit: int | None,
    taken: "Callable[[notes.Note], bool] | None",
    settings: "config.Settings",
    described: "config.Settings | None",
    chosen: str | Sequence[str] | None = None,
) -> "examination.Examination":
    """Look at the records, print what stands in their way, and look again with the options that are taken.

    Raises `ConfigurationError` for a path of the command line that no record has.
    """
    from resonance.pipeline.files import examination
    from resonance.pipeline.files.record_file import bad_line

    shown: set[str] = set()
    while True:
        found = examination.examine(
            files, columns, settings, tolerant=taken is not None, limit=limit, described=described, chosen=chosen
        )
        if found.bad and not columns.skip_bad and not found.few_are_bad:
            raise bad_line(found.bad)
        _check_paths(files[0], found, settings, given(shared.pairs, {}))
        for note in found.findings:
            # What is taken may change the notes without a remedy, such as which numbers name kinds, and an unsure key.
            is_open = not note.remedy or (note.change.key and not note.advised)
            about = "key" if note.change.key else note.about
            if about in shown or (columns != found.columns and is_open):
                continue
            shown.add(about)
            say(f"note: {note.text if note.remedy and taken is confirmed else note}")
            if note.remedy and taken is not None and taken(note):
                columns = columns.with_(note.change)
        if columns == found.columns:
            if found.bad and not columns.skip_bad:
                raise bad_line(found.bad)
            return found


def for_file(
    files: list[Path],
    columns: Columns,
    *,
    yes: bool,
    truth: str | None = None,
    otherwise: Mapping[str, Any] | None = None,
) -> tuple[Mapping[str, Any], Columns]:
    """Return the settings, by dotted name, that apply to records of files where no source has them, and the columns.

    What is found in the records is printed, and with `yes` the options that this advises are taken. A `truth` is no
    feature. `otherwise` are the name and the topics where no source has them; those of the first file are the default.

    Features of the command line stand, and the rest is found for these. A settings file that names them is
    complete, but how the file is read, such as which column is the key, is no setting and found beside it.

    Raises `ConfigurationError` where the file lacks a feature, or each record needs a key and no column gives it.
    """
    file = files[0]
    own = dict.fromkeys(("name", "input.topics"), topic_from(file))
    topic = own if otherwise is None else otherwise
    try:
        settings = load(topic)
        described = describes(load_settings(shared.config, None, own, **shared.named))
    except ConfigurationError:
        # The command reports it, unless its own options are what is missing.
        return topic, columns
    if settings.input.format != "json" or settings.has_many:
        return topic, columns
    section, by_key = settings.input, settings.stream == "key"
    chosen = (section.sparse or section.features) if describes(settings) and not described else None
    taken = (lambda note: note.advised or (by_key and bool(note.change.key))) if yes else None
    found = examined(files, columns, None, taken, settings, settings if described else None, chosen)
    if found.seen.records and describes(settings) and section.sparse is None:
        _check_features(file, found, settings)
    if found.skipped:
        among = f" among the first {counted(found.seen.records, 'record')}" if found.more else ""
        say(f"left out: {counted(found.skipped, 'bad line')}{among}")
    if by_key and not found.columns.key:
        advised = next((note.option for note in found.findings if note.change.key), None)
        way = f"{advised} (or --yes, which takes it)" if advised else "--key COLUMN (it gives each record its model)"
        raise ConfigurationError(f'{file}: no column is the key, and stream = "key" needs one: {way}')
    if found.columns != columns:
        say(f"taken: {shlex.join(found.columns.options)}")
    elif not yes and any(note.remedy and note.advised for note in found.findings):
        say("--yes takes what these notes advise")
    if described:
        return topic, found.columns
    suggestion = found.suggestion
    suggestion.flags.pop(truth or "", None)
    suggested = suggestion.settings
    if chosen is not None:
        del suggested["input.features"]
        suggested["prepare.categories"] = suggestion.categories
    elif not {"input.features", "input.sparse"} & suggested.keys():
        what = "no column holds numbers; see the notes, or name input.features" if found.seen.records else "no records"
        raise ConfigurationError(f"{file}: {what}")
    if isinstance(features := suggested.get("input.features"), list):
        paths = dict.fromkeys((*features, *settings.prepare.categories))
        suggested["input.features"] = features = [path for path in paths if path != truth]
    if features:
        say(f"input.features: {features if isinstance(features, str) else ', '.join(features)}")
    for path in ("id_path", "text_path") if chosen is None else ():
        if (taken_from := suggested.get(f"input.{path}")) and getattr(section, path) is None:
            say(f"input.{path}: {taken_from}")
    if suggestion.missing:
        say(f"{suggestion.missing} (prepare.missing)")
    return {**topic, **suggested}, found.columns


def _check_paths(
    file: Path, found: "examination.Examination", settings: "config.Settings", named: Container[str]
) -> None:
    """Refuse a path that no record has, among those of the `named` settings."""
    from resonance.pipeline.config.fields import FIELD
    from resonance.pipeline.files.described import is_there, paths_of
    from resonance.pipeline.files.rows import missing_column

    # Later lines of JSON may have what the first ones lack.
    if not found.seen.records or (found.more and ".json" in file.name):
        return
    for setting, paths in paths_of(settings).items():
        for path in paths if setting in named else ():
            if not is_there(found.seen, path):
                value = FIELD * (setting == "stream") + path
                raise ConfigurationError(f"{setting} = {value}: {missing_column(file, path, list(found.seen.columns))}")


def _check_features(file: Path, found: "examination.Examination", settings: "config.Settings") -> None:
    """Refuse features that no record has, and take a single column of the command line for a list of one."""
    features, seen = settings.input.features, found.seen
    on_line = "input.features" in given(shared.pairs, {})
    # A deployment may do without a part of its features.
    if settings.prepare.missing == "reject":
        _check_paths(file, found, settings, ("input.features",))
    if on_line and isinstance(features, str) and features in seen.columns and not seen.columns[features].kinds[list]:
        replace_on_command_line("input.features", orjson.dumps([features]).decode())
        found.chosen = found.chosen and [features]


def remedy_for(file: Path) -> str:
    """Return what helps where the settings fit none of a file's records."""
    from resonance.pipeline.config.sources import read_file

    command = f"resonance produce {shlex.quote(str(file))} --dry-run"
    if not read_file(shared.config)[0]:
        return f"settings that fit a file: {command} --save-settings resonance.toml"
    return command_with_config(f"what of the settings does not fit them: {command}", shared.config)


def command_with_config(command: str, file: Path | None) -> str:
    """Return a command that reads the settings of a file."""
    return command if file in (None, Path("resonance.toml")) else f"{command} --config {shlex.quote(str(file))}"
