"""What the page shows, as plain values: an overview of the streams, a stream, a cluster, the events."""

import math
import shlex
from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, Final

from resonance.pipeline import exact_json
from resonance.pipeline.errors import ResonanceError, counted, nearest
from resonance.pipeline.page.timeline import as_json
from resonance.pipeline.page.view import DeploymentView, Present, StreamView, moment_of
from resonance.pipeline.watch.lifelines import LifeLine, in_order
from resonance.pipeline.watch.named import with_names
from resonance.pipeline.watch.sentences import SHOWN, centres
from resonance.schemas import Incident
from resonance.schemas.common import place_text
from resonance.schemas.sets_apart import sets_apart

MOST_ROWS: Final = 200
"""Streams, and entries of the timeline, in one answer."""

MOST_LINES: Final = 60
"""Life-lines of a stream: the present clusters, and the newest of those that ended."""

MOST_INCIDENTS: Final = 50
"""Incidents of an overview."""

MOST_FEATURES: Final = 40
"""Features of a cluster's profile, the most salient first."""

COMPARED: Final = 50
"""Other clusters, the largest, from which these separate it."""


class UnknownNameError(ResonanceError):
    """There is no such stream, cluster or incident; the text offers similar ones."""


ORDERS: Final[Mapping[str, Callable[[StreamView, Mapping[str, int]], Any]]] = {
    "stream": lambda stream, _: stream.name,
    "rate": lambda stream, _: _magnitude(stream.rate),
    "clusters": lambda stream, _: len(stream.clusters),
    "novelty": lambda stream, _: _novelty(stream) or 0.0,
    "drift": lambda stream, _: stream.drift is not None,
    "alerts": lambda stream, alerts: alerts.get(stream.name, 0),
    "last": lambda stream, _: stream.last,
}


def overview(
    view: DeploymentView, search: str = "", order: str = "rate", *, ascending: bool = False, start: int = 0, most: int
) -> dict[str, Any]:
    """Return the figures of the deployment, its incidents, and some of the streams whose name contains a text."""
    wanted, alerts = search.casefold(), view.alerts_by_stream
    # Streams are also found by the names of their clusters.
    called: defaultdict[str, list[str]] = defaultdict(list)
    for cluster_id, given in view.names.given.items():
        if wanted and wanted in given.casefold():
            called[cluster_id.rsplit("/", 2)[0]].append(given)
    found = view.by_name()
    if wanted:
        found = [each for each in found if wanted in each.name.casefold() or each.name in called]
    key = ORDERS[order]
    # What is equal stays in the order of the names.
    found = sorted(found, key=lambda stream: key(stream, alerts), reverse=not ascending)
    shown = found[start : start + min(most, MOST_ROWS)]
    rows = [_row(stream, alerts[stream.name]) | {"called": called.get(stream.name, [])[:SHOWN]} for stream in shown]
    known = view.incidents()
    incidents = _incidents(view, known)
    shown_first = {"incidents": incidents, "incidents_left_out": len(known) - len(incidents)}
    figures = {"rates": list(view.rates)[-300:], **view.headline(), **shown_first}
    return {"found": len(found), "start": start, "rows": rows, **figures}


def incident(view: DeploymentView, key: str) -> dict[str, Any]:
    """Return the incident of an alert or a drift, with the entries of all of them; raises `UnknownNameError`."""
    known, behind = view.incidents(), view.happened.signs(key)
    found = next((each for each in known if behind and each["key"] == behind[0].key), None)
    if found is None:
        similar = nearest(key, [each["key"] for each in known], 3)
        raise UnknownNameError(f"there is no incident {key}{similar} among {counted(len(known), 'incident')}")
    shown = {"drift": ["drift"], "emerged": ["emerged", "split"]}
    signs = {
        (each.stream or "", each.stamp, what)
        for each in behind
        for what in shown.get(each.rule, [f"{each.rule} opened"])
    }
    entries = [each for each in view.timeline if (each.stream, each.time, each.what) in signs]
    entries.sort(key=lambda each: (each.time, each.number), reverse=True)
    return {**found, **_incidents(view, [found])[0], "entries": as_json(entries[:MOST_ROWS], view.names)}


def _incidents(view: DeploymentView, found: Sequence[Incident]) -> list[dict[str, Any]]:
    """Return the open incidents and then those that are over, a line each."""
    shown = sorted(found, key=lambda each: not each["is_open"])[:MOST_INCIDENTS]
    names = ("key", "severity", "is_open", "is_learned", "since")
    return [
        {name: each[name] for name in names if name in each}  # type: ignore[literal-required]
        | {"text": with_names(each["text"], view.names.given, view.names)}
        for each in shown
    ]


