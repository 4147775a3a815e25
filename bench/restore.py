"""How long a partition task needs to restore the models of its streams from their snapshots.

Each stream of one partition has had so many records, and its snapshot is read and checked as at a start. Seconds are
of the processor, the least of some rounds.
"""

import time

from resonance.pipeline.machine import collect_rarely
from resonance.pipeline.task.partition_task import PartitionTask

from bench.idle import FEATURES, Fleet
from bench.report import Row, arguments, show

BAR = 1.0
"""Seconds for 1,000 streams."""


def row_of(streams: int, records: int, rounds: int) -> Row:
    """Return the seconds that some streams with `records` records each need."""
    fleet = Fleet(streams, 0)
    for _ in range(records):
        fleet.repeat()
    snapshots = list(fleet.task.models.states())
    spent = []
    for _ in range(rounds):
        task = PartitionTask(fleet.settings, "features", 0)
        began = time.process_time()
        for snapshot in snapshots:
            task.restore(snapshot)
        spent.append(time.process_time() - began)
    size = sum(len(snapshot.body) for snapshot in snapshots) / streams / 1000
    case = f"{streams:,} streams of {records} records, d={FEATURES}, {size:.0f} kB each"
    return Row(case, "s of the processor", min(spent), "bar", BAR * streams / 1000)


def main() -> None:
    """Run it."""
    parser = arguments("The processor's time of a restore.")
    parser.add_argument("--streams", type=int, default=1_000, help="streams of the partition")
    parser.add_argument("--records", type=int, nargs="*", default=[60, 200, 1_000], help="records of each stream")
    parser.add_argument("--rounds", type=int, default=5, help="restores of which the quickest counts")
    given = parser.parse_args()
    collect_rarely()
    show("Restore", [row_of(given.streams, each, given.rounds) for each in given.records], given.json)


if __name__ == "__main__":
    main()
