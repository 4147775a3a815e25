"""What a model knows of its clusters beside what answers say: since when each is there, and which nodes are in it.

CAEA and its tree tell it from their packed integers (`model_state`): of each model, root first and depth first, its
head, a row for each field of its nodes and of its clusters, its links and labels; in a tree, what its nodes keep
follows.
"""

from dataclasses import dataclass
from typing import Final

import numpy as np
from numpy.typing import NDArray
from resonance.engine.state import unpack

Path = tuple[int, ...]

# Places in the head of a packed model, whose last two members count links and labels.
_RECORDS, _NODES, _CLUSTERS, _PARENT, _LEVEL = 0, 1, 4, 6, 7
_HEAD: Final = 11
_LINK, _LABEL = 4, 3
# Rows of a node, then of a cluster.
_ID, _CLUSTER, _NODE_ROWS = 1, 4, 5
_CLUSTER_ID, _CLUSTER_MADE, _CLUSTER_ROWS = 0, 3, 4


@dataclass(frozen=True, slots=True)
class ModelFacts:
    """One model of an engine: the only one of a flat engine, or one of a tree.

    Attributes
    ----------
    path : tuple of int
        Nodes that lead to it; ``()`` for the root.
    records : int
        Records that it has learned.
    since : dict of int to int
        Of each cluster, how many records the model had learned when the cluster emerged.
    cluster_of : dict of int to int
        Cluster of each node that has one.
    """

    path: Path
    records: int
    since: dict[int, int]
    cluster_of: dict[int, int]


def packed_facts(packed: NDArray[np.int64], kept_records: bool) -> dict[Path, ModelFacts]:
    """Return what packed models tell, by their paths; with `kept_records` where nodes keep records, as in a tree."""
    found: dict[Path, ModelFacts] = {}
    path: Path = ()
    at = 0
    while at < len(packed):
        nodes, clusters, level = (int(packed[at + place]) for place in (_NODES, _CLUSTERS, _LEVEL))
        path = (*path[: level - 1], int(packed[at + _PARENT])) if level else ()
        rows = packed[at + _HEAD : at + _HEAD + _NODE_ROWS * nodes].reshape(_NODE_ROWS, nodes)
        behind = at + _HEAD + _NODE_ROWS * nodes
        shapes = packed[behind : behind + _CLUSTER_ROWS * clusters].reshape(_CLUSTER_ROWS, clusters)
        found[path] = ModelFacts(
            path,
            int(packed[at + _RECORDS]),
            dict(zip(shapes[_CLUSTER_ID].tolist(), shapes[_CLUSTER_MADE].tolist(), strict=True)),
            {node: own for node, own in zip(rows[_ID].tolist(), rows[_CLUSTER].tolist(), strict=True) if own >= 0},
        )
        links, labels = int(packed[at + _HEAD - 2]), int(packed[at + _HEAD - 1])
        at = behind + _CLUSTER_ROWS * clusters + _LINK * links + _LABEL * labels
        if kept_records:
            kept = packed[at : at + nodes + 1]
            at += nodes + 1 + int(np.add.reduce(kept))
    return found


def state_facts(state: bytes, name: str, revision: int) -> dict[Path, ModelFacts]:
    """Return what the state of a tree, or of a part of one, tells."""
    _, arrays = unpack(state, name, revision)
    return packed_facts(arrays["integers"], kept_records=True) if "integers" in arrays else {}


def parent_of(models: dict[Path, ModelFacts], path: Path) -> int | None:
    """Return the cluster, one level up, of the node whose model has this path; None where it is in none."""
    above = models.get(path[:-1]) if path else None
    return None if above is None else above.cluster_of.get(path[-1])
