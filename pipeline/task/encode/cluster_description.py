"""A cluster's features as messages have them: by name, in the units of the input, and no more than a message holds."""

from collections.abc import Sequence
from typing import Final

import numpy as np
import orjson
from resonance.engine.base import Cluster, FloatArray
from resonance.engine.prepare import AnyPreparation
from resonance.pipeline.task.encode.assignments import StreamTexts
from resonance.pipeline.task.model.stream_model import StreamModel
from resonance.schemas import ClusterSnapshot, SalientFeature

CENTRE_BYTES: Final = 200_000
"""Most bytes of centre and spread of a cluster of sparse records; `_fitting` leaves out the features beyond it."""

MAX_SALIENT: Final = 10
"""Most salient features that are named."""

NUMBER_BYTES: Final = 24
"""Most bytes of a number in JSON."""


def describe(model: StreamModel, texts: StreamTexts, cluster: Cluster) -> ClusterSnapshot:
    """Return a cluster, which the engine has in prepared units, as messages describe it: in the units of the input."""
    names, *values = model.preparation.describe(cluster)
    centre, spread = (value.tolist() for value in values)
    # The features that every record has fit into a message, or the stream had not begun.
    kept = range(len(names)) if cluster.features is None else _fitting(names, cluster.centre)
    described: ClusterSnapshot = {
        "id": texts.cluster_id(cluster.path, cluster.id),
        "size": cluster.size,
        "centre": {names[place]: centre[place] for place in kept},
        "spread": {names[place]: spread[place] for place in kept},
        "nodes": cluster.nodes,
    }
    if len(kept) < len(names):
        described["omitted"] = len(names) - len(kept)
    if model.keywords is not None and not cluster.path:
        described["keywords"] = model.keywords.of(cluster.id)
    if salient := _salient(model.preparation, cluster):
        described["salient"] = salient
    return described


def present(model: StreamModel) -> list[ClusterSnapshot]:
    """Return the clusters that a model has now as messages describe them."""
    texts = StreamTexts(model.stream, model.version, model.engine.depth)
    return [describe(model, texts, cluster) for cluster in model.engine.clusters()]


def emitted(model: StreamModel) -> list[ClusterSnapshot]:
    """Return the clusters of a stream that consumers know: those of a model that learned silently are not among them.

    A version whose start was never emitted still owes the end of the clusters before it.
    """
    known = [*(model.ended or ()), *(present(model) if model.listing is None else model.listing)]
    for cluster in known:
        # It was never emitted either.
        cluster.pop("successor", None)
    return known


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
