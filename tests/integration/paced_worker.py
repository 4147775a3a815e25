"""The worker at a pace that can be changed: ``python -m tests.integration.paced_worker FILE worker ...``.

The file holds the seconds that a record takes beside the engine's own time.
"""

import sys
import time
from pathlib import Path

from resonance.pipeline import tasks
from resonance.pipeline.cli import main as cli
from resonance.pipeline.worker import worker


def main() -> None:
    """Run the command line with tasks that sleep for each record."""
    pace = Path(sys.argv.pop(1))

    def make_task(*given, **counts):
        task = tasks.make_task(*given, **counts)
        process = task.process

        def slowly(records):
            time.sleep(float(pace.read_text()) * len(records))
            return process(records)

        task.process = slowly
        return task

    worker.make_task = make_task
    cli.main()


if __name__ == "__main__":
    main()
