"""``resonance worker``."""

from typing import Annotated

import typer
from resonance.pipeline.cli.options import CommandApp, load
from resonance.pipeline.cli.output import end, print_line, say
from resonance.pipeline.cli.stopping import says_when_stopped
from resonance.pipeline.errors import ConfigurationError

Mode = Annotated[
    str | None,
    typer.Option(
        "--delivery",
        metavar="exactly_once|at_least_once",
        help="Guarantee of delivery (delivery.mode); by default exactly once.",
    ),
]
WorkerId = Annotated[
    str | None, typer.Option(metavar="ID", help="Name of this worker (worker.id), unique in the deployment.")
]
WebPort = Annotated[
    int | None,
    typer.Option(metavar="PORT", help="Port of its pages for health and metrics (worker.web_port); by default 6066."),
]
Processes = Annotated[
    str | None,
    typer.Option(
        metavar="N|auto",
        help="Workers to run on this machine (worker.processes); auto: one for each core.",
    ),
]
Resume = Annotated[
    bool, typer.Option("--resume-from-snapshot", help="After a startup mismatch: continue where the snapshots end.")
]
Reset = Annotated[
    bool,
    typer.Option(
        "--reset", help="After a startup mismatch: forget models and offsets, and begin anew where the log begins."
    ),
]
NewVersion = Annotated[
    bool,
    typer.Option("--new-version", help="After a startup mismatch: begin new models where the group stands."),
]
LogLevel = Annotated[
    str | None,
    typer.Option(
        metavar="debug|info|warning|error", help="Least serious log lines (worker.log_level); by default info."
    ),
]


TEXT = """Run a worker until SIGTERM or Ctrl-C. It makes the topics that are missing, and shares the partitions of the
input with the other workers of its deployment. The last line of its log says why it ended."""

CompileOnly = Annotated[
    bool,
    typer.Option("--compile-only", help="Compile all kernels for later starts, and end."),
]

COMPILING = "stopped; what is compiled so far is kept, and the same command goes on behind it"

app = CommandApp()


@app.command(help=TEXT)
def worker(
    delivery: Mode = None,
    worker_id: WorkerId = None,
    web_port: WebPort = None,
    processes: Processes = None,
    log_level: LogLevel = None,
    resume_from_snapshot: Resume = False,
    reset: Reset = False,
    new_version: NewVersion = False,
    compile_only: CompileOnly = False,
) -> None:
    """Run a worker, or compile what it needs."""
    from resonance.pipeline import mismatches
    from resonance.pipeline.worker import supervisor
    from resonance.pipeline.worker import worker as process

    if compile_only:
        with says_when_stopped(COMPILING):
            _compile()
        return
    requested = {mismatches.RESUME: resume_from_snapshot, mismatches.RESET: reset, mismatches.NEW_VERSION: new_version}
    recovery = [command for command, given in requested.items() if given]
    if len(recovery) > 1:
        raise ConfigurationError(f"{' and '.join(recovery)}: each gives up something else; choose one")
    settings = load(
        delivery__mode=delivery,
        worker__id=worker_id,
        worker__web_port=web_port,
        worker__processes=processes,
        worker__log_level=log_level,
    )
    if new_version:
        settings.check_local(
            mismatches.NEW_VERSION,
            f"roots and subtrees stand in two logs and begin anew together, by {mismatches.RESET}",
        )
    end((process if settings.worker.processes == 1 else supervisor).run(settings, *recovery))


def _compile() -> None:
    """Compile the kernels of all engines into the cache, and print its folder."""
    from resonance.kernels.cache import kernel_folder
    from resonance.pipeline import kernels

    if reason := kernel_folder().reason:
        say(f"compiled kernels are not kept in their usual folder ({reason})")
    print_line(str(kernels.compile_all(report=lambda name: say(f"kernels of {name}"))))
