"""Outputs of the streams of a fleet, and the incidents that they make."""

from jsonschema import Draft202012Validator
from resonance.pipeline.incidents.incidents import IncidentTable
from resonance.schemas import load_schema


def output(topic, stream, minute, **members):
    """An output of a stream whose records come every minute."""
    time = f"2026-05-{6 + minute // 1_440:02}T{minute // 60 % 24:02}:{minute % 60:02}:00.000Z"
    source = {"topic": "t", "partition": int(stream[1]), "offset": 2 * minute}
    return topic, {"stream": stream, "version": 1, "time": time, "cause": {"id": None, "source": source}, **members}


def alert(stream, minute, rule="unlike", kind="opened", severity="critical", **evidence):
    """An alert, whose text is its rule."""
    made = output("alerts", stream, minute, kind=kind, rule=rule, severity=severity, text=rule)
    made[1].update(key=f"alert/{rule}/{stream}/1/0", since=made[1]["time"], seq=minute)
    made[1]["evidence"] = evidence or {"records": 5.0}
    return made


def drift(stream, minute, seq=0, scope="cluster", **moves):
    """A drift, of features that went from one value to another, and vary so many times as much."""
    features = [
        {
            "feature": name,
            "change": "moved",
            "before": before,
            "after": after,
            "shift": after - before,
            "spread": 1,
            "ratio": ratio[0] if ratio else 1,
        }
        for name, (before, after, *ratio) in moves.items()
    ]
    since = {"offset": 0, "time": output("", stream, minute - 5)[1]["time"]}
    units = [{"cluster": None, "change": ["moved"], "features": features}]
    return output("drift_events", stream, minute, kind="drift", seq=seq, scope=scope, since=since, units=units)


def apart(stream, minute, seq=0, **moves):
    """A drift of features beside what the others of their records say."""
    kind, event = drift(stream, minute, seq, scope="stream", **moves)
    event["units"][0]["beside"] = True
    return kind, event


def incidents(*outputs, streams=4, every=1):
    """The incidents of a fleet whose streams have an output at the beginning of the day and at its end.

    Records come `every` so many minutes.
    """
    table = IncidentTable()
    quiet = [
        output("cluster_events", f"p{n % 2}:d{n}", minute, kind="vanished", cluster=None, after=[], before=[])
        for n in range(streams)
        for minute in (0, 1_439)
    ]
    for kind, payload in [*quiet, *outputs]:
        rarer = payload
        if every > 1:
            source = payload["cause"]["source"]
            rarer = {**payload, "cause": {"source": {**source, "offset": source["offset"] / every}}}
        table.apply(kind, rarer)
    found = table.incidents()
    for each in found:
        Draft202012Validator(load_schema("incident")).validate(each)
    return found


def named(made, **features):
    """An alert that names features, each with its value and what it usually is, give or take a tenth."""
    made[1]["features"] = [
        {"feature": name, "value": value, "low": 0.9 * usual, "high": 1.1 * usual}
        for name, (value, usual) in features.items()
    ]
    return made


def again(made):
    """Let an alert be another one of its stream, after one that it had before."""
    made[1]["key"] += "again"
    return made


def emerged(stream, minute, number=7, spread=0.0, **centre):
    """A cluster of a stream emerges, each feature of which varies by a part of it."""
    cluster = {"id": f"{stream}/1/{number}", "size": 5, "centre": centre}
    if spread:
        cluster["spread"] = {name: spread * abs(mean) for name, mean in centre.items()}
    return output("cluster_events", stream, minute, kind="emerged", cluster=cluster["id"], after=[cluster])


BROKE = [alert("p1:d1", 300), drift("p1:d1", 310, heat=(6.2, 38.0))]


WORK = [
    *(alert(f"p{n % 2}:d{n}", 300 + n) for n in (0, 2, 3)),
    *(drift(f"p{n % 2}:d{n}", 320, load=(2, 5)) for n in (0, 2, 3)),
]


NEW = alert("p1:d1", 480, "new_cluster", severity="info", share=0.9)
NEW[1]["cluster"] = "p1:d1/1/9"


def changed(name, kind, **members):
    """What a drift, or its end, says of a feature."""
    feature = {"feature": name, "change": kind, "before": 6.2, "after": 6.5, "spread": 1, **members}
    return [{"cluster": None, "change": [kind], "features": [feature]}]


def split(stream, minute, number, left, began):
    """A cluster splits off, and leaves another."""
    after = [{"id": f"{stream}/1/{n}", "size": 5, "centre": each} for n, each in ((0, left), (number, began))]
    return output("cluster_events", stream, minute, kind="split", cluster=after[1]["id"], after=after)


NIGHTS = split("p1:d1", 100, 1, {"heat": 60.0, "load": 5.0}, {"heat": 12.0, "load": 0.0})
