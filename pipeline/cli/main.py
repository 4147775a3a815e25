"""Entry point of the command line."""

import os
import signal
import sys
from collections.abc import Iterator, Sequence
from importlib.metadata import version
from typing import Annotated, Any

import typer
from resonance.pipeline.cli import (
    bootstrap,
    demo,
    dlq,
    inspect,
    produce,
    replay,
    reset,
    settings,
    snapshots,
    topics,
    verify,
    watch,
    worker,
)
from resonance.pipeline.cli import compile as kernels
from resonance.pipeline.errors import ConfigurationError, ResonanceError
from resonance.pipeline.interrupts import interruptible
from typer.core import TyperGroup

COMMANDS = (
    topics,
    produce,
    bootstrap,
    worker,
    watch,
    replay,
    verify,
    inspect,
    snapshots,
    dlq,
    reset,
    settings,
    kernels,
    demo,
)
"""In the order of the help: first steps and daily use before the rest."""


class InOrder(TyperGroup):
    """Lists commands and groups in the order of `COMMANDS`; by default Typer lists the groups last."""

    def list_commands(self, ctx: Any) -> list[str]:
        """Return the names of the commands in their order."""
        known = super().list_commands(ctx)
        return sorted(known, key=[module.__name__.rpartition(".")[2] for module in COMMANDS].index)


app = typer.Typer(
    name="resonance",
    cls=InOrder,
    help="Stream clustering on Kafka: stable clusters and their life events, exactly once.",
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    rich_markup_mode=None,
    add_completion=False,
    context_settings={"help_option_names": ["-h", "--help"]},
)
for command in COMMANDS:
    command.add_to(app)


@app.callback(invoke_without_command=True)
def root(
    show_version: Annotated[bool, typer.Option("--version", help="Show the version and exit.")] = False,
) -> None:
    """Show the commands, or the version."""
    if show_version:
        typer.echo(f"resonance {version('resonance-streams')}")
        raise typer.Exit


def as_options(arguments: Sequence[str]) -> Iterator[str]:
    """Yield the arguments, with ``--section.key value`` rewritten as ``--set section.key=value``.

    Raises `ConfigurationError`, with an example, for a setting that another option or nothing follows.
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
                raise ConfigurationError(f"--{key} needs a value, such as --{key}=VALUE")
            value = following
        yield from ("--set", f"{key}={value}")


def main() -> None:
    """Run the command line; errors that a user can act on become one line and an exit code."""
    if os.getpid() == 1:
        # The kernel delivers a signal to the first process of a container only where that process handles it.
        signal.signal(signal.SIGTERM, lambda number, _: os._exit(128 + number))
    try:
        with interruptible():
            app(list(as_options(sys.argv[1:])))
    except ResonanceError as error:
        typer.echo(f"error: {error}", err=True)
        sys.exit(error.exit_code)


if __name__ == "__main__":
    main()
