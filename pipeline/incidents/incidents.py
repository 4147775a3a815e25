"""Incidents: what happened, with its cause, as a function of the outputs of a deployment."""

from bisect import bisect_left, bisect_right
from collections.abc import Collection, Iterable, Mapping, Sequence
from itertools import chain, groupby
from math import inf
from operator import attrgetter
from typing import Any, Final

from resonance.pipeline import exact_json
from resonance.pipeline.errors import minute
from resonance.pipeline.incidents.agreement import are_close, is_as_far
from resonance.pipeline.incidents.differences import says_nothing
from resonance.pipeline.incidents.endings import over_since
from resonance.pipeline.incidents.episodes import ABOUT_RECORDS, ECHO_SECONDS, MANY, Episode, episodes
from resonance.pipeline.incidents.excursions import Excursions, groups
from resonance.pipeline.incidents.grouping import together
from resonance.pipeline.incidents.known_places import with_news
from resonance.pipeline.incidents.merging import again, came_first, with_fleet, with_nameless, without_earlier
from resonance.pipeline.incidents.named_features import features_of, features_of_way
from resonance.pipeline.incidents.returns import with_ends
from resonance.pipeline.incidents.sentences import cause_of, names_of
from resonance.pipeline.incidents.sign_table import SignTable
from resonance.pipeline.incidents.signs import ABRUPT, IN_ORDER, NewCluster, Sign, seconds, stamp
from resonance.pipeline.incidents.states import ends_of_most
from resonance.pipeline.incidents.states import lasting as lasting_of
from resonance.pipeline.incidents.units import BROKEN, Rescaled, by_kinds, rescaled
from resonance.pipeline.records import Record
from resonance.pipeline.stream_keys import readable
from resonance.schemas import AlertSeverity, Incident, IncidentFeature, IncidentKind

PEERS: Final = 200
"""Streams of a fleet with which one that broke is compared."""

NEARLY_ALL: Final = 0.9
"""Share of the records of a new kind that have a value of a category from which it is named."""

COLUMNS: Final = ("severity", "state", "what happened (times in UTC)")
"""Names of what `row_of` returns."""

_URGENCY: Final = ("info", "warning", "critical")


class IncidentTable:
    """The incidents of a deployment, from its alerts, drifts and cluster events.

    They are a function of the outputs and the times of records alone: outputs may come in any order, and twice.
    """

    def __init__(self) -> None:
        self._signs = SignTable()
        self._groups: list[list[Episode]] = []
        self._kinds: dict[str, list[NewCluster]] = {}
        self._is_changed = False

    def apply(self, kind: str, payload: Mapping[str, Any]) -> None:
        """Take over an output; `kind` is that of its topic (``alerts``, ``drift_events``, ``cluster_events``)."""
        self._signs.apply(kind, payload)
        self._is_changed = True

    def reached(self, topic: str, partition: int, time: float) -> None:
        """Note until which time the records of a log are known, in seconds, where its outputs do not say it."""
        self._signs.reached(topic, partition, time)
        self._is_changed = True

    def read(self, kind: str, records: Iterable[Record]) -> None:
        """Take over the records of a topic of outputs; what is none of them changes nothing."""
        for record in records:
            try:
                payload = exact_json.loads(record.value or b"null")
            except ValueError:
                continue
            self.apply(kind, payload)

    @property
    def streams(self) -> list[str]:
        """Every stream that had outputs."""
        return self._signs.streams

    def incidents(self, streams: int = 0) -> list[Incident]:
        """Return the incidents, the newest first; `streams` is how many there are, where more than have outputs."""
        if self._is_changed:
            self._is_changed = False
            self._signs.prune()
            count = len(self._signs.streams)
            paces, clusters = self._signs.paces(), self._signs.clusters()
            by_stream = attrgetter("stream")
            self._kinds = {each: [*own] for each, own in groupby(sorted(clusters, key=by_stream), by_stream)}
            every = [sign for sign in self._signs.signs(self._kinds) if not sign.is_daily]
            signs = [sign for sign in every if not says_nothing(sign)]
            nameless = episodes((sign for sign in every if sign.rule == "unlike" and says_nothing(sign)), paces)
            unseen = self._signs.unseen(clusters)
            late = self._signs.late(clusters, unseen)
            excursions = Excursions.of([*signs, *late, *chain.from_iterable(unseen.values())], clusters, paces)
            signs = sorted([*signs, *excursions.far(late)], key=IN_ORDER)
            divided = with_fleet(without_earlier(together(episodes(signs, paces))), excursions, count)
            divided = with_ends(again(groups(divided, excursions, unseen)))
            begun = {stream: own[0].time for stream, own in self._kinds.items()}
            self._groups = with_news(with_nameless(divided, nameless, count), begun, count)
        known = max(len(self._signs.streams), streams)
        centres = {each: [kind.centre for kind in self._kinds[each]] for each in sorted(self._kinds)[:PEERS]}
        first = came_first(self._groups)
        found, larger = list[tuple[Incident, list[Episode]]](), list[Incident]()
        for group in sorted(self._groups, key=len, reverse=True):
            before = next((first[each.key] for each in group[0].signs if each.key in first), 0.0)
            incident = _incident(group, known, centres, self._kinds, larger, before)
            found.append((incident, group))
            if len(group) >= MANY:
                larger.append(incident)
        compared = self._signs.streams if known == len(self._signs.streams) else []
        for incident, _ in found:
            incident["text"] = f"{names_of(incident['streams'], known, compared)}: {incident['text']}"
        found.sort(key=lambda each: (each[0]["since"], each[0]["key"]))
        _name_units(found)
        return [incident for incident, _ in reversed(found)]

    def heads(self) -> dict[str, str]:
        """Return for each alert and drift the key of its incident; as of `incidents`."""
        return {sign.key: signs[0].key for signs in map(_ordered, self._groups) for sign in signs}

    def signs(self, key: str) -> list[Sign]:
        """Return the alerts and drifts, the earliest first, of the incident that has this one; as of `incidents`."""
        groups = map(_ordered, self._groups)
        return next((signs for signs in groups if any(sign.key == key for sign in signs)), [])


