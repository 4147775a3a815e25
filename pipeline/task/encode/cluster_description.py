"""A cluster's features as the bus has them: by name, in the units of the input, and no more than a message holds."""

from collections.abc import Sequence
from typing import Final, NamedTuple

import numpy as np
import orjson
from resonance.engine.base import Cluster, FloatArray, IntArray
from resonance.pipeline.task.model.preparations import AnyPreparation
from resonance.pipeline.task.model.sparse_preparation import SparsePreparation
from resonance.schemas import SalientFeature

CENTRE_BYTES: Final = 200_000
"""Bytes of centre and spread of a cluster of sparse records; beyond it features are left out, see `_fitting`."""

MAX_SALIENT: Final = 10
"""Salient features that are named, at most."""

NUMBER_BYTES: Final = 24
"""Bytes of a number."""


class Described(NamedTuple):
    """The features of a cluster.

    Attributes
    ----------
    centre, spread : dict of str to float
        Mean and standard deviation by feature, in the units of the input.
    omitted : int
        Features that the cluster has and that these leave out.
    salient : list of SalientFeature
        The features that tell it apart, the most telling first.
    """

    centre: dict[str, float]
    spread: dict[str, float]
    omitted: int
    salient: list[SalientFeature]


def describe_features(preparation: AnyPreparation, cluster: Cluster) -> Described:
    """Return the features of a cluster.

    Parameters
    ----------
    preparation : Preparation or SparsePreparation
        Knows their names and units.
    cluster : Cluster
        As the engine has it, in prepared units.
    """
    omitted = 0
    if isinstance(preparation, SparsePreparation):
        features = np.empty(0, np.int64) if cluster.features is None else cluster.features
        listed = preparation.names_of(features)
        kept = _fitting(listed, cluster.centre)
        omitted, names = len(features) - len(kept), [listed[place] for place in kept.tolist()]
        centre, spread = preparation.to_input_units(names, cluster.centre[kept], cluster.spread[kept])
    else:
        names = list(preparation.columns)
        centre, spread = preparation.to_input_units(cluster.centre, cluster.spread)
    return Described(
        dict(zip(names, centre.tolist(), strict=True)),
        dict(zip(names, spread.tolist(), strict=True)),
        omitted,
        _salient(preparation, cluster),
    )


def _salient(preparation: AnyPreparation, cluster: Cluster) -> list[SalientFeature]:
    some = cluster.salient[:MAX_SALIENT]
    places = np.array([each.feature for each in some], np.int64)
    if isinstance(preparation, SparsePreparation):
        names: Sequence[str] = preparation.names_of(places)
    else:
        names = [preparation.columns[place] for place in places.tolist()]
    return [
        {"feature": name, "salience": each.salience, "weight": each.weight}
        for name, each in zip(names, some, strict=True)
    ]


def _fitting(names: Sequence[str], centre: FloatArray) -> IntArray:
    """Return the places of the features, in order, that fit into `CENTRE_BYTES`.

    They are those with the largest prepared means: with ranges these are shares, which compare features of different
    units.
    """
    fixed = 2 * (NUMBER_BYTES + 2)
    if 2 * len(orjson.dumps(names)) + fixed * len(names) <= CENTRE_BYTES:
        return np.arange(len(names))
    order = np.lexsort((np.arange(len(names)), -centre))
    sizes = np.array([2 * len(orjson.dumps(name)) + fixed for name in names])
    return np.sort(order[np.cumsum(sizes[order]) <= CENTRE_BYTES])


def salient_bytes(name_bytes: int) -> int:
    """Return the largest size of the salient features of a cluster whose features have names of so many bytes."""
    return MAX_SALIENT * (name_bytes + 2 * NUMBER_BYTES + 50) + 50
