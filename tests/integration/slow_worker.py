"""The worker with an engine that takes its time: ``python -m tests.integration.slow_worker SECONDS worker ...``."""

import sys
import time

from resonance.pipeline import tasks
from resonance.pipeline.cli import main as cli
from resonance.pipeline.worker import worker


def main() -> None:
    """Run the command line with tasks that sleep for each record."""
    seconds = float(sys.argv.pop(1))

    def make_task(*given, **counts):
        task = tasks.make_task(*given, **counts)
        process = task.process

        def slowly(records):
            time.sleep(seconds * len(records))
            return process(records)

        task.process = slowly
        return task

    worker.make_task = make_task
    cli.main()


if __name__ == "__main__":
    main()
