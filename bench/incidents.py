"""Incidents of a fleet of forty devices, through a partition task: ``python -m bench.incidents`` counts right seeds.

In one run a device breaks, in one all get a new kind of work, in one both happen at the same time, and in one the
device breaks some hours later, while the alerts of the change are open; in the last another breaks alike soon after it.
"""

import sys
from typing import Final, Literal, get_args

import numpy as np
import orjson
from resonance.pipeline.config.settings import Settings
from resonance.pipeline.incidents.incidents import IncidentTable
from resonance.pipeline.records import Record
from resonance.pipeline.task.partition_task import PartitionTask
from resonance.schemas import Incident

Case = Literal["one breaks", "all change", "both", "one breaks later", "two break later"]

TOPIC: Final = "devices"
NAMES: Final = ("load", "heat", "noise", "flow")
DEVICES, RECORDS, CHANGED, LATER, SECOND, TURN = 40, 1_200, 800, 950, 960, 30
BEGAN: Final = 1_770_000_000_000
MINUTE: Final = 60_000
# An hour at once: outputs do not depend on it.
BATCH: Final = 60 * DEVICES
SEEDS: Final = 100
BARS: Final = {"one breaks": 0.95, "all change": 0.95, "both": 0.9, "one breaks later": 0.9, "two break later": 0.9}


def fleet(case: Case, seed: int) -> tuple[list[Incident], set[str]]:
    """Return the incidents of a fleet, the newest first, and the streams that broke."""
    rng = np.random.default_rng(seed)
    kinds = rng.uniform(20, 80, (5, len(NAMES)))
    broken, factors = int(rng.integers(DEVICES)), rng.choice([0.2, 4.0], len(NAMES))
    numbers = np.arange(RECORDS)
    turns = (numbers[:, None] // TURN + np.arange(DEVICES)) % 4
    if case != "one breaks":
        turns[(turns == 3) & (numbers[:, None] >= CHANGED)] = 4
    values = kinds[turns] * rng.normal(1, 0.05, (RECORDS, DEVICES, len(NAMES)))
    if case != "all change":
        values[LATER if case.endswith("later") else CHANGED :, broken] *= factors
    second = (broken + (case == "two break later")) % DEVICES
    if second != broken:
        values[SECOND:, second] *= factors
    task = PartitionTask(
        Settings.of({"input.topics": [TOPIC], "input.features": list(NAMES), "stream": "key"}), TOPIC, 0
    )
    table = IncidentTable()
    records = [
        Record(
            TOPIC, 0, minute * DEVICES + device, BEGAN + minute * MINUTE, b"d%d" % device,
            orjson.dumps(dict(zip(NAMES, row, strict=True))),
        )
        for minute, rows in enumerate(values.round(3).tolist())
        for device, row in enumerate(rows)
    ]  # fmt: skip
    for first in range(0, len(records), BATCH):
        outputs = task.process(records[first : first + BATCH])
        for kind in ("cluster_events", "drift_events", "alerts"):
            for message in outputs.of(kind):
                table.apply(kind, orjson.loads(message.value or b"null"))
    return table.incidents(), {f"p0:d{broken}", f"p0:d{second}"}


def is_right(case: Case, found: list[Incident], broken: set[str]) -> bool:
    """Whether the incidents are those that happened."""
    alone = [each for each in found if {*each["streams"]} == broken]
    many = [each for each in found if len(each["streams"]) > DEVICES / 2]
    wanted = {"one breaks": (1, 0), "all change": (0, 1)}.get(case, (1, 1))
    return (len(found), *((len(alone), len(many)))) == (sum(wanted), *wanted)


if __name__ == "__main__":
    seeds = int(sys.argv[1]) if len(sys.argv) > 1 else SEEDS
    for case in get_args(Case):
        wrong = []
        for seed in range(seeds):
            found, broken = fleet(case, seed)
            if not is_right(case, found, broken):
                wrong.append(seed)
                if "--verbose" in sys.argv:
                    print(case, seed, broken, *[each["text"] for each in found], sep="\n  ")
        print(f"{case}: {seeds - len(wrong)} of {seeds} (bar {BARS[case]:.0%}); wrong: {wrong}", flush=True)
