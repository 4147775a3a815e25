"""What clusters came from and what they became, folded from the events of a deployment."""

import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any, Literal, cast

from resonance.schemas.cluster import ClusterEnd
from resonance.schemas.cluster_event import ClusterEvent, begun_by, ended_by

ClusterBeginning = Literal["emerged", "split", "version_started"]


@dataclass(slots=True)
class ClusterLife:
    """The life of one cluster, as far as its events are stored."""

    id: str
    size: int = 0
    """Records, as of the last event that described it."""
    began: str | None = None
    """Time of its first event; None where that is no longer stored."""
    beginning: ClusterBeginning | None = None
    """How it began: ``version_started`` for one that goes on from a version before, or was learned silently."""
    origin: str | None = None
    """The cluster that it split from, or goes on from."""
    ended: str | None = None
    """Time of its end; None while it is there."""
    end: ClusterEnd | None = None
    heir: str | None = None
    """The cluster that absorbed it, or goes on in its place."""
    splits: list[str] = field(default_factory=list)
    """Clusters that split from it, in their order."""
    absorbed: list[str] = field(default_factory=list)
    """Clusters that it absorbed, in their order."""


def take_event(lineage: "Lineage", event: Any) -> bool:
    """Apply an event, as JSON or parsed; return False for what no worker of this release wrote."""
    try:
        lineage.apply(event)
    except (KeyError, TypeError, AttributeError, ValueError, RecursionError):
        return False
    return True


class Lineage:
    """The lives of the clusters of any number of streams.

    Feed it the values of a ``<name>.cluster-events`` topic in the order of each partition. Events that come twice do no
    harm, and where the first events of a stream are deleted its clusters are known from their next event on.

    Attributes
    ----------
    lives : dict of str to ClusterLife
        By id, in the order of their first events.
    """

    def __init__(self) -> None:
        self.lives: dict[str, ClusterLife] = {}

    def apply(self, event: ClusterEvent | Mapping[str, Any] | bytes | str) -> None:
        """Take an event in: as JSON, or parsed."""
        parsed = cast(ClusterEvent, json.loads(event) if isinstance(event, bytes | bytearray | str) else event)
        begun, ended, time = begun_by(parsed), ended_by(parsed), parsed["time"]
        for snapshot in (*parsed["before"], *parsed["after"]):
            self._life(snapshot["id"]).size = snapshot["size"]
        for name, origin in begun:
            life = self._life(name)
            if life.began is None:
                life.began, life.beginning = time, cast(ClusterBeginning, parsed["kind"])
                if origin is not None and parsed["kind"] == "split":
                    self._life(origin).splits.append(name)
                life.origin = origin or life.origin
        for name, heir in ended:
            life = self._life(name)
            if life.ended is None:
                life.ended, life.end, life.heir = time, cast(ClusterEnd, parsed["kind"]), heir
                if heir is not None and parsed["kind"] == "absorbed":
                    self._life(heir).absorbed.append(name)
            if heir is not None and parsed["kind"] != "absorbed":
                # Another part of the list may have it.
                self._life(heir).origin = name

    def _life(self, name: str) -> ClusterLife:
        return self.lives.setdefault(name, ClusterLife(name))

    def came_from(self, cluster: str) -> list[str]:
        """Return the clusters that one came from: the one it split from or goes on from, then those it absorbed."""
        life = self.lives.get(cluster)
        return [] if life is None else [*([life.origin] if life.origin else []), *life.absorbed]

    def became(self, cluster: str) -> list[str]:
        """Return the clusters that one became: those that split from it, then the one that goes on in its place."""
        life = self.lives.get(cluster)
        return [] if life is None else [*life.splits, *([life.heir] if life.heir else [])]

    def predecessors(self, cluster: str) -> Iterator[str]:
        """Yield the clusters of earlier versions that one goes on from, the newest first."""
        life = self.lives.get(cluster)
        while life is not None and life.beginning == "version_started" and life.origin is not None:
            yield life.origin
            life = self.lives.get(life.origin)
