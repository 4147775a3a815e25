"""Signs of incidents: alerts and drifts of a stream, with the time at which what they show began."""

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field
from math import inf
from operator import attrgetter
from typing import Final, NamedTuple

from resonance.pipeline.errors import BEYOND, number
from resonance.pipeline.timestamps import canonical, epoch_ms
from resonance.schemas import AlertSeverity

NOISY: Final = 2.5
"""How many times as much a feature varies that is rather noisy than at another place."""

ABRUPT: Final = 0.9
"""Share of the records that are unlike from the first one on where all of a stream is, as where it broke."""

STUCK: Final = 0.05
"""Part of what it varied that is left of a feature that is stuck."""

LITTLE: Final = 1e-4
"""Part of the way from where it was by which a feature is stuck at 0, and in no smaller unit."""


NEAR: Final = 1.5
"""How many times what the usual values of a feature have from end to end are a little beyond their middle."""


def stuck_at(before: float, after: float, part: float = BEYOND) -> float:
    """Return where a feature is stuck, by its means: that of one at 0 is rounded, and within a step of it."""
    return 0.0 if abs(after) <= part * abs(after - before) else after


def varying(ratio: float, *, is_steps: bool) -> str:
    """Say how many times as much a feature varies, or as far it goes from record to record."""
    much = "as far from record to record" if is_steps else "as much"
    return f"{'jumps' if is_steps else 'varies'} {number(ratio)} times {much}"


class Move(NamedTuple):
    """How a feature moved by a drift."""

    before: float
    after: float
    shift: float
    """In spreads, with its sign."""
    ratio: float
    """How many times as much it varies."""
    steps: bool = False
    """Whether that is from record to record."""

    def up_to(self, later: "Move") -> "Move":
        """Return the whole way where a later move goes on, which knows better how much the feature varies."""
        way = self.after - self.before
        shift = self.shift * (later.after - self.before) / way if way else later.shift
        return Move(self.before, later.after, shift, later.ratio, later.steps)

    @property
    def spread(self) -> float:
        """How much the feature varied."""
        return abs((self.after - self.before) / (self.shift or 1.0))

    @property
    def place(self) -> float:
        """Where it is now."""
        return stuck_at(self.before, self.after) if self.is_stuck else self.after

    @property
    def is_stuck(self) -> bool:
        """Whether the feature hardly varies any more: far less than it has become smaller, as by another unit."""
        is_at_zero = not self.before or stuck_at(self.before, self.after, LITTLE) == 0.0
        return self.ratio <= STUCK * (1.0 if is_at_zero else min(1.0, abs(self.after / self.before)))

    @property
    def is_noise(self) -> bool:
        """Whether it varies far more about where it was, or no more, wherever that is."""
        return self.is_stuck or (self.ratio >= NOISY and abs(self.shift) <= 1.0)


class Value(NamedTuple):
    """A feature of a record that is unlike all before, and between which values it usually is."""

    value: float
    low: float
    high: float

    @property
    def usual(self) -> float:
        """The middle of what it usually is."""
        return 0.5 * (self.low + self.high)

    @property
    def is_far(self) -> bool:
        """Whether it is beyond the usual ones by half of what these have from end to end."""
        return abs(self.value - self.usual) > self.high - self.low

    @property
    def is_near(self) -> bool:
        """Whether it is little beyond the usual ones, which may be of few hours."""
        return abs(self.value - self.usual) <= NEAR * (self.high - self.low)

    def is_close(self, other: float) -> bool:
        """Whether another value differs by no more than the usual ones from their middle."""
        return abs(other - self.value) <= 0.5 * (self.high - self.low)


def describes(values: Mapping[str, Value], centre: Mapping[str, float]) -> bool:
    """Whether a record that is named by features is about what a cluster has in all of them."""
    return bool(values) and all(name in centre and each.is_close(centre[name]) for name, each in values.items())


