"""Signs of one stream that belong together, by time: an episode."""

from bisect import bisect_left, insort
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from itertools import islice, pairwise
from math import inf
from statistics import median
from typing import Final

from resonance.pipeline.incidents.agreement import is_same
from resonance.pipeline.incidents.signs import ABRUPT, Move, Sign, Value

GAP_RECORDS: Final = 150
"""Most records of a stream from one sign of what happened to the next: a new kind of work may come in turns."""

WINDOW_RECORDS: Final = 90
"""Most records of a stream by which two streams begin apart: the same work comes in turns, and evidence takes time."""

LONG_RECORDS: Final = 180
"""The same of streams that agree in features and values."""

ABOUT_RECORDS: Final = 24
"""Records by which a drift may seem to have begun earlier than it did."""

BESIDE: Final = 0.25
"""Part of the way between two places of a feature by which it may be beside both when it comes back."""

WHOLE: Final = 0.5
"""Share of the records from which a new cluster is what the whole stream has become."""

ECHO_SECONDS: Final = 2 * 86_400.0
"""Time in which a stream that has become another meets each hour of a day once more."""

MANY: Final = 3
"""Streams that are a fleet; of fewer none is unlike the others."""

NEWEST: Final = 20
"""Alerts of what broke that are looked at, the last ones."""

QUIET: Final = ("silent", "dead_letters", "unconfirmed", "one_cluster", "share")
"""Rules whose alerts belong together by their rule alone."""

Places = dict[str, tuple[float, float]]
"""Between which values features went."""


