"""``resonance mcp``."""

import asyncio
import signal

from resonance.pipeline.cli.options import CommandApp, load, load_outputs
from resonance.pipeline.cli.output import end, say
from resonance.pipeline.cli.stopping import INTERRUPTED

TEXT = """Answer an assistant's questions about a deployment: a Model Context Protocol server on stdin and stdout.

The assistant's program starts it. Its tools list incidents, streams, clusters, typical records and outlying streams;
it reads what `page` and `inspect` read, belongs to no group and changes nothing: docs/mcp.md."""

app = CommandApp()


@app.command(help=TEXT)
def mcp() -> None:
    """Serve until standard input ends."""
    from resonance.pipeline import logs, mcp_server

    settings = load_outputs()
    logs.configure(settings.worker.log_level, settings.worker.log_format)
    # The thread that waits for input would hold up a usual stop.
    signal.signal(signal.SIGINT, lambda *_: end(INTERRUPTED))
    say(f"{settings.name}: tools for an assistant on standard input and output (Ctrl-C ends it)")
    asyncio.run(mcp_server.serve(settings, load))
    end(0)
