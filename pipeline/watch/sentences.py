"""One plain sentence for each cluster event: ``p0/1/7 split from p0/1/3: latency_ms 204 -> 396``."""

from collections.abc import Iterable, Sequence

from resonance.pipeline.errors import counted, number
from resonance.schemas import ClusterEvent, ClusterSnapshot
from resonance.schemas.sets_apart import distances, sets_apart

SHOWN = 3
"""Most features by which a sentence describes a cluster."""

MOVED = 2
"""Most features whose move a sentence describes."""

_NOTABLE = 2.0  # a feature is notable when it moved by this many spreads


def sentence(event: ClusterEvent, peers: Iterable[ClusterSnapshot] = ()) -> str:
    """Describe an event in one sentence without a full stop, with the features in which it shows.

    `peers` are the clusters that existed before an ``emerged``: its sentence then names what separates the new cluster
    from all of them, instead of its first features.
    """
    kind, name, other = event["kind"], event["cluster"], event.get("other")
    if kind == "version_started":
        return _started(event)
    if kind == "stream_ended":
        return _stream_ended(event)
    new, old = _find(name, event["after"]), _find(name, event["before"])
    lived = _records(old, " after {}")
    if kind == "emerged":
        return f"{name} emerged" + _details(portrait(new, peers), _records(new))
    if kind == "split":
        parent = _find(other, event["after"]) or _find(other, event["before"])
        return f"{name} split from {other}" + _details(_moves(parent, new))
    if kind == "described":
        now, before = (", ".join(each["keywords"]) if each else "" for each in (new, old))
        return f"{name} has {f'the keywords {now}' if now else 'no keywords'}" + (
            f" instead of {before}" * bool(before)
        )
    if kind == "absorbed":
        heir = _find(other, event["after"]) or _find(other, event["before"])
        return f"{name} was absorbed by {other}{lived}" + _details(_moves(old, heir), _records(heir, "{} together"))
    # A kind of a later release has its own name at least.
    return f"{name} {kind}{lived}" + _details(portrait(old, peers))


def _started(event: ClusterEvent) -> str:
    """Describe the start of a version, or of emitting what a bootstrap has learned."""
    ended, present = (counted(len(event[side]), "cluster") for side in ("before", "after"))
    if event.get("part", 1) > 1:
        part = f"{event['stream']} version {event['version']}, part {event['part']} of {event['parts']} of its list"
        return f"{part}: {ended} ended, {present} there"
    if not event["after"]:
        return f"{event['stream']} began version {event['version']}: {ended} ended"
    before = f", {ended} of before ended" if event["before"] else ""
    if heirs := sum("successor" in cluster for cluster in event["before"]):
        before += f", of which {heirs} {'goes' if heirs == 1 else 'go'} on"
    return f"{event['stream']} is emitted from here on, version {event['version']}: {present} there{before}"


def _stream_ended(event: ClusterEvent) -> str:
    part = f", part {event['part']} of {event['parts']} of its list" if "parts" in event else ""
    return (
        f"{event['stream']} ended, version {event['version']}{part}: {counted(len(event['before']), 'cluster')} ended"
    )


def _find(name: str | None, clusters: Sequence[ClusterSnapshot]) -> ClusterSnapshot | None:
    return next((cluster for cluster in clusters if cluster["id"] == name), None)


def _moves(start: ClusterSnapshot | None, end: ClusterSnapshot | None) -> str:
    """Return the features that differ most, in units of their spread, as ``name from -> to``; keywords say more."""
    if start is None or end is None:
        return ""
    if end.get("keywords"):
        return portrait(end)
    apart = distances(end, start)
    notable = sorted(apart, key=lambda feature: -apart[feature])[:MOVED]
    notable = [feature for feature in notable if apart[feature] >= _NOTABLE] or notable[:1]
    values = [(f, number(start["centre"][f]), number(end["centre"][f])) for f in notable]
    # A difference that the digits do not show is none for a reader.
    return ", ".join(f"{name} {before} -> {after}" for name, before, after in values if before != after)


def portrait(cluster: ClusterSnapshot | None, peers: Iterable[ClusterSnapshot] = ()) -> str:
    """Return what sets a cluster apart from its peers: its keywords, or features (`sets_apart`) with its means."""
    if cluster is None:
        return ""
    return ", ".join(cluster.get("keywords", ())) or centres(cluster, sets_apart(cluster, peers)[:SHOWN])


def centres(cluster: ClusterSnapshot, features: Iterable[str]) -> str:
    """Return some features of a cluster's centre, as text."""
    return ", ".join(f"{feature} {number(cluster['centre'][feature])}" for feature in features)


def _records(cluster: ClusterSnapshot | None, text: str = "{}") -> str:
    """Return the size of a cluster within a text."""
    return "" if cluster is None else text.format(counted(cluster["size"], "record"))


def _details(*parts: str) -> str:
    text = "; ".join(part for part in parts if part)
    return f": {text}" if text else ""