@dataclass(slots=True)
class Episode:
    """Signs of one stream that belong together."""

    place: str
    pace: float
    signs: list[Sign] = field(default_factory=list)
    later: list[Sign] = field(default_factory=list)
    """Drifts within what the stream has become, which do not say what happened."""
    latest: float = -inf
    """Time of its last sign."""
    settled: float = -inf
    """When its last drift had settled, if that was later."""
    share: float = 0.0
    """Of the new clusters that came with one record; of all records where a stream broke and a drift has stayed."""
    drifts: int = 0
    """How many drifts it has, without those that go on."""
    places: Places = field(default_factory=dict)
    """Between which means each feature went, by all drifts."""
    wide: Places = field(default_factory=dict)
    """The same, with what is beside."""
    is_lone: bool = False
    """Whether there are no other streams that show what comes to all of them."""
    is_alone: bool = False
    """Whether it is of its stream alone: no other has the like."""
    is_drift: bool = True
    """Whether it has no other signs than drifts."""
    jumps: set[str] = field(default_factory=set)
    """The features that go far farther from record to record by its drifts."""
    whole: "Episode | None" = None
    """What it is a part of."""
    is_common: bool = False
    """Whether it is the part that its stream has in common with others."""
    _known: float = inf
    _about: float = -inf
    _moves: dict[str, Move] | None = None
    _shown: set[str] = field(default_factory=set)
    """The features of its drifts."""
    _named: set[str] = field(default_factory=set)
    """Those that its signs name, and not only in the end of a drift."""
    _shares: dict[float, float] = field(default_factory=dict)
    """Of new clusters, by when these began."""
    _broken: list[Sign] = field(default_factory=list)
    """Alerts of records most of which are unlike all before."""
    _stuck: dict[str, Move] = field(default_factory=dict)
    """Those that are stuck."""

    @property
    def began(self) -> float:
        """When it began: an alert `unlike` or `missing` knows the record, a drift only about."""
        return self._about if self._known == inf else self._known

    @property
    def is_known(self) -> bool:
        """Whether the record is known with which it began."""
        return self._known < inf or self.family in QUIET

    def add(self, sign: Sign) -> None:
        """Take a sign."""
        self._moves = None
        self.signs.append(sign)
        if sign.rule == "unlike" and sign.unlike >= WHOLE:
            self._broken.append(sign)
        self.latest = max(self.latest, sign.time)
        self.settled = max(self.settled, sign.time, sign.until)
        self._shares[sign.onset] = self._shares.get(sign.onset, 0.0) + sign.share
        self.share = max(self.share, self._shares[sign.onset], self._share_of_break(sign))
        self.is_drift &= sign.rule == "drift"
        self.jumps |= sign.jumps
        self.drifts += sign.rule == "drift" and not sign.continues
        self._shown |= sign.moves.keys() | sign.varies.keys()
        self._named |= {*sign.soon, *sign.varies, *sign.values}
        self._stuck |= {name: move for name, move in sign.varies.items() if move.is_stuck}
        for name, move in sign.moves.items():
            low, high = self.places.get(name, (inf, -inf))
            low, high = min(low, move.before, move.after), max(high, move.before, move.after)
            self.places[name] = low, high
            self.wide[name] = low - BESIDE * (high - low), high + BESIDE * (high - low)
        # What else is off while a feature is stuck did not begin it, nor did what began when that had been seen.
        is_own = sign.onset <= self.signs[0].time and bool(sign.values.keys() & self._stuck.keys())
        follows = self._stuck and sign.rule != "drift" and not is_own
        if sign.time - self.signs[0].time <= WINDOW_RECORDS * self.pace and not follows:
            self._about = max(self._about, sign.onset)
            if sign.rule in ("unlike", "missing"):
                self._known = min(self._known, sign.onset)

    def _share_of_break(self, sign: Sign) -> float:
        """Return the share of the records that broke where a drift shows that they have stayed so."""
        if sign.rule != "drift" or not sign.is_learned:
            return 0.0
        broke = (each for each in self._broken[-NEWEST:] if each.is_learned and each.unlike >= ABRUPT)
        return max((each.unlike for each in broke if sign.moves.keys() & each.values.keys()), default=0.0)

    @property
    def end(self) -> float:
        """The last onset of a sign that it may take, or have shown, by its time."""
        slack = GAP_RECORDS + (2 * LONG_RECORDS if self._awaits_drift else 0)
        return max(self.settled + slack * self.pace, self.latest + ECHO_SECONDS if self.share >= WHOLE else -inf)

    @property
    def family(self) -> str:
        """What kinds of signs may be with it."""
        return _family(self.signs[0])

    @property
    def moves(self) -> dict[str, Move]:
        """The features that moved, by the first drift that says so, and up to the last that goes on from it."""
        # Of large groups each episode is compared with many others.
        if self._moves is not None:
            return self._moves
        found: dict[str, Move] = {}
        # What is beside the others says less than what is elsewhere.
        own = [sign for sign in self.signs if not sign.is_beside]
        signs = own if any(sign.moves or sign.values or sign.centre for sign in own) else self.signs
        for sign in signs:
            found |= {name: move for name, move in sign.moves.items() if name not in found}
        for sign in signs:
            for name, move in sign.moves.items():
                so_far = found[name]
                is_farther = abs(move.after - so_far.before) > abs(so_far.after - so_far.before)
                if sign.continues or (is_farther and move.shift * so_far.shift > 0):
                    found[name] = so_far.up_to(move)
        self._moves = found
        return found

    @property
    def is_beside(self) -> bool:
        """Whether all that it shows is features beside what the others of their records say."""
        return all(sign.is_beside for sign in self.signs)

    @property
    def turns(self) -> bool:
        """Whether a feature went both ways by its drifts, or back before the next, and it shows nothing else."""
        if not self.is_drift or len(self.signs) < 2 or self.jumps:
            return False
        if all(0 < sign.ended <= later.onset for sign, later in pairwise(self.signs)):
            return True
        sides = {(name, move.shift > 0) for sign in self.signs for name, move in (sign.soon or sign.moves).items()}
        return any((name, not side) in sides for name, side in sides)

    def swings(self, sign: Sign) -> bool:
        """Whether a drift ends, in most of its features, where the drifts before have been."""
        if not self.is_drift or not self.drifts or sign.rule != "drift":
            return False
        if sign.jumps or self.jumps or any(move.is_stuck for move in sign.varies.values()):
            return False  # No wave ends so.
        # What only the ends of drifts name is what else has been since.
        places = {name: place for name, place in self.wide.items() if name in self._named}
        return ends_within(sign, places) and (self.turns or self._takes_back(sign))

    def _takes_back(self, sign: Sign) -> bool:
        """Whether a drift goes some of the way of a feature that is where its stream has not been; or none is."""
        gone = {name: self.places[name] for each in self.signs for name in each.outside if name in self.places}
        ways = ((sign.moves[name], place) for name, place in gone.items() if name in sign.moves)
        return not gone or any(abs(move.after - move.before) >= BESIDE * (high - low) for move, (low, high) in ways)

    @property
    def lacks(self) -> list[str]:
        """The features that are missing, the first ones first."""
        return list(dict.fromkeys(sign.lacks for sign in self.signs if sign.lacks))

    @property
    def names_something(self) -> bool:
        """Whether it has features."""
        return bool(self.moves or self.centres or self.values or self.lacks or self.varies)

    @property
    def soon(self) -> set[str]:
        """The features that its alerts name, and its drifts not only in the end."""
        return {name for sign in self.signs for name in (*sign.soon, *sign.values)}

    @property
    def varies(self) -> set[tuple[str, bool, bool]]:
        """The features that vary otherwise since, whether they do so more, and whether they are stuck."""
        return {(name, move.ratio > 1, move.is_stuck) for sign in self.signs for name, move in sign.varies.items()}

    @property
    def centres(self) -> list[dict[str, float]]:
        """Those of its new clusters."""
        return [dict(sign.centre) for sign in self.signs if sign.centre]

    @property
    def values(self) -> Mapping[str, Value]:
        """Those of the first record that an alert describes."""
        return next((sign.values for sign in self.signs if sign.values), {})

    def takes(self, sign: Sign) -> bool:
        """Whether a sign is of the same stream, kind and time; new clusters belong to a drift until it has settled."""
        if self._echoes(sign) or self._is_stuck_as(sign) or self._has_awaited(sign):
            return True
        begun = self.signs[0].time if self._stuck or self._shows_any_of(sign) else self.signs[0].onset
        if sign.rule == "unlike" and self._known == inf and sign.onset - begun > WINDOW_RECORDS * self.pace:
            return False  # A drift that was there long before is another matter, such as a daily wave.
        if self.is_lone and (self._is_other(sign) or not self._jumps_as(sign)):
            return False
        slack = GAP_RECORDS * self.pace
        latest = self.settled if sign.rule == "new_cluster" else self.latest
        return _family(sign) == self.family and sign.onset <= latest + slack and sign.time >= self.began - slack

    def _has_awaited(self, sign: Sign) -> bool:
        """Whether a drift is the first one soon after what has broken, in features that the alert has not named."""
        is_soon = 0 <= sign.onset - self.began <= 2 * LONG_RECORDS * self.pace
        return sign.rule == "drift" and is_soon and self._awaits_drift and self.values.keys().isdisjoint(sign.moves)

    @property
    def _awaits_drift(self) -> bool:
        """Whether most records were unlike all before, and are so still or learned, so that a drift is to be seen."""
        return not self.drifts and any(sign.is_learned or not sign.ended for sign in self._broken[-NEWEST:])

    def begins(self, sign: Sign) -> bool:
        """Whether an alert of what is far off says when a drift began, which so is no part of what was before."""
        is_far = self._known < inf and any(each.is_far for each in self.values.values())
        return is_far and abs(self._known - sign.onset) <= WINDOW_RECORDS * self.pace and self.takes(sign)

    def has_shown(self, sign: Sign) -> bool:
        """Whether a drift ends, in most of its features, where a stream that has become another has gone."""
        if sign.rule != "drift" or not self._has_become(sign):
            return False
        gone = {name: Move(each.usual, each.value, 0.0, 1.0) for name, each in self.values.items()}
        same = sum(name in gone and is_same(gone[name], move.after) for name, move in sign.moves.items())
        return 2 * same > len(sign.moves)

    def _shows_any_of(self, sign: Sign) -> bool:
        """Whether drifts show a feature that a sign names; one that names none may be of any."""
        return not (sign.values and self._shown) or not self._shown.isdisjoint(sign.values)

    def _is_other(self, sign: Sign) -> bool:
        """Whether a sign is far off only in features that no other has shown so far, clearly later or earlier."""
        slack = WINDOW_RECORDS * self.pace
        is_near = self.began - slack <= sign.onset <= self.signs[0].time + slack
        is_other = sign.rule == "unlike" and sign.is_far and bool(self._named)
        return is_other and not is_near and self._named.isdisjoint(sign.values)

    def _jumps_as(self, sign: Sign) -> bool:
        """Whether a drift and what is there show the same jumps, or none: these are no matter of where features go."""
        shown = {name for each in self.signs for name in (*each.values, *each.varies)} if sign.jumps else set()
        is_same = sign.jumps <= shown and (not self.jumps or not self.jumps.isdisjoint(sign.varies))
        return sign.rule != "drift" or is_same

    def _is_stuck_as(self, sign: Sign) -> bool:
        """Whether a sign shows what is stuck, in hours in which it is elsewhere otherwise."""
        is_so = all(
            name in self._stuck and value.is_close(self._stuck[name].place) for name, value in sign.values.items()
        )
        return is_so and bool(sign.values) and 0 <= sign.onset - self.began <= ECHO_SECONDS

    def _echoes(self, sign: Sign) -> bool:
        """Whether a sign is of hours that a changed stream has not had since, in records that name nothing far off."""
        is_slight = sign.is_known or all(each.is_near for each in sign.values.values())
        return sign.rule == "unlike" and is_slight and not sign.is_passage and self._has_become(sign)

    def _has_become(self, sign: Sign) -> bool:
        """Whether its stream has become another, and has not met all hours of a day since when a sign begins."""
        return self.share >= WHOLE and 0 <= sign.onset - self.began <= ECHO_SECONDS


