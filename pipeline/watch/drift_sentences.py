"""One plain sentence for each drift event: ``p2/1/4 moved: latency_ms 764 -> 803 (+1.6 spreads)``."""

from collections.abc import Mapping
from typing import Any, Final

from resonance.pipeline.errors import number, second
from resonance.pipeline.incidents.signs import stuck_at, varying
from resonance.schemas import DriftEvent, DriftFeature, DriftUnit

SHOWN: Final = 2
"""Most features by which a sentence describes a change."""

GONE: Final = 0.1
"""A share below this part of the one before is of a cluster that has gone silent."""

NOTABLE: Final = 0.05
"""A shift below so many spreads is none."""

_RECORDS: Final = "since about offset"


def drift_sentence(event: DriftEvent) -> str:
    """Describe a drift event in one sentence without a full stop."""
    kind = event["kind"]
    if kind == "regrouped":
        groups = f"{number(event['value'])} groups of features, {number(event['threshold'])} before"
        return f"{event['stream']}: {event['detector']} sees {groups}"
    if kind == "rescaled":
        now, before = (" to ".join(map(number, event[name])) for name in ("range", "range_before"))
        return f"{event['stream']}: the range{_of(event)} is {now} from here on, {before} before"
    if "units" not in event:
        values = f"{event['criterion']} {number(event['value'])} passed {number(event['threshold'])}"
        return f"{event['stream']}: {kind}{_of(event)}, seen by {event['detector']}: {values}"
    if kind == "drift":
        return _drift(event)
    return _ended(event)


def _of(event: Mapping[str, Any]) -> str:
    what = event.get("feature") or event.get("cluster")
    return f" of {what}" if what else ""


def _drift(event: DriftEvent) -> str:
    units = event["units"]
    strongest = units[0]
    since = ""
    if "since" in event:
        time = event["since"]["time"]
        is_today = event.get("time", time)[:10] == time[:10]
        clock = time[11:19] if is_today else second(time)
        since = f", {_RECORDS} {event['since']['offset']:,} ({clock})"
    # Of re-keyed records the two are offsets of different topics, and can only be compared by their time.
    at = event["cause"]["source"]["offset"] if "cause" in event else -1
    seen = f", seen at {at:,}" if at >= event.get("since", {"offset": 0})["offset"] else ""
    if event.get("scope") == "stream" and len(units) > 1:
        # The stream as a whole is a unit, too, and not one of its clusters.
        count = sum(unit["cluster"] is not None for unit in units)
        what = f"{event['stream']}: {count} of its clusters changed, most {_unit(strongest, event['stream'])}"
    elif len(units) > 1:
        rest = [unit for unit in units if unit is not strongest]
        more = rest[0]["cluster"] or event["stream"] if len(rest) == 1 else f"{len(rest)} more (--json names them)"
        what = f"{_unit(strongest, event['stream'])}; also {more}"
    else:
        what = _unit(strongest, event["stream"])
        if "continues" in event:
            what = what.replace(" moved", " goes on moving", 1)
    return f"{what}{since}{seen}"


def _unit(unit: DriftUnit, stream: str) -> str:
    """Describe what changed of a cluster, or of the stream as a whole."""
    name = unit["cluster"] or stream
    changes = unit["change"]
    if "share" in unit and ("more" in changes or "fewer" in changes):
        before, after = unit["share"]["before"], unit["share"]["after"]
        shares = f"{_share(before)} -> {_share(after)}"
        if after < GONE * before:
            return f"{name} has gone silent: {shares}"
        text = f"{stream} has {'more' if 'more' in changes else 'fewer'} of {name}, {shares}"
        return f"{text}, and it {unit['features'][0]['change']}: {_features(unit)}" if unit["features"] else text
    if unit["features"]:
        beside = " beside what would be usual" if unit.get("beside") else ""
        return f"{name} {unit['features'][0]['change']}: {_features(unit)}{beside}"
    if "together" in changes:
        return f"{name}'s features vary together differently"
    return f"{name} still changes" if "unsettled" in changes else f"{name} changed"


def _share(value: float) -> str:
    return f"{100 * value:.0f} %"


def _features(unit: DriftUnit) -> str:
    return ", ".join(map(_feature, unit["features"][:SHOWN]))


def _feature(each: DriftFeature) -> str:
    if each["change"] == "moved":
        shift = f" ({each['shift']:+.1f} spreads)" if abs(each["shift"]) >= NOTABLE else ""
        return f"{each['feature']} {number(each['before'])} -> {number(each['after'])}{shift}"
    if each["ratio"] == 0.0:
        return f"{each['feature']} stays at {number(stuck_at(each['before'], each['after']))}"
    return f"{each['feature']} {varying(each['ratio'], is_steps=each.get('steps', False))}"


def _ended(event: DriftEvent) -> str:
    units = event["units"]
    if not units:
        return f"{event['stream']} settled"
    first, more = units[0], f" and {len(units) - 1} more" if len(units) > 1 else ""
    name = f"{first['cluster'] or event['stream']}{more}"
    if event["kind"] == "recovered":
        return f"{name} recovered: as before drift event {event.get('opened', 0):,} of {event['stream']}"
    parts = [_features(first)] if first["features"] else []
    if "share" in first:
        parts.append(f"{_share(first['share']['before'])} -> {_share(first['share']['after'])} of {event['stream']}")
    if "unsettled" in first["change"]:
        parts.append("still changing, or too few records to say")
    return f"{name} settled: {'; '.join(parts)}; the baseline from here on" if parts else f"{name} settled"
