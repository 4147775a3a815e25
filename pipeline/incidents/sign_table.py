"""The signs of incidents in outputs."""

from bisect import bisect_left, bisect_right
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from functools import partial
from math import inf
from operator import attrgetter, itemgetter
from statistics import median
from typing import Any, Final, get_args

from resonance.pipeline.incidents.daily_hours import mark_daily_hours
from resonance.pipeline.incidents.differences import is_little, named_by_cluster, not_little
from resonance.pipeline.incidents.drift_features import VARIES, clearest, instead_of, moves_of, without_features
from resonance.pipeline.incidents.endings import end_with_alerts, ends_of
from resonance.pipeline.incidents.known_places import mark_known_places
from resonance.pipeline.incidents.passages import mark_new_ones, mark_passages
from resonance.pipeline.incidents.signs import IN_ORDER, NewCluster, Sign, Value, describes, seconds, stream_of
from resonance.pipeline.incidents.silences import MARKED, UNREADABLE, ended_by, heard, silences_of
from resonance.pipeline.task.alerts.alert_table import place_of
from resonance.pipeline.task.alerts.sentences import one_of
from resonance.schemas import AlertSeverity

FOLLOWED: Final = ("alerts", "drift_events", "cluster_events")
"""Kinds of outputs from which incidents are made."""

MOST: Final = 20_000
"""Alerts, drifts and new clusters that are kept: those with the newest records."""

UNMOVED: Final = 1e-6
"""Most spreads from where it was of a stuck feature that has always been there, but for a rare count."""

LATE_RECORDS: Final = 5_000
"""Records without a new cluster after which one that is far from all others is news, however few records it has."""

SOON_RECORDS: Final = 90
"""Most records from the first unlike ones of a stream until they are a cluster: earlier ones are another matter."""

_NAMED: Final = itemgetter("feature", "value", "low", "high")

Place = tuple[float, ...]
"""Seconds and offset of the record that caused an output, and its number where a message has many records."""

Table = dict[Any, tuple[Place, Mapping[str, Any]]]
"""The newest payload of each key, with where it is from."""


def _put(table: Table, key: Any, at: Place, payload: Mapping[str, Any]) -> None:
    """Take over a payload: in whichever order they come, those of the `MOST` newest keys stay."""
    if key not in table or table[key][0] <= at:
        table[key] = at, payload
    if len(table) > 2 * MOST:
        _prune(table)


def _prune(table: Table) -> None:
    if len(table) > MOST:
        for key in sorted(table, key=lambda each: (table[each][0], each))[:-MOST]:
            del table[key]


