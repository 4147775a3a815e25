"""The present names of clusters: as people gave them, over what became of the clusters since."""

from collections.abc import Iterator, Mapping
from typing import Any, NamedTuple

from resonance.schemas.cluster_name import parse_name
from resonance.schemas.cluster_table import ClusterTable


class PresentName(NamedTuple):
    """What a cluster is called."""

    name: str | None = None
    """Its own name, or that of the cluster of an earlier version from which it goes on; None where it has none."""
    origin: str | None = None
    """Where it has no name of its own: the name of the cluster that it split from, directly or by way of others."""

    def __str__(self) -> str:
        return self.name or (f"from {self.origin}" if self.origin else "")

    def __bool__(self) -> bool:
        return bool(self.name or self.origin)


class ClusterNames:
    """Names of clusters, folded from the topic ``<name>.names`` over the lives of a `ClusterTable`.

    A cluster that survives keeps its name, and what split from it is called after it until it has a name of its own.

    Parameters
    ----------
    table : ClusterTable, optional
        What became of the clusters; while it is empty each name is only that of the cluster that got it.

    Examples
    --------
    >>> names = ClusterNames()
    >>> names.apply("p0/1/3", '{"cluster": "p0/1/3", "name": "night batch", "time": "2026-01-05T08:00:20.750Z"}')
    True
    >>> str(names.of("p0/1/3"))
    'night batch'
    """

    def __init__(self, table: ClusterTable | None = None) -> None:
        self.table = ClusterTable(strict=False) if table is None else table
        self.given: dict[str, str] = {}
        """The names that people gave, by id of the cluster."""

    def apply(self, key: bytes | str | None, value: Mapping[str, Any] | bytes | str | None) -> bool:
        """Take a message of the topic in; return False, and change nothing, where it is none of a name."""
        if key is None:
            return False
        try:
            cluster = key.decode() if isinstance(key, bytes | bytearray) else key
        except UnicodeDecodeError:
            return False
        if value is None:
            return self.given.pop(cluster, None) is not None
        parsed = parse_name(value)
        if parsed is None or parsed["cluster"] != cluster:
            return False
        self.given[cluster] = parsed["name"]
        return True

    def of(self, cluster: str) -> PresentName:
        """Return what a cluster is called; an empty `PresentName` where neither it nor what it came from has a name."""
        name = self._own(cluster)
        life = self.table.lives.get(cluster)
        origin = None
        seen = {cluster}
        while name is None and origin is None and life is not None and life.origin and life.origin not in seen:
            seen.add(life.origin)
            origin = self._own(life.origin)
            life = self.table.lives.get(life.origin)
        return PresentName(name, origin)

    def _own(self, cluster: str) -> str | None:
        return next((self.given[name] for name in self._versions(cluster) if name in self.given), None)

    def _versions(self, cluster: str) -> Iterator[str]:
        """Yield a cluster, and those of earlier versions that it goes on from, the newest first."""
        yield cluster
        life = self.table.lives.get(cluster)
        while life is not None and life.beginning == "version_started" and life.origin is not None:
            yield life.origin
            life = self.table.lives.get(life.origin)
