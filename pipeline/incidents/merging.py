"""What comes again, and what streams of a fleet do at times of their own while it changes, is one incident."""

from bisect import bisect_right
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from operator import attrgetter, itemgetter

from resonance.pipeline.incidents.agreement import are_alike
from resonance.pipeline.incidents.episodes import ABOUT_RECORDS, ECHO_SECONDS, MANY, Episode
from resonance.pipeline.incidents.excursions import LIKE, SINCE_SECONDS, Excursions
from resonance.pipeline.incidents.grouping import COMPARED, Group
from resonance.pipeline.incidents.signs import Sign, Value

_Change = tuple[float, list[Episode], dict[str, list[Sign]]]


def with_nameless(found: Iterable[list[Episode]], nameless: Sequence[Episode], streams: int) -> list[list[Episode]]:
    """Return groups; one that has most streams together with the nameless episodes of its time takes these.

    Records that are unlike all before, by no feature and soon over, are nothing by themselves.
    """
    result, places = [*found], {each.place for each in nameless}
    for group in result:
        if len(group) >= MANY and 2 * (len(group) + len(places)) > streams:
            whole = Group(group, sorted(each.began for each in group), {each.place for each in group})
            near = {each.place: each for each in nameless if whole.nearness(each, each.began) >= 0.0}
            if 2 * (len(group) + len(near)) > streams:
                group.extend(near.values())
    return result


