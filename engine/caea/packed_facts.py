"""What packed models know of their clusters.

CAEA and its tree tell it from their packed integers (`packing`): of each model, root first and depth first, its head,
a row for each field of its nodes and of its clusters, its links and labels; in a tree, what its nodes keep follows.
"""

from typing import Final

import numpy as np
from numpy.typing import NDArray
from resonance.engine.facts import ModelFacts, Path
from resonance.engine.state import unpack

# Places in the head of a packed model, whose last two members count links and labels.
_RECORDS, _NODES, _CLUSTERS, _PARENT, _LEVEL = 0, 1, 4, 6, 7
_HEAD: Final = 13
_LINK, _LABEL = 4, 3
# Rows of a node, then of a cluster.
_ID, _CLUSTER, _NODE_ROWS = 1, 4, 8
_CLUSTER_ID, _CLUSTER_MADE, _CLUSTER_ROWS = 0, 3, 4


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
