"""Start of the ``resonance`` command, also where only the schemas' packages are installed."""

import sys


def main() -> None:
    """Run the command, or say which extra it needs."""
    try:
        from resonance.pipeline.cli.main import main as run
    except ModuleNotFoundError as error:
        sys.exit(f"resonance needs {error.name}, which is not installed: pip install 'resonance-streams[worker]'")
    run()
