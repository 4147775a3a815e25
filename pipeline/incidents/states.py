"""Whether what an incident shows goes on, or is over for most of its streams."""

from collections.abc import Sequence
from statistics import median

from resonance.pipeline.incidents.endings import over_since
from resonance.pipeline.incidents.episodes import MANY, Episode
from resonance.pipeline.incidents.signs import Sign


def lasting(group: Sequence[Episode], signs: Sequence[Sign], since: float) -> tuple[list[Sign], float]:
    """Return the signs of a group that are open, and of what goes on; and when it was over, where open ones are not.

    Where it is over for most of many streams those say nothing that have been silent since, nor new clusters, which are
    new for long, nor what began later.
    """
    found = [sign for sign in signs if sign.is_open]
    if len(group) < MANY or not found:
        return found, 0.0
    # A drift may be seen late, by the mean of what is over in all of many streams.
    end = over_since([sign for sign in signs if not sign.is_open])
    back = {sign.place for sign in signs if sign.is_back}
    if all(sign.place in back and sign.moves and sign.onset <= since < end < sign.time for sign in found):
        return [], 0.0
    if ended := ends_of_most(group):
        end = median(ended)
        return [each for each in found if not each.centre and each.onset <= end < each.heard], end
    return found, 0.0


def ends_of_most(group: Sequence[Episode]) -> list[float]:
    """Return when it was over for each stream where it is, of many of which most are; nothing otherwise."""
    ended = [end for each in group if each.family != "passage" and (end := _end(each)) > 0]
    return ended if len(group) >= MANY and 2 * len(ended) >= len(group) else []


def _end(episode: Episode) -> float:
    """Return when its stream was as before again: by drifts of the whole of it, or an alert; 0 where it is not."""
    drifts = [sign for sign in episode.signs if sign.is_whole and (sign.moves or sign.varies)]
    if any(sign.moves and not sign.ended for sign in drifts):
        return 0.0
    back = (sign.over for sign in episode.signs if (sign.is_back or sign in drifts) and sign.ended > 0)
    return max(back, default=0.0)
