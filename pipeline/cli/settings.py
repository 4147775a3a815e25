"""``resonance settings``."""

from typing import Annotated

import typer
from resonance.pipeline.cli.options import SETTINGS_HELP, CommandApp, Json, load
from resonance.pipeline.cli.output import print_json

app = CommandApp(help=f"Show the settings a worker would have, secrets masked.\n\n{SETTINGS_HELP}")


@app.callback(invoke_without_command=True)
def settings(
    context: typer.Context,
    as_json: Json = False,
    as_reference: Annotated[bool, typer.Option("--reference", help="Explain all settings instead.")] = False,
) -> None:
    """Show the settings."""
    from resonance.pipeline.config import file as settings_file
    from resonance.pipeline.config import reference

    if context.invoked_subcommand is not None:
        return
    if as_reference:
        typer.echo(reference.as_markdown(), nl=False)
        return
    loaded = load()
    if as_json:
        print_json(loaded.dump())
    else:
        typer.echo(settings_file.as_toml(loaded.dump(), loaded.derived()), nl=False)


@app.command(short_help="Check them, without a broker.")
def check(as_json: Json = False) -> None:
    """Check that the settings can be used together; no broker is contacted, see `resonance topics check` for that."""
    loaded = load()
    if as_json:
        print_json({"usable": True, "name": loaded.name, "engine": loaded.engine.name, "topics": loaded.logs})
    else:
        topics = ", ".join(loaded.input.topics)
        typer.echo(f"the settings can be used: deployment {loaded.name}, engine {loaded.engine.name}, input {topics}")