def row_of(incident: Incident) -> tuple[str, str, str]:
    """Return an incident as a line of a table."""
    ended = "learned" if incident.get("is_learned") else "over"
    text = readable(incident["text"], *incident["streams"])
    return incident["severity"], "open" if incident["is_open"] else ended, text


def _incident(
    group: Sequence[Episode],
    known: int,
    centres: Mapping[str, Sequence[Mapping[str, float]]],
    clusters: Mapping[str, Sequence[NewCluster]],
    larger: Collection[Incident],
    before: float,
) -> Incident:
    """Return the incident of a group, without its streams in the text.

    The `larger` ones, of several streams, take the stream of a smaller one that shows the same in the end. What its
    stream has had `before`, in seconds, is no new kind.
    """
    ordered = sorted(group, key=lambda each: (each.began, each.place))
    signs = _ordered(group)
    since = _since(ordered)
    streams = list(dict.fromkeys(each.signs[0].stream for each in ordered))
    is_passage = ordered[0].family == "passage"
    features = features_of_way(ordered) if is_passage else features_of(ordered, known)
    common = [each for each in larger if 2 * len(each["streams"]) > known]
    if len(group) == 1:
        # What all streams did until a drift of one had settled is no part of it.
        late = {name for sign in signs for name in sign.late}
        late &= {each["feature"] for all_ in common if seconds(all_["since"]) >= since for each in all_["features"]}
        for all_ in larger:
            if (names := _meanwhile(signs, all_)) and streams[0] not in all_["streams"]:
                late |= names
                all_["streams"].append(streams[0])
        features = [each for each in features if each["feature"] not in late] or features
    unit = None
    if ordered[0].family == "data" and not ordered[0].is_beside:
        unit = rescaled(ordered, signs, features if len(group) >= MANY else ()) or by_kinds(ordered, clusters)
    kind = _kind(ordered, signs, unit, known)
    if unit is not None:
        features = [{"feature": unit.feature, "value": unit.value, "usual": unit.usual}]
    elif kind == "broke" and (
        _is_like_others(group[0], centres)
        or any(
            # What a change of most streams has of this one says nothing of the others.
            streams[0] not in all_["streams"] and _is_within(features, all_["features"])
            for all_ in common
        )
    ):
        kind = "like_others"
    elif kind == "new_kind" and before:
        kind = "back"
    alerts = [sign.key for sign in signs if sign.rule not in ("drift", "emerged")]
    lasting, end = lasting_of(group, signs, since)
    # A fault of one stream, or another unit, that a model has learned meanwhile is one still.
    urgent = lasting if (len(group) > 1 and unit is None) or kind == "like_others" else signs
    if kind == "other":
        urgent = [sign for sign in signs if sign.lacks] or urgent
    incident: Incident = {
        "key": signs[0].key,
        "kind": kind,
        "text": "",
        "severity": "info" if kind == "like_others" and not lasting else _severity(ordered, urgent or signs),
        "certainty": "sure" if len(group) >= MANY or len({sign.rule for sign in signs}) > 1 else "likely",
        "streams": streams,
        "known": known,
        "features": features,
        "alerts": alerts,
        "drifts": sum(sign.rule == "drift" for sign in signs),
        "signs": len(signs),
        "is_open": bool(lasting),
        "since": stamp(since),
        "time": max(sign.stamp for sign in signs),
    }
    if kind == "back" and incident["severity"] == "critical":
        incident["severity"] = "warning"
    # How a drift ended says more than the record that cleared an alert before.
    ended = [sign for sign in signs if sign.rule != "unlike" or not incident["drifts"]]
    # Of many streams a few may have learned what is over for the others.
    learned = {sign.place for sign in ended if sign.is_learned}
    if is_learned := not (lasting or ends_of_most(group)) and 4 * len(learned) > len(streams):
        incident["is_learned"] = True
    if unit is not None:
        incident["factor"] = unit.factor
    incident["text"] = cause_of(incident, signs, group, unit, before) + _category(group, centres)
    end = end or over_since(signs)
    if not (lasting or is_learned) and end > 0 and incident["since"] >= "1971":
        word = " until" if kind == "silent" else "; over since"
        incident["text"] += f"{word} {minute(stamp(end))}"
    return incident


