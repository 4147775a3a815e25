"""Run seeds of the simulation: ``python -m tests.simulation SEED`` shows one, ``... FIRST END`` runs many."""

import sys

from tests.simulation.world import simulate


def main(arguments: list[str]) -> int:
    """Run the seeds and return how many failed."""
    first, end = int(arguments[0]), int(arguments[-1]) + (len(arguments) == 1)
    failed = 0
    for seed in range(first, end):
        try:
            simulate(seed, show=end - first == 1)
        except AssertionError as error:
            failed += 1
            sys.stdout.write(f"seed {seed}: {error}\n")
            sys.stdout.flush()
    sys.stdout.write(f"{end - first:,} seeds, {failed} failed\n")
    return failed


if __name__ == "__main__":
    sys.exit(min(main(sys.argv[1:]), 1))
