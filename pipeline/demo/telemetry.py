"""Service telemetry with incidents: four regions, one partition each, seven kinds of requests in each.

Each region has its own story, so that each kind of event can be seen by itself. The true kind of a record never goes to
the bus; at the end the found clusters are compared with it.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
import orjson
from numpy.typing import NDArray

FEATURES = (
    "latency_ms",
    "error_rate",
    "cpu",
    "payload_kb",
    "queue_depth",
    "cache_hit",
    "db_calls",
    "memory_mb",
)
"""Members of a record that the engine learns."""

REGIONS = ("eu-west", "us-east", "ap-south", "sa-east")
"""Region of each partition."""

RECORDS = 9000
"""Records of each region; the incidents are tuned for this length, and a shorter script shows fewer events."""

START_MS = 1_767_600_000_000
"""Time of the first record, in milliseconds since the epoch: fixed, so that two runs give the same bytes."""

_DECIMALS = (1, 4, 3, 1, 1, 3, 1, 0)

_NOISE = np.array((24.0, 0.003, 0.04, 8.0, 0.8, 0.04, 0.8, 30.0))

_KINDS: dict[str, tuple[float, ...]] = {
    "browse": (120, 0.010, 0.30, 40, 3, 0.90, 2, 300),
    "search": (300, 0.020, 0.55, 15, 9, 0.60, 6, 600),
    "checkout": (440, 0.040, 0.45, 8, 12, 0.15, 14, 450),
    "upload": (600, 0.015, 0.20, 180, 5, 0.05, 3, 550),
    "reports": (760, 0.030, 0.80, 90, 16, 0.40, 18, 850),
    "login": (180, 0.050, 0.65, 4, 6, 0.75, 10, 200),
    "export": (840, 0.008, 0.35, 140, 20, 0.25, 8, 750),
}

_CRAWLER = np.array((240.0, 0.070, 0.12, 70.0, 18.0, 0.02, 9.0, 200.0))
_CRAWLER_AT, _CRAWLER_SHARE = 0.35, 0.12

# Servers of one region differ in load: -1/2 is a fast one, +1/2 a slow one. Before the deploy a request meets any load
# in between, during it only one of the two ends. After the rollback the servers are more alike than before the deploy.
_SERVERS = np.array((4.0, 0.0, 1.5, 0.0, 1.5, 0.0, 0.0, 0.0)) * 2.4 * _NOISE
_DEPLOY, _ROLLBACK = 0.30, 0.75
_SPREAD_BEFORE, _SPREAD_AFTER = 0.35, 0.15

_DRIFT = np.array((200.0, 0, 0, 0, 0, 0, 0, 0))
_DRIFT_FROM, _DRIFT_TO = 0.15, 0.90

_SEEDS = (37, 2, 6, 4)


class TelemetrySample(NamedTuple):
    """One record of the script, as it goes to the bus."""

    partition: int
    value: bytes
    key: bytes


@dataclass(frozen=True, slots=True)
class DemoIncident:
    """Something that happens to a region."""

    partition: int
    at: int
    """Offset of the first record that it affects."""
    text: str
    """What an operator would write into the log."""


class Telemetry:
    """The script: every record of every region, its true kind, and the incidents in order."""

    def __init__(self, records: int = RECORDS) -> None:
        # Records of each region.
        self.records = records
        # Features by partition, as in the records: shape (records, len(FEATURES)).
        self.values: list[NDArray[np.float64]] = []
        # True kind of each record, by partition.
        self.truth: list[NDArray[np.str_]] = []
        for partition, own in enumerate(_SEEDS):
            values, truth = _region(partition, records, np.random.default_rng(own))
            self.values.append(values)
            self.truth.append(truth)
        self.incidents = sorted(
            (
                DemoIncident(0, int(_DEPLOY * records), "deploy 4.2: search now runs on fast and on slow servers"),
                DemoIncident(0, int(_ROLLBACK * records), "rollback to 4.1: search servers are alike again"),
                DemoIncident(1, int(_CRAWLER_AT * records), "a crawler begins to read the site"),
                DemoIncident(2, int(_DRIFT_FROM * records), "reports begin to take longer, slowly"),
            ),
            key=lambda incident: incident.at,
        )

    def __len__(self) -> int:
        """Return the number of records of all regions."""
        return self.records * len(REGIONS)

    def __iter__(self) -> Iterator[TelemetrySample]:
        """Yield the records of all regions, which take turns."""
        for offset in range(self.records):
            for partition in range(len(REGIONS)):
                yield self.sample(partition, offset)

    def sample(self, partition: int, offset: int) -> TelemetrySample:
        """Return one record as it goes to the bus."""
        region = REGIONS[partition]
        body: dict[str, object] = {"id": f"{region}-{offset}", "time": START_MS + 5 * offset}
        body |= zip(FEATURES, self.values[partition][offset].tolist(), strict=True)
        return TelemetrySample(partition, orjson.dumps(body), region.encode())


def _region(partition: int, records: int, random: np.random.Generator) -> tuple[NDArray[np.float64], NDArray[np.str_]]:
    """Return values and true kinds of one region; a region has at most one story."""
    names = np.array([*_KINDS, "search, slow servers", "crawler"])
    weights = np.ones(len(_KINDS))
    if partition == 0:
        weights[list(_KINDS).index("search")] = 1.5
    kinds = np.searchsorted((weights / weights.sum()).cumsum()[:-1], random.random(records), side="right")
    values = np.array(list(_KINDS.values()))[kinds] + random.standard_normal((records, len(FEATURES))) * _NOISE
    progress = np.arange(records) / records
    truth = names[kinds]

    if REGIONS[partition] == "eu-west":
        deployed = (progress >= _DEPLOY) & (progress < _ROLLBACK)
        slow = random.random(records) < 0.5
        usual = random.standard_normal(records) * np.where(progress < _DEPLOY, _SPREAD_BEFORE, _SPREAD_AFTER)
        server = np.where(deployed, slow - 0.5, usual)
        search = truth == "search"
        values[search] += (server[:, None] * _SERVERS)[search]
        truth[search & deployed & slow] = "search, slow servers"
    elif REGIONS[partition] == "us-east":
        crawled = (progress >= _CRAWLER_AT) & (random.random(records) < _CRAWLER_SHARE)
        values[crawled] = _CRAWLER + random.standard_normal((int(crawled.sum()), len(FEATURES))) * _NOISE
        truth[crawled] = "crawler"
    elif REGIONS[partition] == "ap-south":
        moved = np.interp(progress, (_DRIFT_FROM, _DRIFT_TO), (0.0, 1.0))
        reports = truth == "reports"
        values[reports] += (moved[:, None] * _DRIFT)[reports]

    values = np.maximum(values, 0.0)
    for feature, decimals in enumerate(_DECIMALS):
        values[:, feature] = values[:, feature].round(decimals)
    return values, truth
