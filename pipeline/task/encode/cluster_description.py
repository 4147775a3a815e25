"""A cluster's features as messages have them: by name, in the units of the input, and no more than a message holds."""

from collections.abc import Sequence
from typing import Final, NamedTuple

import numpy as np
import orjson
from resonance.engine.base import Cluster, FloatArray
from resonance.engine.prepare import AnyPreparation
from resonance.schemas import SalientFeature

CENTRE_BYTES: Final = 200_000
"""Most bytes of centre and spread of a cluster of sparse records; `_fitting` leaves out the features beyond it."""

MAX_SALIENT: Final = 10
"""Most salient features that are named."""

NUMBER_BYTES: Final = 24
"""Most bytes of a number in JSON."""


class Described(NamedTuple):
    """The features of a cluster."""

    centre: dict[str, float]
    """Mean by feature, in the units of the input."""
    spread: dict[str, float]
    """Standard deviation by feature, in the units of the input."""
    omitted: int
    """Features of the cluster that centre and spread leave out."""
    salient: list[SalientFeature]
    """The features that distinguish the cluster, the most salient first."""


def describe_features(preparation: AnyPreparation, cluster: Cluster) -> Described:
    """Return the features of a cluster, which the engine has in prepared units, in the units of the input."""
    names, *values = preparation.describe(cluster)
    centre, spread = (value.tolist() for value in values)
    # The features that every record has fit into a message, or the stream had not begun.
    kept = range(len(names)) if cluster.features is None else _fitting(names, cluster.centre)
    return Described(
        {names[place]: centre[place] for place in kept},
        {names[place]: spread[place] for place in kept},
        len(names) - len(kept),
        _salient(preparation, cluster),
    )


def _salient(preparation: AnyPreparation, cluster: Cluster) -> list[SalientFeature]:
    some = cluster.salient[:MAX_SALIENT]
    places = np.array([each.feature for each in some], np.int64)
    return [
        {"feature": name, "salience": each.salience, "weight": each.weight}
        for name, each in zip(preparation.names_of(places), some, strict=True)
    ]


def _fitting(names: Sequence[str], centre: FloatArray) -> Sequence[int]:
    """Return the positions of the features, in order, that fit into `CENTRE_BYTES`.

    The features with the largest prepared means are kept: with ranges these are shares, which compare features of
    different units.
    """
    fixed = 2 * (NUMBER_BYTES + 2)
    if 2 * len(orjson.dumps(names)) + fixed * len(names) <= CENTRE_BYTES:
        return range(len(names))
    order = np.lexsort((np.arange(len(names)), -centre))
    sizes = np.array([2 * len(orjson.dumps(name)) + fixed for name in names])
    return sorted(order[np.cumsum(sizes[order]) <= CENTRE_BYTES].tolist())


def salient_bytes(name_bytes: int) -> int:
    """Return the largest size of a cluster's salient features when each name has at most `name_bytes` bytes."""
    return MAX_SALIENT * (name_bytes + 2 * NUMBER_BYTES + 50) + 50
