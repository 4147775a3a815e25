"""``resonance compile``."""

from resonance.pipeline import kernels
from resonance.pipeline.cli.injection import CommandApp
from resonance.pipeline.cli.options import Json
from resonance.pipeline.cli.output import print_json, print_line, say
from resonance.pipeline.cli.stopping import says_when_stopped

app = CommandApp()


@app.command("compile")
@says_when_stopped("stopped; what is compiled so far is kept, and the same command goes on behind it")
def compile_kernels(as_json: Json = False) -> None:
    """Compile the kernels of all engines into the cache, so that every later start is warm.

    For the build of an image, and before several workers start at once on a fresh machine. It takes some minutes, or
    seconds where the kernels are compiled already. The cache is below $XDG_CACHE_HOME or ~/.cache, or is
    $NUMBA_CACHE_DIR; $NUMBA_CPU_NAME=generic makes kernels that run on every processor of the architecture.
    """
    from resonance.engine.cache import kernel_folder  # noqa: PLC0415 - its package needs numpy, and --help does not

    if reason := kernel_folder().reason:
        say(f"compiled kernels are not kept in their usual folder ({reason})")
    compiled = kernels.compile_all(report=lambda name: say(f"kernels of {name}"))
    if as_json:
        print_json({"folder": str(compiled.folder), "engines": compiled.engines, "cpu": compiled.cpu})
    else:
        print_line(str(compiled.folder))