def _severity(group: Sequence[Episode], urgent: Iterable[Sign]) -> AlertSeverity:
    """Return how urgent it is, by some of its signs."""
    if group[0].family == "passage":
        # That machines of a fleet start and stop is ordinary; that one of them does may not be.
        return "info" if len(group) >= MANY else "warning"
    found = max((sign.severity for sign in urgent), key=_URGENCY.index)
    if all(sign.is_vague for each in group for sign in each.signs):
        return "info"
    if found == "critical" and all(sign.is_slight for each in group for sign in each.signs):
        return "warning"
    # What several streams have become and stay is as urgent as a drift.
    stays = (
        sign.severity != "info" and sign.rule == "unlike" and sign.is_learned for each in group for sign in each.signs
    )
    return "warning" if found == "info" and len(group) > 1 and any(stays) else found


def _meanwhile(signs: Iterable[Sign], larger: Incident) -> set[str]:
    """Return the features that only the ends of drifts name, and that went so in a larger incident meanwhile."""
    began = seconds(larger["since"])
    ways = {each["feature"]: each["value"] - (each["usual"] or 0.0) for each in larger["features"]}
    drifts = [sign for sign in signs if sign.onset <= began <= sign.until]
    own = [(name, move) for sign in drifts for name, move in sign.moves.items() if name in sign.late and name in ways]
    # The mean of a drift is of what was before, too.
    return {name for name, move in own if is_as_far(move.after - move.before, ways[name])}


def _name_units(found: Iterable[tuple[Incident, Sequence[Episode]]]) -> None:
    """Let the text of what came soon after another unit, in the same feature, name that, the earliest first."""
    units: dict[tuple[str, str], tuple[float, str, float, float]] = {}
    for incident, group in found:
        began = group[0].began
        if incident["kind"] == "unit":
            ((name, value, usual),) = ((each["feature"], each["value"], each["usual"]) for each in incident["features"])
            units |= {(each.place, name): (began, incident["since"], usual or 0.0, value) for each in group}
            continue
        for each in incident["features"]:
            before, since, usual, value = units.get((group[0].place, each["feature"]), (-inf, "", 0.0, 0.0))
            # What is usual again is in the unit of before.
            is_back = each["usual"] is not None and abs(each["usual"] - usual) < abs(each["usual"] - value)
            if began - before <= ECHO_SECONDS and not is_back:
                incident["text"] += f"; {each['feature']} in another unit since {minute(since)}"


def _ordered(group: Iterable[Episode]) -> list[Sign]:
    return sorted((sign for each in group for sign in (*each.signs, *each.later)), key=IN_ORDER)


def _category(group: Sequence[Episode], centres: Mapping[str, Sequence[Mapping[str, float]]]) -> str:
    """Say which values of categories nearly all records of new clusters have, but not those of all clusters."""
    own = [centre for each in group for centre in each.centres]
    every = [centre for each in group for centre in centres.get(each.place, ())]
    names = [name for name in (own[0] if own else ()) if "=" in name]
    shares = {name: [each.get(name, 0.0) for each in (*own, *every)] for name in names}
    said = [name for name, all_ in shares.items() if min(all_[: len(own)]) >= NEARLY_ALL > min(all_)]
    return f"; nearly all {', '.join(said)}" if said else ""