class SignTable:
    """The signs in outputs, which come in any order and as often as they like."""

    def __init__(self) -> None:
        # Alerts by their keys, drifts by stream, version and number, and the events that say that a cluster is there.
        self._alerts: Table = {}
        self._cleared: Table = {}
        self._drifts: Table = {}
        self._settled: Table = {}
        self._vanished: Table = {}
        self._begun: Table = {}
        self._described: Table = {}
        # What clusters are since others split from them, or were absorbed by them.
        self._left: Table = {}
        # Offsets and seconds of the first and the last output of each log, and of each stream in it.
        self._spans: dict[tuple[str, int, str | None], tuple[tuple[int, float], tuple[int, float]]] = {}
        self._streams: dict[str, tuple[str, int]] = {}
        # The times that logs have come to, where more is known than by their outputs.
        self._reached: dict[tuple[str, int], float] = {}
        # The largest index of a record in a message of each log, and when drift of each stream was cleared last.
        self._many: dict[tuple[str, int], int] = {}
        self._drift_ended: dict[str | None, float] = {}
        self._paces: dict[str, float] | None = None

    def apply(self, kind: str, payload: Mapping[str, Any]) -> None:
        """Take over an output; one of another kind, or of a later release, changes nothing."""
        try:
            source, time, stream = payload["cause"]["source"], seconds(payload["time"]), payload["stream"]
            if not isinstance(stream, str | None):
                return
            log, at = (source["topic"], int(source["partition"])), (time, int(source["offset"]))
            place = at[::-1]
            if kind == "alerts":
                self._alert(payload, at)
            elif kind == "drift_events":
                self._drift(payload, at)
            elif kind == "cluster_events":
                self._cluster(payload, at)
            else:
                return
            self._paces = None
            # Of many records in a message none says how many there are; the largest index is near it.
            self._many[log] = max(self._many.get(log, 0), source.get("index", 0))
            # An alert that a command clears has the time of the command, and silence is seen by a record of another.
            seen = {None} if payload.get("rule") == "silent" else {None, stream}
            for whose in seen if kind != "alerts" or "reason" not in payload else ():
                first, last = self._spans.get((*log, whose), (place, place))
                self._spans[*log, whose] = min(first, place), max(last, place)
            if stream is not None:
                self._streams[stream] = max(self._streams.get(stream, log), log)
        except UNREADABLE:
            return

    def reached(self, topic: str, partition: int, time: float) -> None:
        """Note until which time the records of a log are known, in seconds."""
        self._reached[topic, partition] = max(self._reached.get((topic, partition), 0.0), time)

    def _now(self, stream: str | None) -> float:
        """Return the time that the log of a stream has come to, by its last output, or more."""
        log = self._streams.get(stream or "", ("", 0))
        return max(self._spans.get((*log, None), ((0, 0.0), (0, 0.0)))[1][1], self._reached.get(log, 0.0))

    def _alert(self, payload: Mapping[str, Any], at: Place) -> None:
        is_text = all(isinstance(payload[name], str) for name in ("key", "rule", "text"))
        if not is_text or not isinstance(payload["seq"], int) or payload["severity"] not in get_args(AlertSeverity):
            return
        if payload["rule"] != "drift_open":  # The drift itself says more, but not that its model is gone.
            table = self._alerts if payload["kind"] == "opened" else self._cleared
            _put(table, payload["key"], at, payload)
        elif payload["kind"] == "cleared":
            self._drift_ended[payload["stream"]] = max(self._drift_ended.get(payload["stream"], -inf), at[0])

    def _drift(self, payload: Mapping[str, Any], at: Place) -> None:
        stream, version, seq = payload["stream"], payload["version"], payload["seq"]
        if not isinstance(stream, str) or not isinstance(version, int) or not isinstance(seq, int):
            return
        if payload["kind"] == "drift":
            _put(self._drifts, (stream, version, seq), at, payload)
        elif payload["kind"] in ("settled", "recovered"):
            _put(self._settled, (stream, version, payload["opened"]), at, payload)

    def _cluster(self, payload: Mapping[str, Any], at: Place) -> None:
        kind, name = payload["kind"], payload["cluster"]
        if kind in ("emerged", "split", "absorbed"):
            after = {each["id"]: each for each in payload["after"]}
            if kind != "absorbed":
                begun = after.pop(name)
                # Most records of what splits off are older than the split.
                size = float(begun["size"]) if kind == "emerged" else 0.0
                _put(self._begun, name, at, {"size": size, **_extent(begun), "time": payload["time"]})
            for other, left in after.items():
                _put(self._left, (other, at), at, {**_extent(left), "time": payload["time"]})
        elif kind == "vanished":
            _put(self._vanished, name, at, {})
        elif kind == "described":
            found = {"keywords": [*map(str, payload["after"][0]["keywords"])]}
            _put(self._described, name, (*at, int(payload["seq"])), found)

    @property
    def streams(self) -> list[str]:
        """Every stream that had outputs."""
        return sorted(self._streams)

    def paces(self) -> dict[str, float]:
        """Return about how many seconds there are between two records of each stream."""
        if self._paces is not None:
            return self._paces
        nothing = (0, 0.0), (0, 0.0)
        spans = {stream: self._spans.get((*log, stream), nothing) for stream, log in self._streams.items()}
        logs: dict[tuple[str, int], list[str]] = {}
        for stream, log in self._streams.items():
            logs.setdefault(log, []).append(stream)
        result = {}
        for log, streams in logs.items():
            begins, ends = (sorted(spans[stream][side][0] for stream in streams) for side in (0, 1))
            for stream in streams:
                (first, began), (last, ended) = spans[stream]
                # Of one device behind the other, each begins as long before the next as its own outputs go, or longer.
                # Where the first outputs of some have expired these begin later than others, and go on with them.
                before = min(bisect_left(begins, 2 * first - last), bisect_left(ends, first))
                shared = bisect_right(begins, last) - before
                if 2 * shared > len(streams) or first == last:
                    shared, ((first, began), (last, ended)) = len(streams), self._spans.get((*log, None), nothing)
                # The last record may be of an earlier time.
                records = (last - first) * (self._many.get(log, 0) + 1)
                result[stream] = shared * abs(ended - began) / max(1, records)
        self._paces = result
        return result

    def clusters(self) -> list[NewCluster]:
        """Return the clusters that came, of all streams, the earliest first."""
        paces, silences, found = self.paces(), silences_of(self._alerts, self._cleared), []
        for key, (_, begun) in self._begun.items():
            stream, time = stream_of(key), seconds(begun["time"])
            onset = heard(time - paces.get(stream, 0.0) * begun["size"], time, silences.get(stream, ()))
            found.append(NewCluster(key, stream, onset, time, begun["centre"], begun["spread"]))
        return sorted(found, key=attrgetter("time", "key"))

    def unseen(self, clusters: Iterable[NewCluster]) -> dict[str, list[Sign]]:
        """Return those of the `clusters` that came while an alert `unlike` of their stream was open, by its key."""
        lasting: dict[str, list[tuple[float, float, str]]] = {}
        for key, (at, alert) in self._alerts.items():
            if alert["rule"] == "unlike":
                cleared = ended_by(alert, self._cleared.get(key))
                lasting.setdefault(alert["stream"], []).append((at[0], cleared[0][0] if cleared else inf, key))
        named = {alert.get("cluster") for _, alert in self._alerts.values()}
        found: dict[str, list[Sign]] = {}
        for cluster in clusters:
            for begin, end, key in lasting.get(cluster.stream, ()) if cluster.key not in named else ():
                if begin <= cluster.time <= end:
                    learned = cluster.key not in self._vanished
                    found.setdefault(key, []).append(replace(cluster.sign, is_learned=learned))
        return found

    def late(self, clusters: Iterable[NewCluster], unseen: Mapping[str, Sequence[Sign]]) -> list[Sign]:
        """Return those of the `clusters`, the earliest first, that came long after the others, and that no alert shows.

        An alert on them needs a share of the records that is many times that of a rare kind.
        """
        paces, newest, found = self.paces(), dict[str, float](), list[Sign]()
        named = {alert.get("cluster") for _, alert in self._alerts.values()}
        named |= {sign.key for signs in unseen.values() for sign in signs}
        for cluster in clusters:
            before = newest.get(cluster.stream, inf)
            newest[cluster.stream] = cluster.time
            is_late = cluster.onset - before >= LATE_RECORDS * paces.get(cluster.stream, inf)
            if is_late and cluster.key not in named and cluster.key not in self._vanished:
                found.append(replace(cluster.sign, is_learned=True))
        return found

    def prune(self) -> None:
        """Keep the `MOST` newest payloads of each kind."""
        of_clusters = self._begun, self._vanished, self._described, self._left
        for table in (self._alerts, self._cleared, self._drifts, self._settled, *of_clusters):
            _prune(table)

    def signs(self, own: Mapping[str, Sequence[NewCluster]]) -> list[Sign]:
        """Return the signs, the earliest first, beside each stream's `own` clusters, the earliest first, too."""
        paces = self.paces()
        usual = median(paces.values()) if paces else 0.0
        # Of a share that changed the drift says more, as of all that it opens.
        seen = {(each["stream"], each["time"]) for _, each in self._drifts.values()}
        made: list[Callable[[], Sign | None]] = [
            partial(self._of_alert, each, paces.get(each["stream"], usual))
            for _, each in self._alerts.values()
            if each["rule"] != "share" or (each["stream"], str(each.get("since"))) not in seen
        ]
        ends = ends_of(self._drifts, self._settled)
        made += [
            partial(self._of_drift, key, each, ends.get(key, 0.0), own.get(key[0], ()))
            for key, (_, each) in self._drifts.items()
        ]
        found = list[Sign]()
        for make in made:
            with suppress(*UNREADABLE):  # It is of no worker.
                found += [sign] if (sign := make()) is not None else []
        _begin_with_clusters(found, own, paces)
        left = self._left_clusters()
        for sign in (each for each in found if each.rule == "unlike"):
            known = own.get(sign.place, ()), left.get(sign.place, ())
            if is_little(sign, *known):
                sign.is_little, sign.severity = True, "info"
            elif not sign.values:
                sign.values = named_by_cluster(sign, *known)
        mark_passages(found, own, left, paces, self._now)
        mark_new_ones(found, own, left)
        silences = silences_of(self._alerts, self._cleared)
        quiet = {sign.place: sign.onset for sign in found if sign.rule == "silent" and sign.is_open}
        for sign in found:
            sign.heard = quiet.get(sign.place, inf)
            if sign.rule != "silent":
                slack = MARKED * paces.get(sign.place, 0.0) if sign.rule == "drift" else 0.0
                sign.onset = heard(sign.onset, sign.time, silences.get(sign.place, ()), slack)
        end_with_alerts(found, own)
        mark_known_places(found, own, left)
        mark_daily_hours(found, own, paces)
        return sorted(found, key=IN_ORDER)

    def _left_clusters(self) -> dict[str, list[NewCluster]]:
        """Return what the clusters of each stream are since one split off or was absorbed, the earliest first."""
        found: dict[str, list[NewCluster]] = {}
        for (name, _), (_, each) in self._left.items():
            stream, time = stream_of(name), seconds(each["time"])
            found.setdefault(stream, []).append(NewCluster(name, stream, time, time, each["centre"], each["spread"]))
        return {stream: sorted(own, key=attrgetter("time", "key")) for stream, own in found.items()}

    def _of_alert(self, alert: Mapping[str, Any], pace: float) -> Sign:
        rule, since, evidence = alert["rule"], alert["since"], alert["evidence"]
        time, records = seconds(since), evidence.get("records", 0.0)
        onset, centre, keywords = time, {}, []
        if "began" in alert:
            onset = seconds(alert["began"])
        elif rule in ("unlike", "unconfirmed"):
            onset -= pace * max(records - 1.0, 0.0)
        elif rule == "silent":
            onset -= evidence.get("seconds", 0.0)
        if rule == "new_cluster" and alert.get("cluster") in self._begun:
            begun = self._begun[alert["cluster"]][1]
            centre = begun["centre"]
            if "began" not in alert:
                onset = seconds(begun["time"]) - pace * begun["size"]
            if alert["cluster"] in self._described:
                keywords = self._described[alert["cluster"]][1]["keywords"]
        onset = max(min(onset, time), min(time, 0.0))
        cleared = ended_by(alert, self._cleared.get(alert["key"]))
        at_end = cleared[1]["evidence"] if cleared else {}
        silent = lasts = at_end.get("seconds", 0.0) if rule == "silent" else 0.0
        if rule == "silent" and not cleared and "seconds" in evidence:
            lasts = max(self._now(alert["stream"]), time) - onset
        until = onset + silent if silent else 0.0
        # A new cluster clears when it is no longer new, and a command clears when it runs.
        is_known = cleared and rule != "new_cluster" and "reason" not in cleared[1]
        stays = 2 * at_end.get("outside", 0.0) > len(alert.get("features", ()))
        unlike = count = share = 0.0
        if rule == "new_cluster":
            share = evidence.get("share", 0.0)
        elif rule == "unlike":
            unlike, count = evidence.get("unlike", records) / (records or 1.0), at_end.get("unlike", 0.0)
            # While it is open no alert says how many of the records a new cluster has.
            share = count / (at_end.get("records", 0.0) or inf) if stays else 0.0
        ended = until or (cleared[0][0] if cleared and is_known else 0.0)
        return Sign(
            alert["key"], place_of(alert), alert["stream"], rule, alert["severity"], time, onset, since,
            _lacking(evidence, at_end) if rule == "missing" else alert["text"],
            centre=centre, keywords=keywords, is_open=not cleared, unlike=unlike, count=count,
            is_known=bool(evidence.get("known")), lacks=str(alert["feature"]) if rule == "missing" else "",
            until=until, silent=lasts, usual=evidence.get("usual_seconds", 0.0),
            ended=ended, over=_over(onset, ended, evidence, at_end),
            is_learned=stays or (rule == "new_cluster" and alert.get("cluster") not in self._vanished),
            share=float(share), is_back=rule == "unlike" and at_end.get("outside") == 0,
            values={name: Value(*map(float, own)) for name, *own in map(_NAMED, alert.get("features", ()))},
        )  # fmt: skip

    def _of_drift(
        self, key: tuple[str, int, int], drift: Mapping[str, Any], over: float, clusters: Iterable[NewCluster]
    ) -> Sign | None:
        """Return a drift as a sign; None for a rare count that has not come for a while."""
        stream, version, seq = key
        ended = self._settled[key][1] if key in self._settled else None
        time = seconds(drift["time"])
        onset = seconds(drift["since"]["time"]) if "since" in drift else time
        drifts = f"{stream}/{version}/drift"
        units = [unit for unit in drift.get("units", ()) if unit["features"]]
        is_beside = bool(units) and all(unit.get("beside") for unit in units)
        moves, varies = (moves_of(changes, is_beside, ended, drift) for changes in (("moved",), VARIES))
        first = moves_of(("moved", *VARIES), is_beside, drift)
        if first and all(move.is_stuck and abs(move.shift) <= UNMOVED for move in first.values()):
            return None
        moved = moves_of(("moved",), is_beside, drift)
        if all(move.is_noise for move in moved.values()):
            # Of a drift that moved nothing the end also names what a wave has done meanwhile.
            moves, varies = ({name: each[name] for name in first if name in each} for each in (moves, varies))
        before = [cluster for cluster in clusters if cluster.time <= onset]
        # What goes farther from record to record has also moved meanwhile, as a mean of few of them does.
        jumps = {name: move for name, move in moved.items() if move.steps}
        moves, varies = clearest(moves, varies, moves_of(VARIES, is_beside, drift) | jumps, before)
        varies |= {name: move for name, move in moves.items() if move.is_noise and move.is_stuck}
        some = not_little(moves, before)
        is_little, moves = bool(moves) and not some and not varies, some or moves
        is_vague = not (moves or varies) and all(unit["change"] == ["together"] for unit in drift.get("units", ()))
        return Sign(
            f"{drifts}/{seq}", stream, stream, "drift", "warning", time, min(onset, time), drift["time"],
            next(map(without_features, drift.get("units", ())), ""),
            moves=moves, late=moves.keys() - moved.keys(), seen={name: move.after for name, move in first.items()},
            varies=varies, is_little=is_little,
            instead=instead_of(ended), is_beside=is_beside, is_vague=is_vague,
            continues=f"{drifts}/{drift['continues']}" if "continues" in drift else "",
            is_whole=drift.get("scope") == "stream",
            is_open=ended is None and self._drift_ended.get(stream, -inf) < time,
            is_learned=over == inf,
            ended=over if over < inf else 0.0, over=over if over < inf else 0.0,
            until=inf if ended is None else seconds(ended["time"]),
        )  # fmt: skip


