"""Options that several commands share, and how they become settings, or other values of a command."""

import inspect
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial, wraps
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Final, TypeVar

import typer
from resonance.pipeline.errors import ConfigurationError
from resonance.pipeline.stream_keys import stream_id

if TYPE_CHECKING:
    from resonance.pipeline.config import settings as configuration


T = TypeVar("T")

CommandApp: Final = partial(typer.Typer, rich_markup_mode=None, add_completion=False)
"""Makes the ``app`` of a command's module."""


@dataclass(frozen=True, slots=True)
class Depends:
    """Annotates a parameter with the function that makes its value; the function's parameters are the options."""

    make: Callable[..., Any]


def injected(command: Callable[..., T]) -> Callable[..., T]:
    """Return a command with the options of the functions of `Depends` in the places of the values they make."""
    makers: dict[str, Callable[..., Any]] = {}
    options: list[inspect.Parameter] = []
    for parameter in inspect.signature(command).parameters.values():
        own = [parameter]
        for mark in getattr(parameter.annotation, "__metadata__", ()):
            if isinstance(mark, Depends):
                makers[parameter.name] = mark.make
                own = [*inspect.signature(mark.make).parameters.values()]
        options += [option.replace(kind=inspect.Parameter.KEYWORD_ONLY) for option in own]

    @wraps(command)
    def run(**given: Any) -> T:
        for name, make in makers.items():
            given[name] = make(**{option: given.pop(option) for option in inspect.signature(make).parameters})
        return command(**given)

    run.__signature__ = inspect.Signature(options)  # type: ignore[attr-defined]
    run.__annotations__ = {option.name: option.annotation for option in options}
    return run


SHARED_HELP = "Settings: --config, --name, --broker, --topics, --set, --section.key VALUE (resonance --help)."

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
    str | None,
    typer.Option(metavar="NAME", help="Name of the deployment, from which those of group and topics derive."),
]
Broker = Annotated[
    str | None, typer.Option(metavar="HOST:PORT,...", help="Kafka brokers to connect to first (broker.bootstrap).")
]
Topics = Annotated[str | None, typer.Option("--topics", metavar="TOPIC,...", help="Input topics (input.topics).")]
Json = Annotated[bool, typer.Option("--json", help="Print JSON instead of text.")]
Streams = Annotated[
    list[str] | None,
    typer.Option("--stream", parser=stream_id, metavar="STREAM", help="Only of this stream; repeatable."),
]
PLACE = "earliest|latest|OFFSET|TIME|-10m"
"""What every option takes that names a place in a log."""
Picture = Annotated[
    Path | None,
    typer.Option("--picture", metavar="FILE.png", help="Draw the lives of the clusters, and what sets each apart."),
]

OPTIONS = {"broker": "broker.bootstrap", "topics": "input.topics"}
"""Settings whose option has another name."""


@dataclass(slots=True)
class SharedOptions:
    """The options of every command, as they were given."""

    config: Path | None = None
    pairs: list[str] | None = None
    named: Mapping[str, str | None] = field(default_factory=dict)
    """Those that stand for a setting (`OPTIONS`)."""

    def with_more(self, settings: Mapping[str, str]) -> list[str]:
        """Return the options as the words of another command, and some settings that they do not give."""
        named = {OPTIONS.get(name, name): value for name, value in self.named.items()}
        every = {**settings, **given(self.pairs, named)}
        config = ["--config", str(self.config)] if self.config else []
        return [*config, *(word for name, value in every.items() for word in ("--set", f"{name}={value}"))]


shared = SharedOptions()

SHARED_NAMES = ("--config", "--name", "--broker", "--topics", "--set")
"""Options of every command, which may stand anywhere on its line."""


def load_settings(
    config: Path | None, pairs: Sequence[str] | None, otherwise: Mapping[str, Any] | None = None, **named: Any
) -> "configuration.Settings":
    """Return the settings of a command from ``--config``, from ``--set`` (`pairs`), and from options of their own.

    The last are `named` by option (`OPTIONS`), or by setting with ``__`` for the dot; None counts as not given.
    `otherwise` has settings, by dotted name, that apply where no source has them.
    """
    from resonance.pipeline.config import settings as configuration

    values = {OPTIONS.get(name, name.replace("__", ".")): value for name, value in named.items()}
    return configuration.Settings.load(config, given(pairs, values), otherwise)


def load(otherwise: Mapping[str, Any] | None = None, **named: Any) -> "configuration.Settings":
    """Return the settings that the shared options and those of the command give, as `load_settings` does."""
    own = {name: value for name, value in named.items() if value is not None}
    return load_settings(shared.config, shared.pairs, otherwise, **{**shared.named, **own})


def replace_on_command_line(setting: str, value: str) -> None:
    """Give a setting of the command line another value."""
    others = [pair for pair in shared.pairs or () if pair.partition("=")[0].strip() != setting]
    shared.pairs = [*others, f"{setting}={value}"]


def check_unused(command: str) -> None:
    """Raise `ConfigurationError` where options were given that only matter to a deployment."""
    if shared != SharedOptions(named=dict.fromkeys(shared.named)):
        raise ConfigurationError(f"{command} reads no settings of a deployment: leave out --config, --name, --set ...")


def load_outputs() -> "configuration.Settings":
    """Return the settings of a command that reads outputs, which follow from the name of the deployment alone."""
    return load({"input.topics": ["any"]})


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
