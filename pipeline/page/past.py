"""A stream as it was at a time: its stored events and drift up to then, folded anew."""

from collections.abc import Iterable

import orjson
from resonance.pipeline.page.answers import UnknownNameError, known_stream
from resonance.pipeline.page.view import DeploymentView, moment_of
from resonance.pipeline.records import Record
from resonance.pipeline.timestamps import canonical
from resonance.schemas import ClusterEvent, describe_cluster, describe_end


def view_at(now: DeploymentView, outputs: Iterable[tuple[str, Record]], stream: str, moment: int) -> DeploymentView:
    """Return what was known of a stream at a time in milliseconds since 1970, from its stored outputs.

    Names are those of today. Raises `UnknownNameError` where the stream was not there, or its events are deleted.
    """
    past = DeploymentView(now.name)
    since: dict[str, str] = {}
    read = ((past.read_output(kind, record, peers=False), record) for kind, record in outputs)
    own = [(entry, record) for entry, record in read if entry is not None and entry.stream == stream]
    own.sort(key=lambda each: each[0].time)
    for entry, record in own:
        if (moment_of(entry.time) or 0) <= moment:
            if entry.kind == "events":
                _apply(past, orjson.loads(record.value or b"null"), since)
            past.add(entry)
    if stream not in past.streams:
        if not own:
            known_stream(now, stream)
        stored = f"are stored from {own[0][0].time} on" if own else "are not stored any more"
        raise UnknownNameError(f"stream {stream} had no cluster at {canonical(moment)}; its events {stored}")
    past.names, past.named_streams = now.names, now.named_streams
    if stream in now.streams:
        past.streams[stream].history = now.streams[stream].history.until(moment)
    return past


def _apply(past: DeploymentView, event: ClusterEvent, since: dict[str, str]) -> None:
    """Write the clusters of an event as the compacted topic would have them."""
    after = {cluster["id"] for cluster in event["after"]}
    for cluster in event["after"]:
        began = since.setdefault(cluster["id"], event["time"])
        past.apply_cluster(cluster["id"].encode(), orjson.dumps(describe_cluster(cluster, event, began)))
    for cluster in event["before"]:
        ends = event["kind"] in ("version_started", "stream_ended") or cluster["id"] == event["cluster"]
        if ends and cluster["id"] not in after:
            ended = describe_end(cluster, event, since.get(cluster["id"]))
            past.apply_cluster(cluster["id"].encode(), orjson.dumps(ended))