def _over(onset: float, ended: float, evidence: Mapping[str, Any], at_end: Mapping[str, Any]) -> float:
    """Return about when what an alert shows was over: after the last of its records, if these came as in the beginning.

    It clears some time later, as usual records have to come for that.
    """
    count = next((name for name in ("unlike", "missing") if name in at_end), "")
    if not (ended and count and evidence.get("records") and evidence.get(count) and at_end.get("records")):
        return ended
    records = float(at_end[count]) * float(evidence["records"]) / float(evidence[count])
    return onset + (ended - onset) * min(1.0, records / max(1.0, float(at_end["records"]) - 1.0))


def _lacking(evidence: Mapping[str, Any], at_end: Mapping[str, Any]) -> str:
    """Return in how many records a feature is missing, as an alert knows it at its end or so far, and usually."""
    last = {**evidence, **at_end}
    # In a row it knows that at its end; where they are too many of some, from the beginning.
    of = f" of {last['records']:,.0f}" if evidence.get("records") else ""
    count = f"in {last['missing']:,.0f}{of} records, " if of or "missing" in at_end else ""
    usually = one_of(evidence["usual"], " of them" if count else " of the records")
    return f"{count}usually {f'in {usually}' if evidence['usual'] > 0 else 'never missing'}"


def _begin_with_clusters(
    signs: Sequence[Sign], own: Mapping[str, Sequence[NewCluster]], paces: Mapping[str, float]
) -> None:
    """Let alerts begin with the cluster that they show, where records had been unlike long before for another."""
    shares = {id(sign.centre): sign.share for sign in signs if sign.share}
    for sign in (each for each in signs if each.rule in ("unlike", "new_cluster")):
        # Of a kind that was there before, or that split off, this is not known.
        shown = (
            each
            for each in own.get(sign.place, ())
            if each.time <= sign.time and (each.centre is sign.centre or describes(sign.values, each.centre))
        )
        first = next(shown, None)
        share = first and shares.get(id(first.centre), sign.unlike)
        if first and share and first.onset < first.time:
            onset = first.time - (first.time - first.onset) / min(1.0, share)
            if onset - sign.onset > SOON_RECORDS * paces.get(sign.place, inf):
                sign.onset = onset


def _extent(cluster: Mapping[str, Any]) -> dict[str, dict[str, float]]:
    """Return where a cluster is, and how wide."""
    whole = {"centre": cluster["centre"], "spread": cluster.get("spread", {})}
    return {what: {name: float(value) for name, value in own.items()} for what, own in whole.items()}
