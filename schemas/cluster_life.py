"""The life of a cluster: what it came from and what it became."""

from dataclasses import dataclass
from typing import Literal

from resonance.schemas.cluster import ClusterEnd

ClusterBeginning = Literal["emerged", "split", "version_started"]


@dataclass(slots=True)
class ClusterLife:
    """The life of one cluster, as far as the events and descriptions that were read reach."""

    id: str
    size: int = 0
    """Records, as of the last event that described it."""
    began: str | None = None
    """Time of its beginning; None where that is not known."""
    beginning: ClusterBeginning | None = None
    """How it began: ``version_started`` for one that goes on from a version before, or was learned silently."""
    origin: str | None = None
    """The cluster that it split from, or goes on from."""
    ended: str | None = None
    """Time of its end; None while it is there."""
    end: ClusterEnd | None = None
    heir: str | None = None
    """The cluster that absorbed it, or goes on in its place."""
    splits: tuple[str, ...] = ()
    """Clusters that split from it, in their order."""
    absorbed: tuple[str, ...] = ()
    """Clusters that it absorbed, in their order."""
