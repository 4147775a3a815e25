"""Options of the commands that read files of records."""

import re
from pathlib import Path
from typing import Annotated, Final

import typer
from resonance.pipeline.cli.injection import Depends
from resonance.pipeline.errors import ConfigurationError
from resonance.pipeline.files.rows import Columns

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
    """Return the default name of the topic for a file's records."""
    stem = file.name.partition(".")[0]
    return "".join(letter if letter.isascii() and (letter.isalnum() or letter in "_-") else "-" for letter in stem)
