"""Names of clusters by what sets each apart from the others: ``latency_ms high, cache_hit low``.

Where records have texts a name is of words: ``refund, card declined``.
"""

from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Final, NamedTuple

from resonance.schemas.cluster_event import ClusterEvent, ClusterSnapshot
from resonance.schemas.cluster_table import ClusterTable
from resonance.schemas.sets_apart import NAMING, covering, distances, of_its_level

STILL_APART: Final = 1.0
"""Distance below which a name no longer sets its cluster apart from another, unless it began with less."""


class _Claim(NamedTuple):
    """What a name says of one feature."""

    feature: str
    word: str
    """``high``, ``low``; else the value it is near, as text; empty for a keyword or a feature that an engine itself
    reports."""
    value: float
    """The centre when the name was found."""

    def __str__(self) -> str:
        return f"{self.feature} {self.word}" if self.word else self.feature

    def holds(self, cluster: ClusterSnapshot, peers: Sequence[ClusterSnapshot]) -> bool:
        if "keywords" in cluster:
            return not self.word and self.feature in cluster["keywords"]
        if not self.word:
            return any(each["feature"] == self.feature for each in cluster.get("salient", ())[: 2 * NAMING])
        if self.feature not in cluster["centre"]:
            return False
        if self.word in ("high", "low"):
            return _word(self.feature, cluster, peers) == self.word
        centre = cluster["centre"][self.feature]
        return abs(centre - self.value) <= max(cluster["spread"].get(self.feature, 0.0), 1e-9 * abs(centre))


class _FoundName(NamedTuple):
    claims: tuple[_Claim, ...]
    apart: float
    """Distance to the nearest other cluster in these features when the name was found."""

    def __str__(self) -> str:
        return ", ".join(map(str, self.claims))


class AutomaticNames:
    """Names clusters by at most two keywords or features, and keeps each name while it is true.

    A feature is ``high`` where its mean is above those of all other clusters, ``low`` where it is below them, and else
    has the value that it is near. A name is found anew only when it has become false, or no longer sets its cluster
    apart: two readers who saw other histories may so have different names that are both true.

    Parameters
    ----------
    table : ClusterTable, optional
        The table that takes the events in; without one, one of its own.
    """

    def __init__(self, table: ClusterTable | None = None) -> None:
        self._kept: dict[str, _FoundName] = {}
        self._table = ClusterTable(strict=False) if table is None else table

    def apply(self, event: ClusterEvent | Mapping[str, Any]) -> None:
        """Take an event in: the clusters that it changed keep their names, or get others."""
        # A list of all clusters is no change of each.
        if self._table.apply(event) and event["cluster"] is not None:
            peers = self._table.present(event["stream"])
            for cluster in event["after"]:
                self.name(cluster, peers)

    def name(self, cluster: ClusterSnapshot, peers: Iterable[ClusterSnapshot]) -> str:
        """Return the name of a cluster among the present clusters of its stream; ``""`` where nothing sets it apart.

        Parameters
        ----------
        cluster : ClusterSnapshot
            As an event, or the compacted topic, describes it.
        peers : iterable of ClusterSnapshot
            The present clusters; only the others of its level that are below the same node count.
        """
        others = of_its_level(cluster, peers)
        kept = self._kept.get(cluster["id"])
        if kept is None or not _is_true(kept, cluster, others):
            kept = self._kept[cluster["id"]] = _found(cluster, others)
        return str(kept)

    def last(self, cluster: str) -> str:
        """Return the name that a cluster got last, also after its end; ``""`` where it has none."""
        return str(self._kept[cluster]) if cluster in self._kept else ""


def _is_true(kept: _FoundName, cluster: ClusterSnapshot, others: Sequence[ClusterSnapshot]) -> bool:
    if not kept.claims or not all(claim.holds(cluster, others) for claim in kept.claims):
        return False
    return not kept.claims[0].word or _apart(kept.claims, cluster, others) >= min(STILL_APART, kept.apart / 2)


def _apart(claims: Iterable[_Claim], cluster: ClusterSnapshot, others: Sequence[ClusterSnapshot]) -> float:
    """Return the distance to the nearest other cluster in the features of some claims."""
    features = [claim.feature for claim in claims]
    by_peer = (distances(cluster, other) for other in others)
    return min((max(found.get(feature, 0.0) for feature in features) for found in by_peer), default=float("inf"))


def _found(cluster: ClusterSnapshot, others: Sequence[ClusterSnapshot]) -> _FoundName:
    found = cluster.get("keywords")
    if found is None and "salient" in cluster:
        found = [each["feature"] for each in cluster["salient"]]
    if found is not None:
        return _FoundName(tuple(_Claim(each, "", 0.0) for each in found[:NAMING]), float("inf"))
    features, reached = covering([distances(cluster, other) for other in others], cluster["centre"])
    claims = tuple(_Claim(each, _word(each, cluster, others), cluster["centre"][each]) for each in features)
    return _FoundName(claims, min(reached, default=float("inf")))


def _word(feature: str, cluster: ClusterSnapshot, others: Sequence[ClusterSnapshot]) -> str:
    centre = cluster["centre"][feature]
    means: Mapping[str, float] = {peer["id"]: peer["centre"][feature] for peer in others if feature in peer["centre"]}
    if all(centre > mean for mean in means.values()):
        return "high"
    return "low" if all(centre < mean for mean in means.values()) else f"near {centre:.3g}"
