"""What several commands take, and how it becomes settings."""

import re
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer
from resonance.pipeline.errors import ConfigurationError

if TYPE_CHECKING:
    from resonance.pipeline.config.settings import Settings

SETTINGS_HELP = """Settings come from the command line, the environment (RESONANCE_INPUT__TOPICS is input.topics), a
TOML file, and defaults, in this order; `resonance settings` shows what they add up to. On the command line
--section.key VALUE, such as --engine.valley 0.5, sets any of them."""

Config = Annotated[
    Path | None,
    typer.Option(
        "--config", "-c", metavar="FILE", help="Settings file; by default resonance.toml, where there is one."
    ),
]
Set = Annotated[
    list[str] | None,
    typer.Option("--set", "-s", metavar="KEY=VALUE", help="Any setting, such as engine.valley=0.5; repeatable."),
]
Name = Annotated[
    str | None, typer.Option(metavar="NAME", help="Name of the deployment, from which group and topics derive.")
]
Broker = Annotated[
    str | None, typer.Option(metavar="HOST:PORT,...", help="Kafka brokers to ask first (broker.bootstrap).")
]
Topics = Annotated[str | None, typer.Option("--topics", metavar="TOPIC,...", help="Input topics (input.topics).")]
Stream = Annotated[
    str | None, typer.Option(metavar="partition|key|topic|field:PATH", help="Which records share one model (stream).")
]
OPTIONS = {"broker": "broker.bootstrap", "topics": "input.topics"}
"""Settings whose option has another name."""

Json = Annotated[bool, typer.Option("--json", help="For machines: JSON instead of text.")]


def load_settings(
    config: Path | None, pairs: Sequence[str] | None, otherwise: Mapping[str, Any] | None = None, **named: Any
) -> "Settings":
    """Return the settings of a command.

    Parameters
    ----------
    config : Path or None
        What ``--config`` gave.
    pairs : sequence of str or None
        What ``--set`` gave.
    otherwise : mapping, optional
        Settings by dotted name that count where no source has them.
    **named : object
        Settings that have an option of their own, by its name (`OPTIONS`), or by theirs with ``__`` for the dot; None
        where it was not given.

    Raises
    ------
    ConfigurationError
        Naming setting, value, what is allowed, and what to do.
    """
    from resonance.pipeline.config.settings import Settings  # noqa: PLC0415 - seconds of imports that --help can do without

    values = {OPTIONS.get(name, name.replace("__", ".")): value for name, value in named.items()}
    return Settings.load(config, given(pairs, values), otherwise)


def given(pairs: Sequence[str] | None, named: Mapping[str, Any]) -> dict[str, Any]:
    """Return the settings of a command line: ``--set`` and the options of their own.

    Raises
    ------
    ConfigurationError
        Something that is not ``key=value``, or a setting given twice.
    """
    flags = {name: value for name, value in named.items() if value is not None}
    for pair in pairs or ():
        key, separator, value = pair.partition("=")
        key = key.strip()
        if not separator or not key:
            # Of what cannot be read only the name: behind it may stand a password.
            shown = re.match(r"[\w.-]*", key)
            raise ConfigurationError(
                f"--set {shown[0] if shown else ''}: write it as key=value, such as --set engine.valley=0.5"
            )
        if key in flags:
            raise ConfigurationError(f"--set {key}: it is given twice on the command line; leave one out")
        flags[key] = value.strip()
    return flags
