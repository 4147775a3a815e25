"""Options that several commands share, and how they become settings."""

import re
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Annotated, Any

import typer
from resonance.pipeline.cli.injection import Depends, injected
from resonance.pipeline.config import settings as configuration
from resonance.pipeline.errors import ConfigurationError

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
    str | None, typer.Option(metavar="HOST:PORT,...", help="Kafka brokers to connect to first (broker.bootstrap).")
]
Topics = Annotated[str | None, typer.Option("--topics", metavar="TOPIC,...", help="Input topics (input.topics).")]
Stream = Annotated[
    str | None, typer.Option(metavar="partition|key|topic|field:PATH", help="Which records share one model (stream).")
]
Json = Annotated[bool, typer.Option("--json", help="For machines: JSON instead of text.")]
EachAlert = Annotated[
    bool, typer.Option("--each", help="A line for each alert, also where many streams have alike ones.")
]
Picture = Annotated[
    Path | None,
    typer.Option("--picture", metavar="FILE.png", help="Draw the lives of the clusters, and what sets each apart."),
]

OPTIONS = {"broker": "broker.bootstrap", "topics": "input.topics"}
"""Settings whose option has another name."""


def load_settings(
    config: Path | None, pairs: Sequence[str] | None, otherwise: Mapping[str, Any] | None = None, **named: Any
) -> "configuration.Settings":
    """Return the settings of a command from ``--config``, from ``--set`` (`pairs`), and from options of their own.

    The last are `named` by option (`OPTIONS`), or by setting with ``__`` for the dot; None counts as not given.
    `otherwise` has settings, by dotted name, that apply where no source has them.
    """
    values = {OPTIONS.get(name, name.replace("__", ".")): value for name, value in named.items()}
    return configuration.Settings.load(config, given(pairs, values), otherwise)


def _loader(
    config: Config = None,
    name: Name = None,
    broker: Broker = None,
    topics: Topics = None,
    stream: Stream = None,
    pairs: Set = None,
) -> "Callable[..., configuration.Settings]":
    return partial(load_settings, config, pairs, name=name, broker=broker, topics=topics, stream=stream)


Loader = Annotated["Callable[..., configuration.Settings]", Depends(_loader)]
"""`load_settings` with the options of a deployment, for a command that chooses settings by its other options."""


@injected
def _stream_settings(load: Loader) -> "configuration.Settings":
    return load()


def _settings(
    config: Config = None, name: Name = None, broker: Broker = None, topics: Topics = None, pairs: Set = None
) -> "configuration.Settings":
    return load_settings(config, pairs, name=name, broker=broker, topics=topics)


def _output_settings(
    config: Config = None, name: Name = None, broker: Broker = None, topics: Topics = None, pairs: Set = None
) -> "configuration.Settings":
    # Where the outputs are follows from the name of the deployment alone.
    return load_settings(config, pairs, {"input.topics": ["any"]}, name=name, broker=broker, topics=topics)


Outputs = Annotated["configuration.Settings", Depends(_output_settings)]
"""Settings of a command that reads outputs; it needs no setting of the input."""

StreamDeployment = Annotated["configuration.Settings", Depends(_stream_settings)]
"""Settings of a command on a deployment."""

Deployment = Annotated["configuration.Settings", Depends(_settings)]
"""The same without ``--stream``, for commands that need no setting of that name."""


def given(pairs: Sequence[str] | None, named: Mapping[str, Any]) -> dict[str, Any]:
    """Return the settings of a command line: from ``--set``, and from options of their own.

    Raises `ConfigurationError`, with what to do, for what is not ``key=value`` and for a setting given twice.
    """
    flags = {name: value for name, value in named.items() if value is not None}
    for pair in pairs or ():
        key, separator, value = pair.partition("=")
        key = key.strip()
        if not separator or not key:
            # Show only the name of what cannot be read, because a password may follow it.
            shown = re.match(r"[\w.-]*", key)
            raise ConfigurationError(
                f"--set {shown[0] if shown else ''}: write it as key=value, such as --set engine.valley=0.5"
            )
        if key in flags:
            raise ConfigurationError(f"--set {key}: it is given twice on the command line; leave one out")
        flags[key] = value.strip()
    return flags