@dataclass(slots=True)
class Sign:
    """An alert that opened, or a drift."""

    key: str
    place: str
    """The stream; of an alert of a whole partition its topic and number."""
    stream: str | None
    rule: str
    severity: AlertSeverity
    time: float
    """Seconds of the record that showed it."""
    onset: float
    """Seconds at which what it shows began, about."""
    stamp: str
    text: str = ""
    moves: Mapping[str, Move] = field(default_factory=dict)
    centre: Mapping[str, float] = field(default_factory=dict)
    """Of a new cluster."""
    keywords: Sequence[str] = ()
    """Of a new cluster, where records have texts."""
    values: Mapping[str, Value] = field(default_factory=dict)
    """Of an alert that names features."""
    unlike: float = 0.0
    """Of an alert `unlike`: the share of the records that were."""
    count: float = 0.0
    """Of an alert `unlike` that is over: how many records were."""
    is_known: bool = False
    """Of an alert `unlike`: whether its records are of a kind that the model knows."""
    late: Collection[str] = ()
    """Features that only the end of a drift names, whose means are of all records until then."""
    seen: Mapping[str, float] = field(default_factory=dict)
    """Where the features were that a drift named when it was seen."""
    is_little: bool = False
    """Of an alert `unlike`, or a drift: whether what it shows is next to nothing beside what its stream has had."""
    is_passage: bool = False
    """Of an alert `unlike`, or a drift: whether its stream was on the way between its kinds, as at other times."""
    is_beyond: bool = False
    """Of an alert `unlike`: whether it names what its stream has had neither in clusters nor in alerts before."""
    outside: Collection[str] = ()
    """Of an alert `unlike`, or a drift: the features in which it shows its stream where that has not been before."""
    is_ordinary: bool = False
    """Whether it shows nothing but where its stream has been, and that is over, or comes and goes."""
    is_daily: bool = False
    """Whether it shows nothing but how its stream starts and stops day by day."""
    lacks: str = ""
    """Of an alert `missing`: the feature."""
    varies: Mapping[str, Move] = field(default_factory=dict)
    """Features of a drift that vary more or less, and did not move."""
    is_beside: bool = False
    """Of a drift: whether features differ from what the others of their records say, and nothing else changed."""
    is_vague: bool = False
    """Of a drift: whether features depend on each other otherwise, without a word of which ones: nothing to act on."""
    continues: str = ""
    """Key of the drift that goes on."""
    instead: Mapping[str, Move] = field(default_factory=dict)
    """Of a drift that has settled: how features of a cluster differ from those of the one whose place it took."""
    is_whole: bool = False
    """Of a drift: whether the stream as a whole changed."""
    is_open: bool = False
    is_learned: bool = False
    """Whether the model has what it shows still, as its baseline or a cluster."""
    share: float = 0.0
    """Of a new cluster that is large, or an alert `unlike` that is learned: its share of the records meanwhile."""
    is_back: bool = False
    """Of an alert `unlike` that is over: whether the last record is as before in all features that it names."""
    silent: float = 0.0
    """Of a silence: its seconds, until now where it lasts."""
    usual: float = 0.0
    """Of a silence: usual seconds between two records."""
    heard: float = inf
    """When its stream had its last record, where that has been silent since."""
    ended: float = 0.0
    """Seconds at which what it shows was over; 0 where that is not known, or it is not."""
    over: float = 0.0
    """About the same of an alert, which is cleared later."""
    until: float = 0.0
    """Of a drift: seconds at which there was a new baseline; infinite while there is none. Of a silence: its end."""

    @property
    def soon(self) -> dict[str, Move]:
        """The features that moved by its drift, and not only in its end."""
        return {name: move for name, move in self.moves.items() if name not in self.late}

    @property
    def jumps(self) -> set[str]:
        """The features that go far farther from record to record by its drift."""
        return {name for name, move in self.varies.items() if move.steps and move.ratio >= NOISY}

    def is_of(self, lacks: Collection[str]) -> bool:
        """Whether it shows no other features than those that are missing, or that one is."""
        names = {*self.values, *self.moves, *self.varies, *filter(None, [self.lacks])}
        return bool(names) and names.issubset(lacks)

    @property
    def is_far(self) -> bool:
        """Of an alert `unlike`: whether it names what is far off, in records of a kind that the model does not know."""
        return any(value.is_far for value in self.values.values()) and not self.is_known

    @property
    def is_slight(self) -> bool:
        """Whether it was a little beyond the usual values for a while, and no more."""
        is_over = self.rule == "unlike" and self.ended > 0 and not self.is_learned
        return is_over and bool(self.values) and not any(each.is_far for each in self.values.values())


class NewCluster(NamedTuple):
    """A cluster that came."""

    key: str
    stream: str
    onset: float
    """Seconds of its first record, about."""
    time: float
    """Seconds at which it was known."""
    centre: Mapping[str, float]
    spread: Mapping[str, float]

    @property
    def sign(self) -> Sign:
        """The cluster as a sign, which only counts where no alert opens."""
        time = stamp(self.time)
        return Sign(
            self.key, self.stream, self.stream, "emerged", "info", self.time, self.onset, time, centre=self.centre
        )


IN_ORDER: Final = attrgetter("time", "place", "key")
"""The order of signs."""


def stream_of(cluster: str) -> str:
    """Return the stream of a cluster, by its name."""
    return cluster.rsplit("/", 2)[0]


def stamp(time: float) -> str:
    """Return seconds as the time of an output."""
    return canonical(round(1000 * time))


def seconds(time: str) -> float:
    """Return the time of an output in seconds."""
    return epoch_ms(time) / 1000
