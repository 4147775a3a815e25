"""The present clusters, what they came from, and what became of the others: the table of a downstream consumer.

It needs nothing of the pipeline: feed it the values of a ``<name>.cluster-events`` topic, or the keys and values of a
``<name>.clusters`` topic, or the latter first and then the former.
"""

import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any, Final, Self, cast

from resonance.schemas.cluster import ClusterEnd
from resonance.schemas.cluster_event import ClusterEvent, ClusterSnapshot, begun_by, ended_by
from resonance.schemas.cluster_life import ClusterBeginning, ClusterLife

REMEMBERED: Final = 400_000
"""Ended clusters that a table can resolve, by default; about 550 bytes each."""


class EventGapError(ValueError):
    """Events of a stream are missing: the table would be wrong from here on.

    Parameters
    ----------
    stream : str
        The stream.
    expected, found : int
        Number of the event that should have come, and of the one that did.
    """

    def __init__(self, stream: str, expected: int, found: int) -> None:
        super().__init__(
            f"stream {stream}: event {found} came where event {expected} was to come: events are missing. Read the "
            "topic of the events from its beginning, in the order of each partition; where its first events are "
            "deleted, begin with the topic of the clusters (apply_cluster)"
        )
        self.stream = stream
        self.expected = expected
        self.found = found


@dataclass(slots=True)
class _Stream:
    """What is known of one stream or subtree: version and number of its last event, and its present clusters."""

    version: int
    seq: int
    # Known by the compacted topic, which does not say how many events came after the last that it shows.
    compacted: bool = False
    present: dict[str, ClusterSnapshot] = field(default_factory=dict)
    # Of a list that is too long for one event: the last part that came, and how many there are.
    part: int = 1
    parts: int = 1


