"""``resonance demo``."""

from pathlib import Path
from typing import Annotated

import typer
from resonance.pipeline.cli.options import CommandApp, check_unused
from resonance.pipeline.cli.output import end

app = CommandApp()


@app.command()
def demo(
    folder: Annotated[Path, typer.Option(metavar="FOLDER", help="Folder for the results.")] = Path("demo-results"),
    seconds: Annotated[
        float, typer.Option(min=5, max=600, metavar="N", help="Seconds that the telemetry takes.")
    ] = 42.0,
    keep: Annotated[bool, typer.Option("--keep", help="Leave its web page open at the end, until Ctrl-C.")] = False,
) -> None:
    """Watch a worker cluster the telemetry of four regions, be killed, and recover as if nothing had happened."""
    from resonance.pipeline.demo import run as story

    check_unused("resonance demo")
    end(story.run(story.Options(folder, seconds, keep=keep)))
