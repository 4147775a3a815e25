"""The parameters of `Modal`, and what its kernels see of them."""

from collections.abc import Mapping
from typing import Any, NamedTuple

from resonance.engine.parameters import MAX, Parameter, filled

PARAMETERS = (
    Parameter("landmarks", int, 1024, "records kept to represent the others", 64, 16_384),
    Parameter("neighbours", int, 8, "landmarks in a ball, whose records are its density", 4, 14),
    Parameter("memory", int, 4_000, "records after which the past counts half", 100, MAX),
    Parameter("valley", float, 0.25, "least depth of a valley between clusters, logarithmic", 0.0, 10.0),
    Parameter("doubt", float, 1.0, "false-split rate relative to the default (1); lower is stricter", 0.001, 1000.0),
    Parameter("reach", float, 3.0, "radii around a landmark beyond which a record is unlike it", 1.0, 100.0),
    Parameter("min_cluster_records", int, 15, "records that make a cluster", 1, MAX),
    Parameter("expire_records", int, 20_000, "records after which a cluster without any vanishes", 100, MAX),
)


class Rules(NamedTuple):
    """The parameters as the kernels see them; names as in `PARAMETERS`."""

    d: int
    landmarks: int
    neighbours: int
    memory: int
    valley: float
    doubt: float
    squared_reach: float
    min_cluster_records: int
    expire_records: int


def rules_from(given: Mapping[str, Any], dimension: int) -> Rules:
    """Return the rules of a model with `dimension` features."""
    return filled(Rules, given, d=dimension, squared_reach=given["reach"] * given["reach"])
