"""``resonance settings``."""

from typing import Annotated

import typer
from resonance.pipeline.cli.options import SETTINGS_HELP, Config, Json, Set, load_settings
from resonance.pipeline.cli.output import print_json


def add_to(app: typer.Typer) -> None:
    """Add the command."""
    text = f"Show the settings a worker would have, secrets masked.\n\n{SETTINGS_HELP}"
    app.command("settings", help=text, short_help="Show the settings, or explain them all.")(show_settings)


def show_settings(
    config: Config = None,
    settings: Set = None,
    as_json: Json = False,
    as_reference: Annotated[bool, typer.Option("--reference", help="Explain every setting there is instead.")] = False,
) -> None:
    """Show the settings."""
    from resonance.pipeline.config import file as settings_file  # noqa: PLC0415 - imports not for --help
    from resonance.pipeline.config import reference as settings_reference  # noqa: PLC0415 - imports not for --help

    if as_reference:
        typer.echo(settings_reference.as_markdown(), nl=False)
        return
    loaded = load_settings(config, settings)
    if as_json:
        print_json(loaded.dump())
    else:
        typer.echo(settings_file.as_toml(loaded.dump(), loaded.derived()), nl=False)