def _family(sign: Sign) -> str:
    return sign.rule if sign.rule in QUIET else "passage" if sign.is_passage else "data"


def ends_within(drift: Sign, places: Places) -> bool:
    """Whether a drift ends within some places in most of its features, without those that only its end names."""
    own = drift.soon or drift.moves
    ends = [(places[name], move.after) for name, move in own.items() if name in places]
    return 2 * sum(low <= after <= high for (low, high), after in ends) > len(own)


@dataclass(slots=True)
class _StreamEpisodes:
    """The episodes of a stream, and what finds the few of them that may take a sign."""

    is_lone: bool
    all: list[Episode] = field(default_factory=list)
    _drifts: list[int] = field(default_factory=list)
    """The numbers of those that began with a drift."""
    _ends: list[tuple[float, int]] = field(default_factory=list)
    """Their ends in order, each with the number."""
    _of: dict[str, int] = field(default_factory=dict)
    """Their numbers by the keys of their signs."""
    _later: dict[str, int] = field(default_factory=dict)
    """The same by the keys of their later drifts."""
    _wide: Places = field(default_factory=dict)
    """Between which values any of them went, with what is beside."""

    def add(self, sign: Sign, pace: float) -> None:
        """Let an episode that fits take a sign, or a new one."""
        near = sorted(number for _, number in self._ends[bisect_left(self._ends, (sign.onset,)) :])
        if sign.continues:
            # A drift belongs to the one that it continues, unless an alert says that something else has begun.
            begun = [number for number in near if self.all[number].begins(sign)]
            whole = ([own[sign.continues]] if sign.continues in own else [] for own in (self._of, self._later))
            fitting, shown = (begun, []) if begun else whole
        else:
            fitting = [number for number in near if self.all[number].takes(sign)]
            shown = [number for number in near if self.all[number].has_shown(sign)]
        if shown and not set(shown) & set(fitting):
            self._later[sign.key] = shown[-1]
            self.all[shown[-1]].later.append(sign)
            return
        # A counter ends each drift where none was before: there it is not compared with each.
        if not fitting and sign.rule == "drift" and ends_within(sign, self._wide):
            fitting = [*islice((number for number in reversed(self._drifts) if self.all[number].swings(sign)), 1)]
        if fitting:
            number = min(fitting, key=lambda each: abs(self.all[each].began - sign.onset))
            del self._ends[bisect_left(self._ends, (self.all[number].end, number))]
        else:
            number = len(self.all)
            self.all.append(Episode(sign.place, pace, is_lone=self.is_lone))
            if sign.rule == "drift":
                self._drifts.append(number)
        self._of[sign.key] = number
        self.all[number].add(sign)
        for name in sign.moves:
            (low, high), (least, most) = self.all[number].wide[name], self._wide.get(name, (inf, -inf))
            self._wide[name] = min(low, least), max(high, most)
        insort(self._ends, (self.all[number].end, number))


def episodes(signs: Iterable[Sign], paces: dict[str, float]) -> list[Episode]:
    """Group the signs of each stream, which come in the order of time."""
    usual = median(paces.values()) if paces else 0.0
    found: dict[str, _StreamEpisodes] = {}
    for sign in signs:
        found.setdefault(sign.place, _StreamEpisodes(len(paces) < MANY)).add(sign, paces.get(sign.place, usual))
    return sorted((each for own in found.values() for each in own.all), key=lambda each: (each.began, each.place))
