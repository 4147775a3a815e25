"""A compressed backlog under a limit of memory: 24 partitions that are a few MB on disk and 3.4 GB in memory.

The worker is killed in the middle, and what it has learned since its snapshots is read again as compressed.
"""

from collections.abc import Iterator

from resonance.pipeline.memory_budget import MIB, PEAK

from tests.integration.backlog import compressed, peak
from tests.integration.workers import Deployment, wait_until

BUDGET = 1024 * MIB
PARTITIONS = 24
MEGABYTES = 140
"""Of a partition, as its records are in memory."""


def backlogs(broker: str) -> Iterator[str]:
    """Yield what a worker took for the backlog of each codec; assert that it kept to its budget and answered all."""
    for codec, delivery in (("zstd", "exactly_once"), ("gzip", "at_least_once"), ("lz4", "exactly_once")):
        settings = {"limits.memory": BUDGET, "delivery.mode": delivery}
        deployment = Deployment(broker, partitions=PARTITIONS, settings=settings)
        count = compressed(deployment, MEGABYTES, codec)
        # What a producer sends that looks at the size of a batch once it is compressed.
        count += compressed(deployment, MEGABYTES // 2, codec, batch=40_000_000, first=1)
        took = []
        for share in (0.3, 1.0):
            # A new process: it takes no memory that another one has loaded.
            with deployment.worker(forked=False) as worker:
                _wait_for(deployment, share * count)
                took.append(peak(worker.process))
                worker.kill() if share < 1 else worker.terminate()
        assert max(took) <= PEAK * BUDGET, f"{codec}: {max(took):,} bytes of {BUDGET:,}"
        answers = deployment.answers()
        expected = {(partition, offset) for partition, end in deployment.ends().items() for offset in range(end)}
        assert len(expected) == count
        assert expected == {*answers}, f"{codec}: {len(expected.difference(answers))} records without an answer"
        assert delivery == "at_least_once" or len(answers) == count, f"{codec}: records answered again"
        yield f"{count:,} records in {codec}, {delivery}: at most {max(took) / MIB:.0f} MiB of {BUDGET // MIB} MiB"


def _wait_for(deployment: Deployment, count: float) -> None:
    wait_until(lambda: sum(max(offset, 0) for offset in deployment.committed().values()) >= count, 600)


if __name__ == "__main__":
    import sys

    for line in backlogs(sys.argv[1]):
        sys.stdout.write(f"{line}\n")
