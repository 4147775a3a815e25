"""The worker at a pace: ``python -m tests.integration.paced_worker SECONDS worker ...``.

The seconds are what a record takes beside the engine's own time: a number, or a file that holds it and may change.
"""

import sys
import time
from pathlib import Path

from resonance.pipeline import tasks
from resonance.pipeline.cli import main as cli
from resonance.pipeline.worker import worker


def main():
    given = sys.argv.pop(1)

    def make_task(*given_to_task):
        task = tasks.make_task(*given_to_task)
        process = task.process

        def slowly(records):
            seconds = float(Path(given).read_text() if Path(given).exists() else given)
            time.sleep(seconds * len(records))
            return process(records)

        task.process = slowly
        return task

    assert worker.make_task is tasks.make_task, "the worker makes its tasks in another way: nothing is slowed down"
    worker.make_task = make_task
    cli.main()


if __name__ == "__main__":
    main()