def stream(view: DeploymentView, name: str) -> dict[str, Any]:
    """Return a stream: its clusters, their lives and shares; raises `UnknownNameError`."""
    known = known_stream(view, name)
    described = {each["id"]: each for each in view.details(name, MOST_ROWS)}
    history = known.history.as_json(MOST_LINES)
    clusters = [
        _cluster_row(known, id_, known.clusters[id_], each, list(described.values()))
        for id_, each in described.items()
        if id_ in known.clusters
    ]
    lines = _lines(known)
    return {
        **_row(known, view.alerts_by_stream[name]),
        "version": known.version,
        "drift": known.drift,
        "incidents": _incidents(view, [each for each in view.incidents() if name in each["streams"]]),
        "open": [dict(alert) for alert in view.alerts.alerts() if alert["stream"] == name][:MOST_ROWS],
        "history": history,
        "lines": lines,
        "range": _range(known, lines),
        "drifts": [{"time": moment_of(time), "cluster": cluster, "text": text} for time, cluster, text in known.drifts],
        "table": clusters,
        "names": _names(view, (row["id"] for row in (*lines, *clusters))),
        "left_out": len(known.clusters) - len(clusters),
        "events": as_json(view.timeline.select(50, stream=name), view.names),
    }


def cluster(view: DeploymentView, name: str) -> dict[str, Any]:
    """Return a cluster, present or ended: its profile, its share, where it comes from and what it became.

    Raises `UnknownNameError`.
    """
    known = known_stream(view, name.rsplit("/", 2)[0] if name.count("/") > 1 else name, what=name)
    events = as_json(view.timeline.select(50, cluster=name), view.names)
    ended = next((each for each in known.ended if each.id == name), None)
    lineage: dict[str, Any] = {
        "parent": known.parents.get(name),
        "children": [child for child, parent in known.parents.items() if parent == name],
        "absorbed": [
            {"id": each.id, "time": each.time, "size": each.size} for each in known.ended if each.heir == name
        ],
        "heir": None if ended is None else ended.heir,
    }
    ties = [lineage["parent"], lineage["heir"], *lineage["children"], *(each["id"] for each in lineage["absorbed"])]
    found: dict[str, Any] = {"id": name, "stream": known.name, "lineage": lineage, "events": events}
    found["names"] = _names(view, [name, *filter(None, ties)])
    present, detail = known.clusters.get(name), view.detail(name)
    history = known.history.as_json()
    found["history"] = {**history, "series": {name: history["series"].get(name, [])}}
    if present is not None and detail is not None:
        peers = [each for each in view.details(known.name, MOST_ROWS) if each["id"] != name]
        row = _cluster_row(known, name, present, detail, peers)
        more = {
            "profile": _profile(detail, peers),
            "keywords": detail.get("keywords", []),
            "omitted": detail.get("omitted", 0),
            "examples": _examples(view.examples(name)),
        }
        command = f"resonance inspect {shlex.quote(name)} --records"
        return found | row | more | {"present": True, "command": command}
    if ended is None and not events:
        similar = nearest(name, known.clusters, 3)
        raise UnknownNameError(
            f"stream {known.name} has no cluster {name}{similar}; one that ended long ago is no longer known"
        )
    gone = {} if ended is None else {"since": ended.since, "seen": ended.time, "how": ended.how, "size": ended.size}
    return found | {"present": False, "name": "", "profile": [], "examples": []} | gone


def events(view: DeploymentView, most: int, before: tuple[str, int] | None, **filters: Any) -> dict[str, Any]:
    """Return some entries of the timeline, the latest first; see `Timeline.select`."""
    found = view.timeline.select(min(most, MOST_ROWS), before=before, names=view.names, **filters)
    return {"entries": as_json(found, view.names), "newest": view.timeline.newest}


def missed(view: DeploymentView, after: int | None, most: int) -> list[dict[str, Any]]:
    """Return the newest entries after that of a number; none without one."""
    return [] if after is None else as_json(view.timeline.since(after)[-most:], view.names)


def dead_letters(view: DeploymentView) -> list[dict[str, Any]]:
    """Return the dead letters by reason, the most frequent first."""
    return [
        {"where": where, "stage": stage, "class": kind, **known, "count": round(known["count"])}
        for (where, stage, kind), known in sorted(view.dead_letters.items(), key=lambda each: -each[1]["count"])
    ]


def known_stream(view: DeploymentView, name: str, what: str = "") -> StreamView:
    """Return a stream; `UnknownNameError` offers similar ones, for the cluster `what` where that was searched."""
    known = view.streams.get(name)
    if known is None:
        similar = nearest(name, view.streams, 3)
        wanted = f"cluster {what}" if what else f"stream {name}"
        raise UnknownNameError(f"there is no {wanted}{similar} among {counted(len(view.streams), 'stream')}")
    return known