def _is_like_others(episode: Episode, centres: Mapping[str, Sequence[Mapping[str, float]]]) -> bool:
    """Whether most other streams have had clusters like all the new ones of an episode."""
    others = [theirs for stream, theirs in centres.items() if stream != episode.place]
    own = episode.centres
    usual = {name: value.usual for name, value in episode.values.items()}
    usual |= {name: move.before for name, move in episode.moves.items()}
    alike = sum(all(any(_has_become(mine, each, usual) for each in theirs) for mine in own) for theirs in others)
    return bool(own) and 2 * alike > len(others)


def _is_within(own: Sequence[IncidentFeature], common: Sequence[IncidentFeature]) -> bool:
    """Whether each feature went about as far as by a change of most streams, which may be at another time."""
    ways, theirs = (
        {each["feature"]: each["value"] - each["usual"] for each in features if each["usual"] is not None}
        for features in (own, common)
    )
    return len(ways) == len(own) > 0 and all(
        name in theirs and 2 * abs(way - theirs[name]) <= abs(way) for name, way in ways.items()
    )


def _has_become(mine: Mapping[str, float], theirs: Mapping[str, float], usual: Mapping[str, float]) -> bool:
    """Whether a centre is close to another, and each feature that changed nearer than to what it was.

    Where no feature is known to have changed all have to be close.
    """
    names = mine.keys() & theirs.keys()
    changed = (names & usual.keys()) or names
    return are_close(mine, theirs) and all(
        are_close({name: mine[name]}, {name: theirs[name]})
        and 2 * abs(mine[name] - theirs[name]) <= abs(mine[name] - usual.get(name, inf))
        for name in changed
    )


def _since(ordered: Sequence[Episode]) -> float:
    """Return when the first streams of an incident began; one that began far before most others does not count."""
    later = ordered[len(ordered) // 10 :]
    known = [each for each in later if each.is_known]
    # Drifts began about then, rather too early.
    first = known[0] if 2 * len(known) > len(later) else later[0]
    # Of many the middle is nearer, or what is known, where most began at about the same time.
    about, times = ABOUT_RECORDS * first.pace, [each.began for each in later]
    if not first.is_known:
        first = max(later, key=lambda each: bisect_right(times, each.began + about) - bisect_left(times, each.began))
    near = [each for each in later if 0 <= each.began - first.began <= about]
    first = first if first.is_known else next((each for each in near if each.is_known), near[(len(near) - 1) // 2])
    # To the minute of streams with a record a minute, or fewer: it is known to about a record.
    step = 60.0 if first.pace >= 60.0 else 1.0 if first.pace >= 1.0 else 0.001
    return step * round(first.began / step)


def _kind(group: Sequence[Episode], signs: Sequence[Sign], unit: Rescaled | None, known: int) -> IncidentKind:
    """Return what happened."""
    if group[0].family == "passage":
        return "back"
    if group[0].family != "data":
        return "silent" if group[0].family == "silent" else "other"
    if unit is not None:
        return "unit"
    rules = {sign.rule for sign in signs}
    share = max(sign.unlike for sign in signs)
    lacks = {sign.lacks for sign in signs if sign.lacks}
    # Records of a kind that the model knows, and no more, are no break, nor are those that hardly differ.
    others = [sign for sign in signs if not sign.is_known and not sign.is_of(lacks)]
    is_other = bool(others) and not all(sign.is_little for sign in signs if sign.unlike)
    if len(group) == 1 and known >= MANY and share >= BROKEN and is_other:
        # Into the first trough of a daily wave records go by and by, and values are hardly off.
        is_far = any(each.is_far for each in group[0].values.values())
        if share >= ABRUPT or is_far or len(rules) > 1:
            return "broke"
    of_kinds = [sign for sign in signs if sign.rule in ("unlike", "new_cluster", "emerged")]
    if lacks and all(sign.is_known or sign.is_of(lacks) for sign in of_kinds):
        return "other"  # What stands for a missing value may look like a drift, or a kind that is known.
    if not of_kinds:
        return "drifted"
    is_known = all(sign.is_known for sign in of_kinds) and not any(sign.is_beyond for sign in of_kinds)
    # What most streams show by drifts alone is more than the hours of a few of them.
    is_of_few = len(group) >= MANY and 2 * len({sign.place for sign in of_kinds}) < len(group)
    return ("drifted" if is_of_few else "back") if is_known else "new_kind"
