"""Which column names the state that each source is in, one after the other, rather than what it makes."""

import re
from collections import Counter, defaultdict
from collections.abc import Iterable, Sequence
from typing import Any, Final

from resonance.pipeline.files.explained import is_product
from resonance.pipeline.files.proofs import rows_in
from resonance.pipeline.files.survey import FileSurvey

FEWEST_CHANGES: Final = 20
"""Changes of a name, at least, that say whether each is followed by the same one."""

IN_TURN: Final = 0.8
"""Share of the changes that lead to the usual next name, at least: of three recipes drawn by lot half of them do."""

_RESTS = re.compile(
    r"(?i)(.*[^a-zäöüß])?(stand[ _-]?by|idle|off|stop(ped)?|halt(ed)?|paused?|rest(ing)?|ready|wait(ing)?|sleep(ing)?"
    r"|parked|maintenance|clean(ing)?|rins(e|ing)|flush(ing)?|set[ _-]?up|shut[ _-]?down|warm[ _-]?up|heat[ _-]?up"
    r"|cool[ _-]?down|aus|bereit(schaft)?|leerlauf|stillstand|steht|ruhe|wartet|wartung|r(ue|ü)sten|reinig(en|ung)"
    r"|sp(ue|ü)l(en|ung)|aufheizen|abk(ue|ü)hlen)"
)
"""What a machine does that makes nothing."""


def is_phase(seen: FileSurvey, path: str, sources: Sequence[str]) -> bool:
    """Return whether the names of a column are states of each source.

    All but one say that it makes nothing, or each of three or more is nearly always followed by the same one. Of two
    names each is, and products may be made in turn.
    """
    names = [*map(str, seen.columns[path].counts or ())]
    rests = sum(bool(_RESTS.fullmatch(name)) for name in names)
    if rests and len(names) - rests <= 1:
        return True
    if len(names) < 3 or is_product(path):
        return False
    near = [_changes(seen.head, path, sources), _changes(seen.tail, path, sources)]
    # Where hardly any are near each other, of records from everywhere; a short state may be missing among these.
    changes = near[0] + near[1]
    changes = changes if changes.total() >= FEWEST_CHANGES else _changes(seen.spaced, path, sources)
    usual: defaultdict[Any, int] = defaultdict(int)
    for (before, _), count in changes.items():
        usual[before] = max(usual[before], count)
    return changes.total() >= FEWEST_CHANGES and sum(usual.values()) >= IN_TURN * changes.total()


def _changes(records: Sequence[dict[str, Any]], path: str, sources: Iterable[str]) -> Counter[tuple[Any, Any]]:
    """Return how often a name of a column comes behind another one of the same source."""
    newest: dict[tuple[Any, ...], Any] = {}
    found: Counter[tuple[Any, Any]] = Counter()
    for *source, name in rows_in(records, (*sources, path)):
        before = newest.get(tuple(source), name)
        if before != name:
            found[before, name] += 1
        newest[tuple(source)] = name
    return found