def _range(known: StreamView, lines: Sequence[Mapping[str, Any]]) -> list[int] | None:
    """Return the first and the last moment that the stream can be shown at; None before its first cluster."""
    moments = [line[end] for line in lines for end in ("born", "ended") if line[end] is not None]
    moments += [moment for cluster in known.clusters.values() if (moment := moment_of(cluster.seen)) is not None]
    last = moment_of(known.last)
    return [min(moments), max([*moments, last or 0])] if moments else None


def _names(view: DeploymentView, clusters: Iterable[str]) -> dict[str, str]:
    """Return what clusters are called, of those that have a name or come from one with a name."""
    if not view.named_streams:
        return {}
    return {each: str(found) for each in clusters if (found := view.names.of(each))}


def _examples(records: Iterable[Mapping[str, Any]]) -> list[dict[str, Any]]:
    """Return the typical records of a cluster: what they call themselves, where they stand and how typical they are."""
    return [
        {
            "id": _text(each["id"]),
            "where": place_text(each["source"]),
            "score": each["score"],
        }
        for each in records
    ]


def _text(id_: Any) -> str | None:
    """Return what a record calls itself as text: a browser rounds long numbers."""
    return id_ if id_ is None or type(id_) is str else exact_json.dumps(id_).decode()


def _magnitude(rate: float) -> int:
    """Return a number that grows with a rate in steps of some percent: streams that are alike keep their places."""
    part, power = math.frexp(rate)
    return 64 * power + int(64 * part) if rate else -(2**31)


def _novelty(stream: StreamView) -> float | None:
    return stream.novel / stream.rate if stream.rate else None


def _row(stream: StreamView, alerts: int) -> dict[str, Any]:
    return {
        "stream": stream.name,
        "rate": round(stream.rate, 2),
        "clusters": len(stream.clusters),
        "novelty": _novelty(stream),
        "drift": stream.drift,
        "alerts": alerts,
        "last": stream.last,
    }


def _cluster_row(
    stream: StreamView, name: str, known: Present, detail: Mapping[str, Any], peers: Sequence[Mapping[str, Any]]
) -> dict[str, Any]:
    # Numbers of an embedding say nothing beside its words.
    features = [] if detail.get("keywords") else sets_apart(detail, peers[:COMPARED])[:SHOWN]  # type: ignore[arg-type]
    return {
        "id": name,
        # What sets it apart.
        "name": centres(detail, features) or ", ".join(detail.get("keywords", ())),  # type: ignore[arg-type]
        "salient": [_feature(detail, feature, peers) for feature in features],
        "size": known.size,
        "share": stream.history.recent(name),
        "since": known.since,
        "seen": known.seen,
        "level": known.level,
        "parent": stream.parents.get(name),
    }


def _feature(detail: Mapping[str, Any], feature: str, peers: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    """Return a feature of a cluster beside the mean of the others, weighed by their sizes."""
    others = [
        (each["centre"][feature], each["size"])
        for each in peers
        if feature in each["centre"] and each["id"] != detail["id"]
    ]
    records = sum(size for _, size in others)
    rest = sum(centre * size for centre, size in others) / records if records else None
    return {
        "feature": feature,
        "centre": detail["centre"][feature],
        "spread": detail["spread"].get(feature, 0.0),
        "rest": rest,
    }


def _profile(detail: Mapping[str, Any], peers: Sequence[Mapping[str, Any]]) -> list[dict[str, Any]]:
    features = sets_apart(detail, peers[:COMPARED])[:MOST_FEATURES]  # type: ignore[arg-type]
    return [_feature(detail, feature, peers) for feature in features]


def _lines(stream: StreamView) -> list[dict[str, Any]]:
    """Return the lives of the clusters, each near those that it came from; times in milliseconds since 1970."""
    present = sorted(stream.clusters, key=lambda name: -stream.clusters[name].size)[:MOST_LINES]
    ended = list(stream.ended)[::-1][: MOST_LINES - len(present)]
    ends = {each.id: moment_of(each.time) for each in ended}
    lines = [
        LifeLine(name, moment_of(stream.clusters[name].since) or 0, 0, stream.clusters[name].level) for name in present
    ] + [LifeLine(each.id, moment_of(each.since) or 0, 0, each.level, heir=each.heir) for each in ended]
    for line in lines:
        line.parent = stream.parents.get(line.name)
    lines.sort(key=lambda line: line.born)
    return [
        {
            "id": line.name,
            "born": line.born or None,
            "ended": ends.get(line.name),
            "parent": line.parent,
            "heir": line.heir,
            "level": line.level,
        }
        for line in in_order(lines)
    ]