class ClusterTable:
    """The present clusters of any number of streams, folded from their events.

    Events of one stream come in order (a stream is in one partition); those of several may be mixed, and so may those
    of the subtrees of a stream with ``hierarchy = "keyed"``: each counts its own. What comes twice is recognised by its
    number and ignored, so delivery at least once does no harm.

    Parameters
    ----------
    remember : int
        Ended clusters that `resolve` knows, and ended streams whose repeats are recognised; beyond it those that ended
        first are forgotten.
    strict : bool
        Whether missing events, and what is no event, raise an error. Otherwise a table may begin anywhere: it goes on
        with the next event, knows each cluster from the first one that describes it, and leaves out what no worker of
        this release wrote.

    Attributes
    ----------
    lives : dict of str to ClusterLife
        The present clusters and those that ended, by id, in the order in which they became known. Repeats add what
        they have of it, so the events from before those of the compacted topic can be read behind it.

    Examples
    --------
    >>> from resonance.schemas import ClusterTable
    >>> def event(seq, kind, cluster, after=(), **more):
    ...     snapshots = [{"id": id, "size": 30, "centre": {}, "spread": {}, "nodes": 2} for id in after]
    ...     return {"stream": "p0", "version": 1, "seq": seq, "kind": kind, "cluster": cluster, "before": [],
    ...             "after": snapshots, "time": f"2026-01-05T08:00:0{seq}.000Z", **more}
    >>> table = ClusterTable()
    >>> table.apply(event(0, "emerged", "p0/1/0", ["p0/1/0"]))
    True
    >>> table.apply(event(1, "emerged", "p0/1/1", ["p0/1/1"]))
    True
    >>> table.apply(event(2, "absorbed", "p0/1/1", ["p0/1/0"], other="p0/1/0"))
    True
    >>> table.apply(event(2, "absorbed", "p0/1/1", ["p0/1/0"], other="p0/1/0"))  # a repeat
    False
    >>> sorted(table.clusters("p0"))
    ['p0/1/0']
    >>> table.resolve("p0/1/1")
    'p0/1/0'
    >>> table.lives["p0/1/1"].ended
    '2026-01-05T08:00:02.000Z'
    """

    def __init__(self, remember: int = REMEMBERED, *, strict: bool = True) -> None:
        self._remember = remember
        self._strict = strict
        self.lives: dict[str, ClusterLife] = {}
        self._streams: dict[str, _Stream] = {}
        # Those that have ended, in the order of their ends: their events may come again.
        self._over: dict[str, _Stream] = {}
        # By root node, where what is below it counts its events for itself.
        self._subtrees: dict[str, dict[int, _Stream]] = {}
        # The compacted topic was read: of a stream that it does not know no cluster is there.
        self._compacted = False
        # Ended clusters in the order of their ends; one absorbed ended before what it ended in.
        self._ended: dict[str, None] = {}

    @classmethod
    def from_clusters(cls, messages: Iterable[tuple[bytes | str, Any]], remember: int = REMEMBERED) -> Self:
        """Return a table of what stands on a ``<name>.clusters`` topic.

        Parameters
        ----------
        messages : iterable of (key, value)
            As for `apply_cluster`, in the order of each partition.
        remember : int
            As for the class.
        """
        table = cls(remember)
        table._compacted = True
        for key, value in messages:
            table.apply_cluster(key, value)
        return table

    @property
    def streams(self) -> list[str]:
        """Every stream of which something is known and that has not ended."""
        return list(self._streams)

    def clusters(self, stream: str | None = None) -> dict[str, ClusterSnapshot]:
        """Return the present clusters by id, each as the last event described it.

        Parameters
        ----------
        stream : str, optional
            The stream; without it all of them.

        Raises
        ------
        KeyError
            Nothing is known of this stream, or it has ended.
        """
        if stream is None:
            return {name: cluster for each in self._streams for name, cluster in self.clusters(each).items()}
        found = dict(self._known(stream).present)
        for below in self._subtrees.get(stream, {}).values():
            found |= below.present
        return found

    def present(self, stream: str) -> list[ClusterSnapshot]:
        """Return the present clusters of a stream as the last event described them; none where nothing is known."""
        return list(self.clusters(stream).values()) if stream in self._streams else []

    def keywords(self, cluster: str) -> list[str]:
        """Return the keywords of a present cluster; none where it has no texts, or is not known."""
        found = (known.present[cluster] for known in self._holders(cluster) if cluster in known.present)
        return next((list(each.get("keywords", ())) for each in found), [])

    def version(self, stream: str) -> int:
        """Return the version of a stream's model; raises as `clusters` does."""
        return self._known(stream).version

    def seq(self, stream: str, subtree: int | None = None) -> int:
        """Return the number of the last event that is known of a stream, or of what is below one of its root nodes.

        Raises
        ------
        KeyError
            Nothing is known of this stream, or of this subtree.
        """
        known = self._known(stream)
        return known.seq if subtree is None else self._subtrees[stream][subtree].seq

    def _known(self, stream: str) -> _Stream:
        try:
            return self._streams[stream]
        except KeyError:
            raise KeyError(f"nothing is known of stream {stream!r}; {len(self._streams):,} others are known") from None

    def resolve(self, cluster: str) -> str | None:
        """Return what a cluster is now.

        Parameters
        ----------
        cluster : str
            Id of a present cluster or of one that ended.

        Returns
        -------
        str or None
            The cluster itself while it is there, also when others split from it; what absorbed it, or goes on in its
            place in the next version, directly or by way of others; None where it, or what absorbed it, vanished or
            ended with its version.

        Raises
        ------
        KeyError
            The table has not seen this cluster, or has forgotten it.
        """
        found = cluster
        while not any(found in known.present for known in self._holders(found)):
            if found not in self._ended:
                raise KeyError(
                    f"cluster {cluster!r} is unknown: no event that was applied speaks of it, or it ended more than "
                    f"{self._remember:,} ends ago"
                )
            heir = self.lives[found].heir
            if heir is None:
                return None
            found = heir
        return found

    def _holders(self, cluster: str) -> list[_Stream]:
        """Return what can hold a cluster: its stream, and its subtree where these count for themselves."""
        stream, _, place = cluster.rsplit("/", 2) if cluster.count("/") > 1 else ("", "", "")
        found = [self._streams.get(stream)]
        node, below, _ = place.partition(".")
        if below and stream in self._subtrees:
            found.append(self._subtrees[stream].get(int(node)))
        return [known for known in found if known is not None]

    # Events

    def apply(self, event: ClusterEvent | Mapping[str, Any] | bytes | str) -> bool:
        """Take an event in.

        Parameters
        ----------
        event : ClusterEvent or bytes or str
            The value of a message of the events' topic: as JSON, or parsed.

        Returns
        -------
        bool
            Whether it was new; False for a repeat.

        Raises
        ------
        EventGapError
            Events of its stream are missing, and the table is strict; nothing was changed.
        """
        try:
            return self._apply(
                cast(ClusterEvent, json.loads(event) if isinstance(event, bytes | bytearray | str) else event)
            )
        except (AttributeError, KeyError, TypeError, ValueError, RecursionError):
            if self._strict:
                raise
            return False

    def _apply(self, event: ClusterEvent) -> bool:
        stream, seq, version, subtree = event["stream"], event["seq"], event["version"], event.get("subtree")
        kind, part, time = event["kind"], event.get("part", 1), event["time"]
        # Read first: an event that is none changes nothing.
        sizes = {cluster["id"]: cluster["size"] for cluster in (*event["before"], *event["after"])}
        begun, ended = begun_by(event), ended_by(event)
        known = self._find(stream, subtree)
        is_new = known is None or not _is_repeat(known, version, seq, part)
        if is_new:
            if kind in ("version_started", "stream_ended") and part == 1:
                # It says everything, whatever came before.
                self._begin(stream, version, subtree, cast(ClusterEnd, kind), time)
            elif self._strict and (expected := self._expected(known, event)) is not None:
                raise EventGapError(stream, expected, seq)
            elif known is not None and version > known.version:
                self._begin(stream, version, subtree, "version_started", time)
            known = self._found(stream, subtree, _Stream(version, seq))
            known.seq, known.compacted, known.part, known.parts = seq, False, part, event.get("parts", 1)
            for name, _ in ended:
                known.present.pop(name, None)
            known.present |= {cluster["id"]: cluster for cluster in event["after"]}
            if kind == "stream_ended" and known.part == known.parts:
                self._retire(stream, known)
        for name, size in sizes.items():
            if is_new or known is None or name not in known.present:
                self._life(name).size = size
        for name, origin in begun:
            self._start(name, origin, cast(ClusterBeginning, kind), time)
        for name, heir in ended:
            self._end(name, heir, cast(ClusterEnd, kind), time)
        return is_new

    def _expected(self, known: _Stream | None, event: ClusterEvent) -> int | None:
        """Return the number of the event that should have come instead of one; None where none is missing."""
        version, seq, part = event["version"], event["seq"], event.get("part", 1)
        if event["kind"] in ("version_started", "stream_ended"):
            if known is not None and (known.version, known.seq, known.part) == (version, seq, part - 1):
                return None
            return seq if known is None or known.seq < seq else known.seq
        if self._compacted if known is None else known.compacted:
            return None
        # A list of which parts are missing is to come first.
        expected = 0 if known is None else known.seq + (known.part == known.parts)
        return expected if seq != expected or (known is not None and version > known.version) else None

    def _find(self, stream: str, subtree: int | None) -> _Stream | None:
        if subtree is None:
            return self._streams.get(stream) or self._over.get(stream)
        return self._subtrees.get(stream, {}).get(subtree)

    def _found(self, stream: str, subtree: int | None, new: _Stream) -> _Stream:
        """Return what is known of a stream or a subtree of it; `new` where nothing is."""
        if subtree is None:
            return self._find(stream, None) or self._streams.setdefault(stream, new)
        # Its first level may not have emitted anything yet.
        self._streams.setdefault(stream, _Stream(new.version, -1, compacted=self._compacted))
        return self._subtrees.setdefault(stream, {}).setdefault(subtree, new)

    def _begin(self, stream: str, version: int, subtree: int | None, kind: ClusterEnd, time: str | None) -> None:
        """Let every cluster of a stream end, or of a subtree."""
        known, below = self._find(stream, subtree), self._subtrees.get(stream, {})
        ended = [] if known is None else [known]
        if subtree is None:
            # Those of the new version may have emitted events already.
            ended += [below.pop(node) for node in [node for node, old in below.items() if old.version < version]]
        for old in ended:
            for cluster in old.present:
                self._end(cluster, None, kind, time)
        if subtree is None:
            self._over.pop(stream, None)
            self._streams[stream] = _Stream(version, -1)
        else:
            below[subtree] = _Stream(version, -1)

    def _retire(self, stream: str, known: _Stream) -> None:
        """Know of a stream that has ended only which of its events came, and not for ever."""
        self._streams.pop(stream, None)
        self._over.pop(stream, None)
        self._over[stream] = known
        while len(self._over) > self._remember:
            del self._over[next(iter(self._over))]

    def _life(self, cluster: str) -> ClusterLife:
        life = self.lives.get(cluster)
        if life is None:
            life = self.lives[cluster] = ClusterLife(cluster)
        return life

    def _start(self, cluster: str, origin: str | None, kind: ClusterBeginning, time: str) -> None:
        life = self._life(cluster)
        if life.beginning is None:
            life.beginning, life.began = kind, life.began or time
            if origin is not None and kind == "split":
                self._life(origin).splits += (cluster,)
        life.origin = origin or life.origin

    def _end(self, cluster: str, heir: str | None, kind: ClusterEnd | None, time: str | None) -> None:
        life = self._life(cluster)
        if life.end is None:
            life.ended, life.end = time, kind
            if heir is not None and kind == "absorbed":
                self._life(heir).absorbed += (cluster,)
        if heir is not None:
            life.heir = heir
            if kind != "absorbed":
                # Another part of the list may have it.
                self._life(heir).origin = cluster
        # Again at the end of the order: a repeat by the other topic must not be forgotten first.
        self._ended.pop(cluster, None)
        self._ended[cluster] = None
        while len(self._ended) > self._remember:
            oldest = next(iter(self._ended))
            del self._ended[oldest], self.lives[oldest]

    # The compacted topic

    def apply_cluster(self, key: bytes | str, value: Mapping[str, Any] | bytes | str | None) -> bool:
        """Take a message of the compacted topic in.

        Once its end is reached the events that follow can be applied; those that the topic contains already are
        recognised as repeats.

        Parameters
        ----------
        key : bytes or str
            The cluster's id.
        value : Cluster or bytes or str or None
            Its description: as JSON, or parsed; None for a tombstone, which removes what ended long ago.

        Returns
        -------
        bool
            Whether something was new.
        """
        self._compacted = True
        try:
            name = key.decode() if isinstance(key, bytes | bytearray) else key
            if value is None:
                return self._forget(name)
            return self._describe(name, json.loads(value) if isinstance(value, bytes | bytearray | str) else value)
        except (AttributeError, KeyError, TypeError, ValueError, RecursionError):
            if self._strict:
                raise
            return False

    def _forget(self, name: str) -> bool:
        # `resolve` answers for it a while longer.
        gone = [known.present.pop(name) for known in self._holders(name) if name in known.present]
        if gone:
            self._end(name, None, None, None)
        return bool(gone)

    def _describe(self, name: str, parsed: Mapping[str, Any]) -> bool:
        stream, version, seq = parsed["stream"], parsed["version"], parsed["seq"]
        subtree, time = parsed.get("subtree"), parsed.get("time")
        known = self._find(stream, subtree)
        if known is not None and version > known.version:
            self._begin(stream, version, subtree, "version_started", time)
        known = self._found(stream, subtree, _Stream(version, seq, compacted=True))
        if "ended" in parsed:
            new = name in known.present or name not in self._ended
            known.present.pop(name, None)
            if new:
                heirs = parsed["successors"]
                self._end(name, heirs[0] if heirs else None, parsed["ended"], time)
            # An end with which a version began belongs to the version before.
            is_newest = version == known.version
        elif version < known.version or (seq <= known.seq and not known.compacted):
            return False
        else:
            new, is_newest = True, True
            parts = ("id", "size", "centre", "spread", "nodes", "omitted", "salient", "keywords")
            known.present[name] = cast(ClusterSnapshot, {part: parsed[part] for part in parts if part in parsed})
        life = self._life(name)
        life.size, life.began = parsed.get("size", life.size), life.began or parsed.get("since")
        if is_newest and seq > known.seq:
            known.seq, known.compacted = seq, True
        if is_newest and parsed.get("ended") == "stream_ended":
            self._retire(stream, known)
        return new


def _is_repeat(known: _Stream, version: int, seq: int, part: int) -> bool:
    if version != known.version or seq != known.seq:
        return version < known.version or (version == known.version and seq < known.seq)
    # The compacted topic has all that the event says.
    return known.compacted or part <= known.part
