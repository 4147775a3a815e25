"""Outputs of a deployment `shop`, as they stand on its topics."""

import orjson
from resonance.pipeline.records import Record

NAME = "shop"


def time_of(second):
    return f"2026-01-05T08:{second // 60:02d}:{second % 60:02d}.000Z"


def cluster(name, size=100, second=0, since=0, **more):
    """A message of the clusters topic: key and value."""
    stream, version, place = name.rsplit("/", 2)
    latency = 100.0 * (int(place.split(".")[-1]) + 1)
    value = {
        "id": name,
        "stream": stream,
        "version": int(version),
        "level": place.count(".") + 1,
        "size": size,
        "centre": {"errors": 2.0, "latency_ms": latency},
        "spread": {"latency_ms": 5.0, "errors": 1.0},
        "nodes": 3,
        "since": time_of(since),
        "seq": 0,
        "time": time_of(second),
        **more,
    }
    return name.encode(), orjson.dumps(value)


def snapshot(name):
    value = orjson.loads(cluster(name)[1])
    return {member: value[member] for member in ("id", "size", "centre", "spread", "nodes")}


def said_of(stream, second=0, **members):
    """What every output about a stream has, caused by a record of its second, with members of its own."""
    source = {"topic": "orders", "partition": 0, "offset": second}
    common = {"stream": stream, "version": 1, "seq": 0, "cause": {"id": None, "source": source}}
    return common | {"time": time_of(second)} | members


def event(kind, name, seq=0, second=0, other=None):
    ended, more = kind in ("absorbed", "vanished"), {} if other is None else {"other": other}
    before, after = [snapshot(name)] * ended, [snapshot(name)] * (not ended)
    own = {"kind": kind, "level": 1, "seq": seq, "cluster": name, "before": before, "after": after}
    return said_of(name.rsplit("/", 2)[0], second, **own, **more)


def version_started(stream, version, second=0):
    own = {"version": version, "cluster": None, "after": []}
    return event("version_started", f"{stream}/{version}/0", 0, second) | own


def drift(kind, name, seq=0, second=0):
    unit = {"cluster": name, "change": ["moved"], "features": []}
    own = {"kind": kind, "seq": seq, "detector": "watch", "criterion": "evidence", "value": 2.0, "threshold": 1.0}
    return said_of(name.rsplit("/", 2)[0], second, **own, cluster=name, units=[unit])


def alert(kind, stream, second=0, severity="critical"):
    own = {"kind": kind, "rule": "unlike", "key": f"orders/unlike/{stream}/1/0", "severity": severity, "evidence": {}}
    text = f"{stream} is unlike what its model knows"
    return said_of(stream, second, **own, text=text, since=time_of(second))


def answer(stream, number, second=0, *, novel=False):
    name = None if number is None else f"{stream}/1/{number}"
    said = said_of(stream, second, status="assigned", cluster=name, clusters=[name] * (name is not None))
    said |= {**said.pop("cause"), "score": 0.9, "novel": novel, "path": [1]}
    del said["seq"]
    return said


def record(value, topic="shop.cluster-events", offset=0):
    return Record(topic, 0, offset, 0, b"k", orjson.dumps(value))
