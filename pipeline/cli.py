"""The command line."""

import os
import re
import sys
from collections.abc import Iterator, Mapping, Sequence
from importlib.metadata import version
from pathlib import Path
from typing import Annotated, Any, NoReturn

import orjson
import typer
from resonance.pipeline.errors import ConfigurationError, ResonanceError

app = typer.Typer(
    name="resonance",
    help="Stream clustering on Kafka: stable clusters and their life events, exactly once.",
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    rich_markup_mode=None,
    add_completion=False,
    context_settings={"help_option_names": ["-h", "--help"]},
)

SETTINGS_HELP = """Settings come from the command line, the environment (RESONANCE_INPUT__TOPICS is input.topics), a
TOML file, and defaults, in this order; `resonance settings` shows what they add up to. On the command line
--section.key VALUE, such as --engine.lambda 28, sets any of them."""

Config = Annotated[
    Path | None,
    typer.Option("--config", "-c", metavar="FILE", help="Settings file; without it resonance.toml, if there."),
]
Set = Annotated[
    list[str] | None,
    typer.Option("--set", "-s", metavar="KEY=VALUE", help="Any setting, such as engine.lambda=28; repeatable."),
]
Name = Annotated[str | None, typer.Option(help="Name of the deployment: group and topics derive from it.")]
Broker = Annotated[str | None, typer.Option(metavar="HOST:PORT,...", help="Kafka brokers to ask first.")]
Topics = Annotated[str | None, typer.Option(metavar="TOPIC,...", help="Input topics.")]
Stream = Annotated[str | None, typer.Option(metavar="partition|key", help="Which records share one model.")]
Mode = Annotated[
    str | None, typer.Option("--delivery", metavar="exactly_once|at_least_once", help="How outputs count.")
]
WorkerId = Annotated[str | None, typer.Option(help="Name of this worker, unique in the deployment.")]
WebPort = Annotated[int | None, typer.Option(help="Port of the health pages, on this machine only.")]
Resume = Annotated[
    bool, typer.Option("--resume-from-snapshot", help="Go on where the snapshots end: the group's offsets are lost.")
]
Reset = Annotated[bool, typer.Option("--reset", help="Forget models and offsets; begin anew where the log begins.")]
NewVersion = Annotated[bool, typer.Option("--new-version", help="Begin new models where the group stands.")]
LogLevel = Annotated[str | None, typer.Option(metavar="debug|info|warning|error", help="Least serious log lines.")]


@app.callback(invoke_without_command=True)
def root(
    show_version: Annotated[bool, typer.Option("--version", help="Show the version and exit.")] = False,
) -> None:
    """Show what there is."""
    if show_version:
        typer.echo(f"resonance {version('resonance-streams')}")
        raise typer.Exit


@app.command(help=f"Run a worker until SIGTERM or Ctrl-C.\n\n{SETTINGS_HELP}")
def worker(
    config: Config = None,
    name: Name = None,
    broker: Broker = None,
    topics: Topics = None,
    stream: Stream = None,
    delivery: Mode = None,
    worker_id: WorkerId = None,
    web_port: WebPort = None,
    log_level: LogLevel = None,
    settings: Set = None,
    resume_from_snapshot: Resume = False,
    reset: Reset = False,
    new_version: NewVersion = False,
) -> None:
    """Run a worker."""
    from resonance.pipeline import stops  # noqa: PLC0415 - as below

    asked = {stops.RESUME: resume_from_snapshot, stops.RESET: reset, stops.NEW_VERSION: new_version}
    mending = [command for command, given_ in asked.items() if given_]
    if len(mending) > 1:
        raise ConfigurationError(f"{' and '.join(mending)}: each gives up something else; choose one")
    flags = given(
        settings,
        {
            "name": name,
            "broker.bootstrap": broker,
            "input.topics": topics,
            "stream": stream,
            "delivery.mode": delivery,
            "worker.id": worker_id,
            "worker.web_port": web_port,
            "worker.log_level": log_level,
        },
    )
    from resonance.pipeline import worker as process  # noqa: PLC0415 - seconds of imports that --help can do without
    from resonance.pipeline.settings import Settings  # noqa: PLC0415

    end(process.run(Settings.load(config, flags), *mending))


@app.command("settings", help=f"Show the settings a worker would have, secrets masked.\n\n{SETTINGS_HELP}")
def show_settings(
    config: Config = None,
    settings: Set = None,
    as_json: Annotated[bool, typer.Option("--json", help="As JSON instead of TOML.")] = False,
    as_reference: Annotated[bool, typer.Option("--reference", help="Explain every setting there is instead.")] = False,
) -> None:
    """Show the settings."""
    from resonance.pipeline import settings_file, settings_reference  # noqa: PLC0415
    from resonance.pipeline.settings import Settings  # noqa: PLC0415

    if as_reference:
        typer.echo(settings_reference.as_markdown(), nl=False)
        return
    values = Settings.load(config, given(settings, {})).dump()
    if as_json:
        typer.echo(orjson.dumps(values, option=orjson.OPT_INDENT_2).decode())
    else:
        typer.echo(settings_file.as_toml(values), nl=False)


@app.command()
def demo(
    folder: Annotated[Path, typer.Option(metavar="FOLDER", help="Where the results go.")] = Path("demo-results"),
    seconds: Annotated[float, typer.Option(min=5, max=600, help="How long the telemetry takes.")] = 42.0,
) -> None:
    """Watch a worker cluster the telemetry of four regions, be killed, and go on as if nothing had happened."""
    from resonance.pipeline.demo.run import Options, run  # noqa: PLC0415

    end(run(Options(folder, seconds)))


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
                f"--set {shown[0] if shown else ''}: write it as key=value, such as --set engine.lambda=28"
            )
        if key in flags:
            raise ConfigurationError(f"--set {key}: it is given twice on the command line; leave one out")
        flags[key] = value.strip()
    return flags


def as_options(arguments: Sequence[str]) -> Iterator[str]:
    """Yield the arguments with ``--section.key value``, another way to write a setting, as ``--set``.

    Raises
    ------
    ConfigurationError
        A setting without a value: the next option, or nothing, stands in its place.
    """
    waiting = iter(arguments)
    for argument in waiting:
        key, separator, value = argument.removeprefix("--").partition("=")
        if not argument.startswith("--") or "." not in key:
            yield argument
            continue
        if not separator:
            following = next(waiting, None)
            if following is None or following.startswith("--"):
                raise ConfigurationError(f"--{key} needs a value, such as --engine.lambda 28 or --engine.lambda=28")
            value = following
        yield from ("--set", f"{key}={value}")


def end(code: int) -> NoReturn:
    """End the process at once: threads of the Kafka clients that still run have nothing left to do."""
    sys.stdout.flush()
    sys.stderr.flush()
    os._exit(code)


def main() -> None:
    """Run the command line; errors that a user can act on are one line and an exit code."""
    try:
        app(list(as_options(sys.argv[1:])))
    except ResonanceError as error:
        typer.echo(f"error: {error}", err=True)
        sys.exit(error.exit_code)


if __name__ == "__main__":
    main()
