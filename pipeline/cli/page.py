"""``resonance page``."""

import asyncio
from contextlib import suppress
from typing import Annotated

import typer
from resonance.pipeline.cli.options import CommandApp, load_outputs
from resonance.pipeline.cli.output import say

TEXT = """Show a deployment as a web page: its streams, clusters and events, live, and how its workers do.

The page reads the output topics like any other subscriber, belongs to no group and changes nothing, so that any number
of pages can be open. Only this machine sees it; --host with a token (page.token) opens it to others: docs/page.md."""

Workers = Annotated[
    list[str] | None,
    typer.Option(
        "--worker",
        metavar="URL",
        help="Pages of a worker, such as http://127.0.0.1:6066; repeatable. By default those of the settings.",
    ),
]

app = CommandApp()


@app.command(help=TEXT)
def page(
    host: Annotated[str, typer.Option(metavar="ADDRESS", help="Address to serve the page on.")] = "127.0.0.1",
    port: Annotated[int, typer.Option(min=1, max=65535, metavar="N", help="Port to serve the page on.")] = 6060,
    workers: Workers = None,
) -> None:
    """Serve the page until Ctrl-C."""
    from resonance.pipeline.page import run

    settings = load_outputs()
    with suppress(KeyboardInterrupt):
        asyncio.run(run.serve(settings, host, port, say, workers or ()))
