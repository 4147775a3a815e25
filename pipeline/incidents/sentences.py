"""What an incident says: whose it is, what happened, since when, and what is usual."""

from collections import Counter
from collections.abc import Iterable, Sequence
from typing import Final

from resonance.pipeline.errors import minute, number, rounded, second
from resonance.pipeline.incidents.episodes import MANY, Episode
from resonance.pipeline.incidents.signs import STUCK, Sign, stamp, varying
from resonance.pipeline.incidents.units import Rescaled
from resonance.pipeline.task.alerts.sentences import length, valued
from resonance.schemas import Incident, IncidentFeature

SHOWN: Final = 4
"""Features of an incident."""

NAMED: Final = 6
"""Most streams that are named, more than `MANY` only where their names are short."""

NAMED_WIDTH: Final = 60
"""Characters of such names together."""


def names_of(streams: Sequence[str | None], known: int, every: Iterable[str] = ()) -> str:
    """Return the streams of an incident as people name them: by a part of their names if all of `every` one have it."""
    named = [stream for stream in streams if stream is not None]
    if len(named) == known > MANY:
        return f"all {known:,} streams"
    if len(named) > MANY and (len(named) > NAMED or sum(map(len, named)) > NAMED_WIDTH):
        # Records in the long form have a stream for each parameter and place.
        kinds, others = ({_first_part(each) for each in own} for own in (named, {*every}.difference(named)))
        if every and len(kinds) == 1 and not kinds & others:
            return f"all {len(named):,} streams of {kinds.pop()}"
        if 2 * len(named) >= known:
            return f"{len(named):,} of {known:,} streams"
        return f"{', '.join(named[:MANY])} and {len(named) - MANY:,} more of {known:,} streams"
    return ", ".join(named) if named else "a partition"


def _first_part(stream: str) -> str:
    """Return the first part of the key of a stream."""
    return stream.partition(":")[2].partition(".")[0]


def _value(each: IncidentFeature) -> str:
    if each.get("beside"):
        if "ratio" in each:
            return f"{each['feature']} {number(each['ratio'])} times as far as usual from what it would be"
        usual = f" where {number(each['usual'])} would be usual" if each["usual"] is not None else ""
        return f"{each['feature']} {number(each['value'])}{usual}"
    if "ratio" in each and each["ratio"] > STUCK:
        return f"{each['feature']} {varying(each['ratio'], is_steps=each.get('steps', False))}"
    if "low" in each:
        return valued(each["feature"], each["value"], each["low"], each["high"])
    # Of a feature that is stuck the news is not where.
    how, often = ("stays at ", "varies around ") if "ratio" in each else ("", "")
    value, usual = number(each["value"]), "" if each["usual"] is None else number(each["usual"])
    said = "usually varies" if how and usual == value else f"usually {often}{usual}"
    return f"{each['feature']} {how}{value}" + (f", {said}" if usual else "")


def _swings(group: Sequence[Episode], since: str) -> str:
    """Say that streams go to and fro: their drifts end where they have been."""
    newest = max(sign.onset for each in group for sign in each.signs)
    last = since and f", last {minute(stamp(newest))}"
    seen = [*group[0].places.items()][:SHOWN]
    ends = ((name, rounded(low, high), rounded(high, low)) for name, (low, high) in seen)
    places = ", ".join(f"{name} {number(low)} to {number(high)}" for name, low, high in ends)
    return f"goes to and fro{since}, {max(len(each.signs) for each in group):,} drifts{last}: {places}"


def _silence(signs: Sequence[Sign], at: str, often: str) -> str:
    """Say how long streams had no record, those that have none yet first; nothing where the alerts do not."""
    lasting = [sign for sign in signs if sign.is_open]
    silent = max(sign.silent for sign in lasting or signs)
    if silent <= 0:
        return ""
    most = "up to " if len(signs) > 1 else ""
    if not lasting:
        return f"no record for {most}{length(silent)}{at and ' from'}{at}{often}"
    how = "no record" if most else "has had no record"
    usual = f"; usually one comes every {length(lasting[0].usual)}" if not most and lasting[0].usual else ""
    return f"{how} for {most}{length(silent)} so far{usual}{at and ', since'}{at}"


def _often(came: Sequence[Sign], has_time: bool) -> str:
    """Say how many times a stream had something, where one had it more than once: streams have it at the same time."""
    times = Counter(sign.place for sign in came).values()
    if max(times, default=0) <= 1:
        return ""
    most, each = "" if len({*times}) == 1 else "up to ", " each" if len(times) > 1 else ""
    last = f", last {minute(stamp(max(sign.onset for sign in came)))}" if has_time else ""
    return f", {most}{max(times):,} times{each}{last}"


def _is_settled(signs: Sequence[Sign]) -> bool:
    """Whether a stream has stayed what it became, and its model has learned that: by its drifts, where it has some."""
    drifts = [sign for sign in signs if sign.rule == "drift"]
    is_urgent = any(sign.is_open and sign.severity != "info" for sign in signs)
    return not is_urgent and any(sign.is_learned for sign in drifts or signs)


def cause_of(
    incident: Incident, signs: Sequence[Sign], group: Sequence[Episode], unit: Rescaled | None, before: float
) -> str:
    """Return what happened to the streams of an incident; `before`, in seconds, they had the same kind of records."""
    # Records of a file may have no time.
    at = f" {second(incident['since'])}" if incident["since"] >= "1971" else ""
    since = at and f" since{at}"
    kind = incident["kind"]
    is_broken = kind == "broke"
    values = ", ".join(map(_value, incident["features"][: 1 if is_broken else SHOWN]))
    keywords = next((sign.keywords for sign in signs if sign.keywords), ())
    behind = f": {', '.join(keywords)}" if keywords else values and f", {values}"
    came = [sign for sign in signs if sign.rule in ("unlike", "silent")]
    # Of a new kind its model knows that it comes again, unless that is what the stream has become.
    is_again = any(sign.is_known for sign in came) and not any(sign.is_learned for sign in came)
    often = _often(came, bool(at)) if kind in ("back", "silent") or (kind == "new_kind" and is_again) else ""
    if unit is not None:
        how = f"{values}: Fahrenheit or Celsius" if unit.is_degrees else f"x {number(unit.factor)}"
        return f"{unit.feature} in another unit{since}, {how}"
    if is_broken:
        is_noise = any("ratio" in each for each in incident["features"][:1])
        how = f"at a new level{since}" if _is_settled(signs) and not is_noise else f"broke{at}"
        return f"{how}{behind}; alone among {incident['known']:,} streams"
    if kind == "like_others":
        return f"records as most other streams have them{since}{behind}"
    if group[0].family == "passage":
        return f"on the way between known kinds of records{since}{often}{behind}"
    if kind == "back" and before and at:
        return f"again the kind of records of {minute(stamp(before))}{since}{behind}"
    if kind in ("new_kind", "back"):
        return f"a {'new' if kind == 'new_kind' else 'rare, known'} kind of records{since}{often}{behind}"
    if kind == "drifted":
        if all(each.turns for each in group):
            return _swings(group, since)
        if behind or not signs[0].text:
            return f"drifted{since}{behind}"
    if kind == "silent" and (text := _silence(signs, at, often)):
        return text
    if kind == "other" and (lacks := list(dict.fromkeys(name for each in group for name in each.lacks))):
        return f"{', '.join(lacks)} missing{since}, {next(sign.text for sign in signs if sign.lacks)}"
    text = signs[0].text.removeprefix(f"{signs[0].stream} ")
    return f"{text}{since and ','}{since}"
