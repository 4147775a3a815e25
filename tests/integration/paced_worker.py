"""The worker at a pace that can be changed: ``python -m tests.integration.paced_worker FILE worker ...``.

The file holds the seconds that a record takes beside the engine's own time.
"""

import sys
import time
from pathlib import Path

from resonance.pipeline import cli, partition
from resonance.pipeline.worker import worker


def main() -> None:
    """Run the command line with a partition task that sleeps for each record."""
    pace = Path(sys.argv.pop(1))

    class PacedTask(partition.PartitionTask):
        def process(self, records):
            time.sleep(float(pace.read_text()) * len(records))
            return super().process(records)

    worker.PartitionTask = PacedTask
    cli.main()


if __name__ == "__main__":
    main()
