"""What sets a cluster apart from the others of its stream: the one answer of names, sentences, pages and pictures."""

from collections.abc import Iterable, Mapping, Sequence
from typing import Final

from resonance.schemas.cluster_event import ClusterSnapshot

NAMING: Final = 2
"""Features that are chosen together, so that they set a cluster apart from as many others as possible: its name."""

APART: Final = 2.0
"""Distance, in units of their joint spread, from which on one feature sets two clusters apart."""


def sets_apart(cluster: ClusterSnapshot, peers: Iterable[ClusterSnapshot]) -> list[str]:
    """Return the features of a cluster, those first that set it apart from the others.

    The first ones set it apart from as many others as possible, `NAMING` of them together; the rest follow by the
    distance to the nearest other cluster. Where the engine itself reports the features that separate a cluster, these
    are returned, and without others the features stand in their own order.

    Parameters
    ----------
    cluster : ClusterSnapshot
        As an event, or the compacted topic, describes it.
    peers : iterable of ClusterSnapshot
        The present clusters of its stream; only the others of its level, below the same node, count.
    """
    if "salient" in cluster:
        return [each["feature"] for each in cluster["salient"] if each["feature"] in cluster["centre"]]
    found = [distances(cluster, other) for other in of_its_level(cluster, peers)]
    first, _ = covering(found, cluster["centre"])
    rest = [feature for feature in cluster["centre"] if feature not in first]
    if found:
        rest.sort(key=lambda feature: -min(each.get(feature, 0.0) for each in found))
    return [*first, *rest]


def columns(clusters: Sequence[ClusterSnapshot], most: int) -> list[str]:
    """Return the features of a table of clusters, at most so many: what sets each apart, taken in turn.

    They stand in the order of the records.
    """
    ranked = [sets_apart(cluster, clusters) for cluster in clusters]
    names = dict.fromkeys(name for cluster in clusters for name in cluster["centre"])
    longest = max(map(len, ranked), default=0)
    in_turn = dict.fromkeys(own[place] for place in range(longest) for own in ranked if place < len(own))
    chosen = set(list(in_turn)[:most])
    return [name for name in names if name in chosen]


def of_its_level(cluster: ClusterSnapshot, peers: Iterable[ClusterSnapshot]) -> list[ClusterSnapshot]:
    """Return the others that are below the same node."""
    level = _level(cluster["id"])
    return [peer for peer in peers if peer["id"] != cluster["id"] and _level(peer["id"]) == level]


def distances(cluster: ClusterSnapshot, other: ClusterSnapshot) -> dict[str, float]:
    """Return by feature the distance of two centres, in units of their joint spread."""
    result = {}
    for feature, centre in cluster["centre"].items():
        if feature in other["centre"]:
            gap = abs(centre - other["centre"][feature])
            spread = max(cluster["spread"].get(feature, 0.0), other["spread"].get(feature, 0.0))
            result[feature] = gap / spread if spread > 0 else (float("inf") if gap else 0.0)
    return result


def covering(found: Sequence[Mapping[str, float]], features: Iterable[str]) -> tuple[list[str], list[float]]:
    """Return the first features of `sets_apart`, and the distance to each other cluster in them.

    `found` has the `distances` to each other cluster.
    """
    chosen: list[str] = []
    reached = [0.0] * len(found)
    while found and len(chosen) < NAMING and min(reached) < APART:
        best, most = None, _score(reached)
        for feature in features:
            score = _score(_with(reached, found, feature))
            if score > most:
                best, most = feature, score
        if best is None:
            break
        reached = _with(reached, found, best)
        chosen.append(best)
    return chosen, reached


def _level(cluster: str) -> str:
    """Return what the ids of the clusters of one level have in common."""
    before, _, place = cluster.rpartition("/")
    return f"{before}/{place.rpartition('.')[0]}"


def _with(reached: Sequence[float], found: Sequence[Mapping[str, float]], feature: str) -> list[float]:
    """Return the distances to all others with one feature more."""
    return [max(have, own.get(feature, 0.0)) for have, own in zip(reached, found, strict=True)]


def _score(reached: Sequence[float]) -> tuple[float, float]:
    """Return how well distances set a cluster apart: from as many others as possible, then from the nearest."""
    return sum(min(distance, APART) for distance in reached), min(reached)
