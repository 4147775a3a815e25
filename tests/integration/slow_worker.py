"""The worker with an engine that takes its time: ``python -m tests.integration.slow_worker SECONDS worker ...``."""

import sys
import time

from resonance.pipeline import cli, partition
from resonance.pipeline.worker import worker


def main() -> None:
    """Run the command line with a partition task that sleeps for each record."""
    seconds = float(sys.argv.pop(1))

    class SlowTask(partition.PartitionTask):
        def process(self, records):
            time.sleep(seconds * len(records))
            return super().process(records)

    worker.PartitionTask = SlowTask
    cli.main()


if __name__ == "__main__":
    main()
