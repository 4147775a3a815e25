"""Run seeds of the simulation: ``python -m tests.simulation SEED`` shows one, ``... FIRST END`` runs many."""

import sys
import time
import traceback

from tests.simulation.world import World


def main(arguments: list[str]) -> int:
    first, end = int(arguments[0]), int(arguments[-1]) + (len(arguments) == 1)
    failed = []
    began = time.monotonic()
    for seed in range(first, end):
        world = World(seed, show=len(arguments) == 1)
        try:
            world.run()
        except Exception as error:
            failed.append(seed)
            print(f"seed {seed}: {type(error).__name__}: {error}", flush=True)
            if len(arguments) == 1:
                traceback.print_exc()
    print(f"{end - first} seeds in {time.monotonic() - began:.0f} s, failed: {failed}")
    return bool(failed)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