def without_earlier(found: Iterable[Sequence[Episode]]) -> list[list[Episode]]:
    """Return groups; what a stream alone was off in long before all others of a group began together is by itself.

    Of streams that do the same in turns, each begins as long behind another one.
    """
    result = list[list[Episode]]()
    for group in found:
        first, *others = sorted(group, key=attrgetter("began", "place"))
        if len(others) >= MANY:
            began, middle = others[0].began, others[len(others) // 2].began
            apart = max(ABOUT_RECORDS * first.pace, LIKE * (middle - began))
            if first.is_known and began - first.began > apart and first.signs[0].time < began:
                result += [replace(first, is_alone=True)], others
                continue
            # Noise is not what comes to all.
            seen = [each for each in group if each.signs[0].varies and each.signs[0].time < middle - apart]
            if len(seen) == 1 and len(seen[0].signs) > 1 and seen[0].signs[0].onset < middle - LIKE * apart:
                result += (
                    [part_of(seen[0], seen[0].signs[:1], is_alone=True)],
                    [part_of(each, each.signs[1:]) if each is seen[0] else each for each in group],
                )
                continue
        result.append([*group])
    return result


def part_of(episode: Episode, signs: Iterable[Sign], *, is_alone: bool = False) -> Episode:
    """Return the part of an episode with some of its signs; what is alone was before all that is later."""
    later = [] if is_alone else [*episode.later]
    part = Episode(episode.place, episode.pace, later=later, is_lone=episode.is_lone, is_alone=is_alone)
    for sign in signs:
        part.add(sign)
    return part


def with_fleet(found: Iterable[list[Episode]], excursions: Excursions, streams: int) -> list[list[Episode]]:
    """Return groups; a change of most streams takes what goes with it meanwhile.

    The watch of a stream sees what all of them share, such as weather or a wave of days, at a time of its own.
    """
    fleets, others = list[list[Episode]](), list[list[Episode]]()
    for group in sorted(found, key=lambda each: each[0].began):
        is_fleet = len(group) >= MANY and 2 * len(group) >= streams and group[0].family != "passage"
        is_soon = fleets and group[0].began - fleets[-1][0].began <= ECHO_SECONDS and all(each.values for each in group)
        # Hours that changed streams have not had since are new only beside what changed.
        if is_fleet and is_soon and 10 * sum(bool(excursions.far(each.signs)) for each in group) <= len(group):
            _join(fleets[-1], group)
        else:
            (fleets if is_fleet else others).append(group)
    changes = list[_Change]()
    for fleet in fleets:
        changes.append((fleet[0].began, fleet, {}))
        for sign in sorted((sign for each in fleet for sign in each.signs), key=attrgetter("onset", "key")):
            for name in {*sign.moves, *sign.varies}:
                changes[-1][2].setdefault(name, []).append(sign)
    rest = [[_left(each, changes, excursions) if each.is_drift else each for each in group] for group in others]
    return [*fleets, *(own for group in rest if (own := [each for each in group if each.signs]))]


def _left(episode: Episode, changes: Sequence[_Change], excursions: Excursions) -> Episode:
    """Return what of some drifts is of their stream alone; a drift without any joins the fleet that it goes with."""
    left, alone = Episode(episode.place, episode.pace, later=episode.later), set[str]()
    for whole in episode.signs:
        # What has been of the stream alone stays so.
        sign, alone = whole, alone | excursions.apart(whole, 0).keys()
        end = bisect_right(changes, sign.until, key=itemgetter(0))
        for _, fleet, shown in changes[max(0, end - COMPARED) : end]:
            empty = Episode(sign.place, episode.pace)
            mine = next((each for each in fleet if each.place == sign.place), empty)
            ways = (*sign.moves, *sign.varies)
            rest = {each for each in ways if each in alone or not _is_with(sign, each, shown.get(each, []), mine)}
            if ways and not rest:
                empty.add(sign)
                _join(fleet, [empty])
                break
            moves, varies = ({name: own[name] for name in own if name in rest} for own in (sign.moves, sign.varies))
            sign = replace(sign, moves=moves, varies=varies)
        else:
            left.add(sign)
            alone |= sign.moves.keys()
    return left


def _is_with(sign: Sign, name: str, shown: Sequence[Sign], mine: Episode) -> bool:
    """Whether other streams of a fleet go a way at the same time, and not much less far, or its stream has before."""
    if name in sign.varies and sign.varies[name].is_noise:
        return False
    move, (low, high) = sign.moves.get(name), mine.wide.get(name, (0.0, 0.0))
    if move and name in mine.wide:
        swings = mine.is_drift and mine.drifts > 1 and low <= move.after <= high
        if swings or any(sign.continues == each.key for each in mine.signs[-COMPARED:]):
            return True
    end = bisect_right(shown, sign.until, key=attrgetter("onset"))
    near = (each for each in shown[max(0, end - COMPARED) : end] if each.place != sign.place)
    ways = (each.moves[name].shift if name in each.moves else 0.0 for each in near if sign.onset <= each.until)
    # How much features vary while the fleet changes is of that, but for noise, or what is stuck.
    return any(not move or LIKE * way / (move.shift or 1.0) >= 1 for way in ways)


def again(found: Iterable[list[Episode]]) -> list[list[Episode]]:
    """Return groups where a rare kind of records, or a silence, that comes and goes is one, however often it does."""
    result, known = list[list[Episode]](), list[list[Episode]]()
    for group in sorted(found, key=lambda each: each[0].began):
        if all(map(_comes_again, (sign for each in group for sign in each.signs))):
            befores = [each for each in known[-COMPARED:] if _is_again(group, each)]
            if befores:
                *others, before = befores
                _join(before, group)
                # Machines go several ways, which are of one kind once a stream has gone each of them.
                for each in others if group[0].family == "passage" else ():
                    _join(before, each)
                    result, known = ([one for one in own if one is not each] for own in (result, known))
                continue
            known.append(group)
        elif len(group) == 1 and all(sign.rule == "unlike" and sign.is_back for sign in group[0].signs):
            known.append(group)  # Its stream may have it again.
        result.append(group)
    return result


def came_first(found: Iterable[list[Episode]]) -> dict[str, float]:
    """Return when kinds of records that single streams have again came first, by the key of the alert that is new.

    Features that follow the weather may be elsewhere: the first one that an alert names says the kind.
    """
    result, known = dict[str, float](), dict[str, list[tuple[float, Mapping[str, Value]]]]()
    for group in sorted(found, key=lambda each: each[0].began):
        sign = next((each for each in group[0].signs if each.values and each.rule == "unlike"), None)
        if len(group) == 1 and sign is not None and group[0].family == "data":
            own = known.setdefault(group[0].place, [])
            times = (began for began, values in own[-COMPARED:] if _is_first_alike(sign.values, values))
            if began := next(times, 0.0):
                result[sign.key] = began
            own.append((group[0].began, sign.values))
    return result


def _is_first_alike(one: Mapping[str, Value], other: Mapping[str, Value]) -> bool:
    """Whether the first features of two records are the same, and both are as far off there."""
    name = next(iter(one))
    if name != next(iter(other)):
        return False
    mine, theirs = one[name], other[name]
    return mine.is_far and theirs.is_far and mine.is_close(theirs.value)


def _comes_again(sign: Sign) -> bool:
    return sign.is_known or sign.is_passage or (sign.rule == "silent" and sign.until > 0)


def _is_again(group: Sequence[Episode], before: Sequence[Episode]) -> bool:
    is_first = not all(map(_comes_again, before[0].signs[:1]))
    if group[0].family != before[0].family or (is_first and group[0].place != before[0].place):
        return False
    if group[0].family != "silent":
        # One that came first may name other features than most.
        known = [sign.values for each in before for sign in each.signs][-COMPARED:]
        return any(are_alike(group[0].values, each, is_own=is_first) for each in known)
    one, other = (max(sign.until - sign.onset for each in own for sign in each.signs) for own in (group, before))
    is_near = group[0].began <= max(each.latest for each in before) + SINCE_SECONDS
    return is_near and one <= LIKE * other and other <= LIKE * one


def _join(group: list[Episode], episodes: Iterable[Episode]) -> None:
    """Let a group take episodes: those of streams that it has are with the ones of these."""
    own = {each.place: each for each in group}
    for each in episodes:
        if each.place in own:
            for sign in each.signs:
                own[each.place].add(sign)
            own[each.place].signs.sort(key=attrgetter("time", "key"))
            own[each.place].later += each.later
        else:
            group.append(each)
