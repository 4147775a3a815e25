"""What a model knows of its clusters beside what answers say: since when each is there, and which nodes are in it."""

from dataclasses import dataclass

Path = tuple[int, ...]


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
        Of each cluster, how many records the model had learned when the cluster emerged; empty where that is not kept.
    cluster_of : dict of int to int
        Cluster of each node that has one.
    """

    path: Path
    records: int
    since: dict[int, int]
    cluster_of: dict[int, int]


def parent_of(models: dict[Path, ModelFacts], path: Path) -> int | None:
    """Return the cluster, one level up, of the node whose model has this path; None where it is in none."""
    above = models.get(path[:-1]) if path else None
    return None if above is None else above.cluster_of.get(path[-1])
