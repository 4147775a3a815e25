"""Which numbers are directions in degrees, where 359 is beside 1, and which only go up to some 360."""

import re
from collections import Counter
from collections.abc import Sequence
from itertools import pairwise
from typing import Any, Final

from resonance.pipeline.files.survey import Column
from resonance.pipeline.json_paths import parse_path

FEWEST_TURNS: Final = 3
"""Steps past 360 from which numbers may be a direction, whatever their name."""

NEAR_NORTH: Final = 30
"""Degrees from 0 or 360 that are near it, and those of a part of the circle."""

ALL_ROUND: Final = 10
"""Parts of the circle, of twelve, with some of the numbers, at least, where they are spread over all of it."""

HALF_ROUND: Final = 6
"""The same where they go past north and stay near it."""

SOME: Final = 0.01
"""Share of the numbers that are some: what is switched off and on passes the numbers between only now and then."""

_DIRECTION = re.compile(
    r"(?i)(.*(direction|heading|azimuth|winddir)|(.*[ ._-])?(dir|bearing|wd|wdir|hdg))"
    r"([ ._-]?(deg(rees)?|[0-9]+m?))?"
)
_BRACKETS = re.compile(r"[\[(]\s*([^\[\]()]*?)\s*[\])]")
_ANGLE = re.compile(r"(?i)[°º]|deg\.?|degrees?( true)?|grad")
_NO_UNIT = re.compile(r"(?i)[0-9].*|true|magn(etic)?|avg|average|mean|min(imum)?|max(imum)?|std|raw|from|to|")
"""What stands in brackets and is no unit, such as a height."""


def is_direction(path: str, column: Column) -> bool:
    """Return whether numbers are degrees that begin again at 360, by their name, their unit or their steps."""
    if not column.only(int, float) or column.low.value < 0 or not 180 < column.high.value <= 360:
        return False
    name = parse_path(path)[-1]
    units = [unit for unit in _BRACKETS.findall(name) if not _NO_UNIT.fullmatch(unit)]
    if not all(map(_ANGLE.fullmatch, units)):
        return False
    if _DIRECTION.fullmatch(_BRACKETS.sub("", name).strip()):
        return True
    parts = _parts(column.sample)
    return (parts >= ALL_ROUND and bool(units)) or (parts >= HALF_ROUND and _turns(column.sample))


def _parts(values: Sequence[Any]) -> int:
    """Return the number of parts of the circle with some of the numbers."""
    parts = Counter(int(value // NEAR_NORTH) % (360 // NEAR_NORTH) for value in values)
    return sum(count >= SOME * len(values) for count in parts.values())


def _turns(values: Sequence[Any]) -> bool:
    """Return whether steps lead past 360, and nearly all are small on the circle: others jump as far by any step."""
    turns = [both for both in pairwise(values) if min(both) <= NEAR_NORTH and max(both) >= 360 - NEAR_NORTH]
    steps = [abs(after - before) for before, after in pairwise(values)]
    small = [step for step in steps if min(step, 360 - step) <= 2 * NEAR_NORTH]
    return len(turns) >= FEWEST_TURNS and len(small) >= 0.9 * len(steps)
