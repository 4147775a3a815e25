"""The drift watch as its specification has it, in plain Python: one float at a time."""

from dataclasses import dataclass, field
from math import inf, isnan, nan, sqrt
from types import SimpleNamespace
from typing import Any

import numpy as np
from resonance.engine.matrices import invert
from resonance.kernels.arithmetic import log

OUTLIVING = ("OLD", "OLDS", "PREV", "PREVS", "HLO", "HHI", "TAUS", "TAUQ")
FIELDS = (
    *("C", "G", "MU", "RHO", "AL", "BE", "KU", "KD", "HS", "KQ", "HQ", "S", "Q", "OS", "OQ", "E"),
    *("SY", "SYY", "SA", "BY", "BA", "PY", "PA", "BYY", "BYP", "BAA", "BAP"),
    *OUTLIVING,
)
PLAIN = ("W", "WW", "FROM", "U", "OLDU", "BACK", "LACK")
STEPS = ("X", "SUM", "R", "LO", "HI", "AT", "N", "MOVED", "LONG", "HELD", "BOTTOM", "TOP", "AWAY", "GONE", "GONEM")
SHARE_OUTLIVING = ("OLDR", "PREVR", "RLO", "RHI")
SHARE = (
    *("SN", "SNN", "SNP", "PN", "P0", "HU", "MU", "HD", "MD", "HR", "WU", "WD", "OU", "OD", "BU", "BD"),
    *SHARE_OUTLIVING,
)
HOME = ("C", "G", "MU", "RHO", "AL", "BE", "KU", "KD", "HS", "BACK", "KQ", "HQ", "TAUS", "TAUQ", "U")
HOME_STEPS = ("LO", "HI", "BOTTOM", "TOP")
HOME_SHARE = ("P0", "HU", "MU", "HD", "MD", "HR")
RETURN = ("WANTED", "NEARER", "WAY", "BY", "KEPT")
NUMBERS = (
    *("NN", "CHECK", "WATCHED", "FLAG", "BASES", "RETURNS", "RB", "RCHECK", "RFLAG", "CNT", "RBASES", "RRETURNS"),
    *("NAME", "VOTE"),
)


def clip(v: float, low: float, high: float) -> float:
    return min(max(v, low), high)


@dataclass
class Unit:
    """One unit: channels, share and numbers by the names of the specification."""

    base: int
    channels: list[Any]
    share: Any = field(default_factory=lambda: SimpleNamespace(**dict.fromkeys(SHARE, 0.0) | {"HR": inf}))
    number: Any = field(
        default_factory=lambda: SimpleNamespace(**dict.fromkeys(NUMBERS, 0) | {"RCHECK": 16}),
    )
    back: Any = field(default_factory=lambda: SimpleNamespace(**dict.fromkeys(RETURN, 0.0)))
    home: list[list[float]] = field(default_factory=list)
    home_share: list[float] = field(default_factory=list)
    marks: list[list[int]] = field(default_factory=lambda: [[0] * 16 for _ in range(3)])


def wave(part: float) -> float:
    u = 2.0 * (part % 1.0) - 1.0
    y = 4.0 * u * (1.0 - abs(u))
    return y * (0.775 + 0.225 * abs(y))


class Relations:
    """What the features of a stream say of each other, with two waves of a day."""

    def __init__(self, features: int) -> None:
        self.features, self.paired, self.refit = features, 0, 256
        self.d = d = features + 4
        self.weight, self.products = ([[0.0] * d for _ in range(d)] for _ in range(2))
        self.least, self.resting, self.rest = [0.0] * d, [0.0] * d, [-1e300] * d
        self.level, self.low, self.high, self.width, self.sums, self.at, self.scale = ([0.0] * d for _ in range(7))

    def pair(self, x: list[float], time: int) -> list[float]:
        """Return a record with the waves of the day at its time."""
        part = (time % 86_400_000) / 86_400_000
        return [*x, wave(part), wave(part + 0.25), wave(2.0 * part), wave(2.0 * part + 0.25)]

    def left(self, x: list[float]) -> list[float]:
        """Return what is left of each feature beside what the others say of it, NaN where that is not known."""
        found = [nan] * self.features
        for i, own in enumerate(self.weight[: self.features]):
            others = [j for j in range(self.d) if j != i and own[j] != 0.0]
            if own[i] and all(self.low[j] <= x[j] <= self.high[j] for j in others):
                found[i] = x[i] - self.level[i]
                for j in others:
                    found[i] -= own[j] * x[j]
        return found

    def add(self, x: list[float], first: Unit) -> None:
        if self.paired == 0:
            if not first.number.WATCHED:
                return
            own = first.channels[: self.features]
            self.at = [*(c.C + c.MU / c.G for c in own), 0.0, 0.0, 0.0, 0.0]
            self.scale = [*(c.G * c.RHO for c in own), 1.0, 1.0, 1.0, 1.0]
            self.least, self.resting = [1e300] * self.d, [0.0] * self.d
            self.sums, self.products = [0.0] * self.d, [[0.0] * self.d for _ in range(self.d)]
        self.paired += 1
        for i, v in enumerate(x[: self.features]):
            self.least[i] = min(self.least[i], v)
            self.resting[i] += (v - self.least[i]) * self.scale[i] <= 0.05
        z = [clip((v - at) * scale, -5.0, 5.0) for v, at, scale in zip(x, self.at, self.scale, strict=True)]
        for i, own in enumerate(z):
            self.sums[i] += own
            for j, other in enumerate(z[: i + 1]):
                self.products[i][j] += own * other

    def forget(self) -> None:
        if self.paired:
            self.refit = max(min(self.refit // 2, 4096), 256)
        self.paired = 0

    def fit(self) -> bool:
        """Take the relations that the records so far have; return whether they are other ones than before."""
        n, every = float(self.paired), range(self.d)
        mean = [each / n for each in self.sums]
        cov = [[self.products[max(i, j)][min(i, j)] / n - mean[i] * mean[j] for j in every] for i in every]
        sd = [sqrt(max(cov[i][i], 0.0)) for i in every]
        found = [
            i < self.features and self.resting[i] >= 0.2 * n and self.rest[i] <= -1e300 and sd[i] > 0.05 for i in every
        ]
        if any(found):
            for i in every:
                if found[i]:
                    self.rest[i] = self.least[i] + 0.05 / self.scale[i]
            self.refit, self.paired = max(self.paired, 256), 0
            return False
        varies = [sd[i] > (1e-3 * self.scale[i] if i < self.features else 0.5) for i in every]
        cov = [[cov[i][j] if varies[i] and varies[j] else 0.0 for j in every] for i in every]
        own = [[(sd[i] * sd[i] * 1.0001 if varies[i] else 1.0) if i == j else cov[i][j] for j in every] for i in every]
        room, inverse = np.empty((3, self.d, self.d)), np.empty((self.d, self.d))
        invert(np.array(own), self.d, room[2, 0], room[0], room[1], inverse)
        left = [1.0 / float(inverse[i, i]) for i in every]
        followed = [i < self.features and varies[i] and left[i] <= 0.5 * sd[i] * sd[i] for i in every]
        at = [self.at[i] + mean[i] / self.scale[i] for i in every]
        reach = [2.0 * sd[i] / self.scale[i] for i in every]
        self.low, self.high = ([at[i] + side * reach[i] for i in every] for side in (-1, 1))
        known = [self.weight[i][i] > 0.0 for i in every]
        if any(known) and known == followed:
            kept = True
            for i in every:
                row = [1.0 if i == j else -self.weight[i][j] * self.scale[i] / self.scale[j] for j in every]
                total = sum(row[a] * row[b] * cov[a][b] for a in every for b in every)
                kept = kept and (not known[i] or total <= 1.05 * max(left[i], 0.1 * 0.1 * sd[i] * sd[i]))
            if kept:
                return False
        for i in every:
            weight = [-float(inverse[i, j]) * left[i] for j in every]
            says = [followed[i] and varies[j] and abs(weight[j]) * sd[j] >= 0.05 * sd[i] for j in every]
            weight = [w * self.scale[j] / self.scale[i] if says[j] and i != j else 0.0 for j, w in enumerate(weight)]
            self.level[i] = at[i] - sum(w * v for w, v in zip(weight, at, strict=True))
            self.weight[i] = [float(followed[i]) if i == j else w for j, w in enumerate(weight)]
            self.width[i] = 0.1 * sd[i] / self.scale[i]
        return True


@dataclass
class PlainDrift:
    """The specification's sections from *A record* to *What is told*."""

    d: int
    rarity: float = 1e5
    step: float = 0.5
    hold: int = 500
    ordinary: int = 5
    returning: int = 0
    leaps: int = 0
    relations: int = 0
    cells: int = 32
    t: int = 0
    opened: bool = False
    start: int = 0
    seq: int = 0
    rebuild: bool = False
    moved: int = 0
    rates: int = 0
    gone: int = 0
    steady: int = 0
    outages: int = 0
    apart: int = 0
    still: int = 256
    named: int = 0
    next: int = 512
    centres: list[list[float]] = field(default_factory=list)
    rows: list[list[float]] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.ch = self.d + 2 if self.d >= 2 else self.d
        self.most = max(min(self.cells, 8192 // self.ch - 1), 0)
        self.limit = float(log(self.rarity * (8.0 * self.ch + 4.0)))
        self.theta = min(self.step, 0.6)
        self.theta_q = 0.6 * self.theta
        self.units = [self.unit(512)]
        self.steps = [SimpleNamespace(**dict.fromkeys(STEPS, 0.0)) for _ in range(self.d)]
        self.rest = self.unit(128) if self.relations and self.d <= 24 else None
        self.known = Relations(self.d)
        self.before: tuple[int, list[float]] = 0, [0.0] * (self.d + 4)

    @property
    def every(self) -> list[Unit]:
        return self.units if self.rest is None else [*self.units, self.rest]

    def unit(self, base: int) -> Unit:
        unit = Unit(base, [SimpleNamespace(**dict.fromkeys(FIELDS + PLAIN, 0.0)) for _ in range(self.ch)])
        unit.number.CHECK = base
        return unit

    def learn(self, x: list[float], answer: int, offset: int, grain: list[float] | None = None) -> None:
        self.t += 1
        rough = bool(self.leaps) and self.follow_steps(x, grain or [0.0] * self.d)
        rough = rough and bool(self.units[0].number.WATCHED) and not self.settling()
        watching = [self.units[0]]
        if len(self.centres) >= 2 and not all(c.HELD >= 2 or isnan(v) for c, v in zip(self.steps, x, strict=True)):
            distances = [self.distance(x, centre) for centre in self.centres]
            own = self.units[1 + distances.index(min(distances))]
            n = own.number
            n.CNT += 1
            if answer == n.NAME:
                n.VOTE = min(n.VOTE + 1, 64)
            elif n.VOTE > 0:
                n.VOTE -= 1
            else:
                n.NAME, n.VOTE = answer, 1
            watching.append(own)
        alarms, looks = [self.take(self.units[0], x, offset)], False
        if self.rest is not None and not any(c.HELD >= 2 or isnan(v) for c, v in zip(self.steps, x, strict=True)):
            looks = self.relate(self.rest, x, offset)
        alarms += [self.take(unit, x, offset) for unit in watching[1:]]
        alarms[0] |= rough
        if len(self.centres) >= 2 and self.t % 64 == 0:
            if not self.leaps or (sum(unit.number.CNT for unit in self.units) == 64 and not self.unclear(self.d)):
                alarms += [self.close_block(unit, offset) for unit in self.units[1:]]
            for unit in self.units:
                unit.number.CNT = 0
        if any(alarms) and any(u.back.WANTED == -1 and not u.number.WATCHED for u in self.units):
            if self.come_back():
                self.end(offset)
        elif any(alarms):
            if self.opened and not self.settling():
                self.end(offset)
            self.alarm(offset)
        if looks:
            self.look_at_relations(self.rest, offset)
        if self.over():
            self.end(offset)

    def relate(self, rest: Unit, x: list[float], offset: int) -> bool:
        """Take what is left of the features of a record; return whether to look at it."""
        # The streams of the tests have offsets as times.
        x = self.known.pair(x, offset)
        resting = [v <= rest for v, rest in zip(x[: self.d], self.known.rest, strict=False)]
        if any(resting) and 2 * sum(resting) > sum(rest > -1e300 for rest in self.known.rest[: self.d]):
            return False
        left, alarm = self.known.left(x), False
        if not all(map(isnan, left)):
            alarm = self.take(rest, left, offset)
        self.known.add(x, self.units[0])
        due = self.known.paired >= self.known.refit and not self.opened and self.apart == 0
        return self.apart <= rest.number.NN if self.apart else alarm or due

    def look_at_relations(self, rest: Unit, offset: int) -> None:
        strengths, known = self.strengths(rest), self.known
        if self.apart == 0 and any(max(pair) >= 1.0 for pair in strengths):
            self.apart = rest.number.NN + self.still
            self.before = known.paired, [*known.sums]
        elif 0 < self.apart <= rest.number.NN:
            self.apart = 0
            clear = []
            for c, (of_s, of_q, _) in zip(rest.channels, strengths, strict=True):
                far = abs(c.S) / max(rest.number.NN - c.OS, 1.0) + (c.KU if c.S > 0 else c.KD)
                lasts = [rest.number.NN - onset >= self.still for onset in (c.OS, c.OQ)]
                wider = lasts[1] and of_q >= 1.0 and self.ratio(rest, c) >= 3.0
                least = 2.0 * (1.0 if wider else max(self.known_inflation(rest, c)[0] / 8.0, 1.0))
                moved = lasts[0] and of_s >= 1.0 and far >= least
                clear.append((of_s if moved else 0.0, of_q if wider else 0.0))
            off = [(c.E - c.MU) * c.RHO * bool(known.weight[i][i]) for i, c in enumerate(rest.channels[: self.d])]
            most, n, way = max(s for s, _ in clear), known.paired - self.before[0], [0.0] * self.d
            if self.before[0] > 0 and n > 0:
                for i, v in enumerate(off):
                    now = known.at[i] + (known.sums[i] - self.before[1][i]) / n / known.scale[i]
                    side = (v > 0) - (v < 0)
                    way[i] = max(side * (now - 0.5 * (known.low[i] + known.high[i])) * known.scale[i], 0.0)
            far = max(map(abs, off))
            rank = [w + 1e-6 * abs(v) if abs(v) >= 0.7 * far else -1.0 for w, v in zip(way, off, strict=True)]
            if most > 0.0:
                clear = [(most, 0.0) if i == rank.index(max(rank)) else (0.0, 0.0) for i in range(self.ch)]
            found = []
            for e, i in sorted((-max(pair), i) for i, pair in enumerate(clear) if max(pair) > 0.0)[:5]:
                change, before, now, spread, ratio, _ = self.described(rest, rest.channels[i], *clear[i])
                first = self.units[0].channels[i]
                whole = 1.0 / (first.RHO * first.G) if self.units[0].number.WATCHED else first.OLDS
                if (abs(now - before) if change == 0 else ratio * spread) >= 0.25 * whole:
                    usual = 0.5 * (known.low[i] + known.high[i]) - before
                    found.append([3, self.t - 1, i, change, -e, before + usual, now + usual, spread, ratio, 0])
            if not found:
                self.still = min(2 * self.still, 2048)
                n = rest.number.NN
                rest.number.CHECK = n - 32 + max(int(rest.back.KEPT), rest.base)
                for c, pair in zip(rest.channels, strengths, strict=True):
                    if max(pair) >= 1.0:
                        self.begin_channel(c, n)
                return
            self.named = 1 + int(max(found, key=lambda row: abs(row[6] - row[5]) / row[7] + row[8])[2])
            top = max(found, key=lambda row: abs(row[6] - row[5]) / row[7] + row[8])
            _, i, which = min((-e, i, which) for i, pair in enumerate(clear) for which, e in enumerate(pair))
            since = self.marked(rest, int(rest.channels[i].OQ if which else rest.channels[i].OS))
            evidence = max(map(max, clear))
            self.restart(rest)
            self.known.forget()
            joined = self.opened
            if not joined:
                self.opened, self.start = True, self.t - 1
                self.moved = self.rates = self.gone = 0
                self.event(0, 1, offset)
            self.rows += [[2, self.t - 1, -1, 1, evidence, 0.0, 0.0, since, -1, int(joined), 0.0], top]
        elif known.paired >= known.refit and not self.opened and self.apart == 0:
            suspicious = any(abs(c.S) >= 0.25 * c.HS or abs(c.Q) >= 0.25 * c.HQ for c in rest.channels)
            known.refit = 2 * known.paired
            if not (rest.number.WATCHED and suspicious) and known.fit():
                self.rest, self.still = self.unit(128), 256
                for new, old in zip(self.rest.channels, rest.channels, strict=True):
                    new.TAUS, new.TAUQ = self.known_inflation(rest, old)

    def changing(self) -> bool:
        return self.opened and any(unit.number.FLAG or unit.number.RFLAG for unit in self.every)

    def settling(self) -> bool:
        """Whether a unit of the open episode has no new baseline yet, unless it has lasted for long."""
        lasted = self.t - 1 - self.start
        if not self.changing() or lasted < self.hold:
            return self.changing()
        waits = any(
            (u.number.FLAG and not u.number.WATCHED) or (u.number.RFLAG and inf == u.share.HR) for u in self.every
        )
        return waits and lasted < 8 * self.hold

    def over(self) -> bool:
        lasted, held = self.t - 1 - self.start, max(c.HELD for c in self.steps)
        if not self.opened or lasted < self.hold or self.settling() or held >= 2:
            return False
        return lasted >= 8 * self.hold or self.changing() or held == 0

    def distance(self, x: list[float], centre: list[float]) -> float:
        total = 0.0
        for i in range(self.d):
            if self.steps[i].HELD >= 2 or isnan(x[i]):
                continue
            e = x[i] - centre[i]
            total += e * e
        return total

    def follow_steps(self, x: list[float], grain: list[float]) -> bool:
        alarm, known = False, self.t - self.steady > 512
        for c, v, g in zip(self.steps, x, grain, strict=True):
            if isnan(v):
                c.GONE += 1.0
            elif self.t == c.GONE + 1:
                c.BOTTOM = c.TOP = c.X = v
            step = 0.0 if isnan(v) else abs(v - c.X)
            changes = step > max(0.04 * c.LO, g)
            if changes:
                pause = self.pause(c)
                c.MOVED, c.GONEM = float(self.t), c.GONE
                c.N += (1.0 / pause - c.N) * min(pause * max(1.0 / 512.0, 1.0 / self.t), 1.0)
                c.LONG = max(c.LONG, pause * (1.2 / 3.0 if c.HELD >= 2 else 1.0))
            if isnan(v):
                c.SUM += c.R
            else:
                self.leave(c, v, known)
                c.SUM += min(step, 8.0 * c.HI) if self.t > 64 and c.HI > 0.0 else step
                c.X = v
            if self.t % 8:
                continue
            step, c.SUM = c.SUM / 8, 0.0
            if self.t <= 256:
                c.R += (step - c.R) * 8 / self.t
                c.LO = c.HI = c.R
                continue
            c.R += (step - c.R) * 0.125
            if c.HELD == 1 and c.R <= 1.25 * c.AT:
                c.HELD, c.AT = 0.0, float(self.t)
            if c.HELD >= 2:
                self.wake(c)
            if c.HELD < 2 and self.beyond(c)[1] < 1.0:
                wider, narrower = (1.0 / 512.0, 1.0 / 4096.0) if known else (1.0, 0.0)
                c.HI += max(c.R - c.HI, 0.0) * wider + min(c.R - c.HI, 0.0) * narrower
                c.LO += min(c.R - c.LO, 0.0) * wider + max(c.R - c.LO, 0.0) * narrower
            noisy, stuck = self.beyond(c)
            if noisy < 1.0 and c.HELD != 1:
                c.AT = float(self.t)
            alarm |= known and c.HELD == 0 and (self.t - c.AT >= 128 or stuck >= 1.0)
            alarm |= c.AWAY >= 32 and not self.unclear(self.steps.index(c))
        return alarm

    def pause(self, c: Any) -> float:
        """Return how many records with a feature it has not changed for."""
        return float(self.t - c.MOVED - (c.GONE - c.GONEM))

    def leave(self, c: Any, v: float, known: bool) -> None:
        """Count the records in a row that are further beyond all before than that is wide, and no ordinary steps."""
        beyond = max(c.BOTTOM - v, v - c.TOP)
        if beyond <= 0.0 or not known or beyond * c.N <= 8.0 * c.HI:
            c.BOTTOM, c.TOP, c.AWAY = min(c.BOTTOM, v), max(c.TOP, v), 0.0
        elif beyond <= c.TOP - c.BOTTOM:
            c.AWAY = 0.0
        elif c.HELD < 2:
            c.AWAY += 1.0

    def wake(self, c: Any) -> None:
        """Let a feature that was stuck go on once it has changed in three blocks."""
        if self.beyond(c)[1] >= 1.0:
            c.HELD = 2.0
        elif self.t - c.MOVED < 8:
            c.HELD += 0.25
        if c.HELD >= 2.75:
            c.HELD, place = 0.0, self.steps.index(c)
            for unit in self.every:
                own = unit.channels[place]
                own.S, own.Q, own.OS, own.OQ = 0.0, 0.0, float(unit.number.NN), float(unit.number.NN)
                if unit.number.NN >= 32:
                    self.begin_sums(unit)
            if not any(unit.number.FLAG or unit.number.RFLAG for unit in self.every):
                self.start = max(min(self.start, self.t - 1 - self.hold), 0)

    def beyond(self, c: Any) -> tuple[float, float]:
        """Return how noisy a feature is, and how stuck, 1 at the bounds."""
        if not 0.0 < c.HI <= 4.0 * c.LO:
            return 0.0, 0.0
        pause = self.pause(c)
        due = min(pause * c.N / 30.0, pause / max(3.0 * c.LONG, 1.0))
        return c.R / (2.5 * c.HI), 0.0 if c.N * (c.MOVED - c.GONEM) < 8.0 else due

    def unclear(self, i: int) -> bool:
        """Whether a feature, or one of those in a sum, may be stuck."""
        own = [(c.HELD, self.beyond(c)[1]) for c in (self.steps[i : i + 1] or self.steps)]
        return any(held < 2 and stuck >= 0.25 and (stuck < 1.0 or self.opened) for held, stuck in own)

    def step_evidence(self, c: Any) -> float:
        return 0.0 if c.HELD >= 2 else clip(2.0 * max(*self.beyond(c), c.AWAY / 32.0) - 1.0, 0.0, 10.0)

    def which(self, c: Any) -> str:
        noisy, stuck = self.beyond(c)
        far = c.AWAY / 32.0
        return "stuck" if stuck >= max(noisy, min(far, 1.0)) else "noisy" if noisy > far else "far"

    def is_stuck(self, c: Any) -> bool:
        return self.which(c) == "stuck"

    def stepped(self, c: Any) -> int:
        """Return the record of the stream since which a feature is stuck, noisy or far away."""
        if self.which(c) != "noisy":
            return int(c.MOVED if self.is_stuck(c) else self.t - c.AWAY)
        beyond = 1.5 / max(c.R / c.HI - 1.0, 1.5)
        return int(c.AT - min(8 * log(max(1.0 - beyond, 1e-9)) / log(0.875), 48))

    def take(self, unit: Unit, x: list[float], offset: int) -> bool:
        n, number = unit.number.NN, unit.number
        number.NN += 1
        for level, every in enumerate((8, 64, 512)):
            if n % every == 0:
                unit.marks[level][n // every % 16] = offset
        alarm = not number.WATCHED and unit.back.WANTED > 0 and self.is_back(unit, x)
        if n < 32:
            for i in range(self.d):
                c = unit.channels[i]
                if isnan(x[i]):
                    c.LACK += 1.0
                    continue
                e = x[i] - c.C
                c.C += e / (n + 1 - c.LACK)
                c.G += e * (x[i] - c.C)
            if n == 31:
                for i, c in enumerate(unit.channels):
                    least = max(c.OLDS, self.least(unit, i)) if self.leaps else 1e-3
                    c.C, c.G = (c.C, 1.0 / max(sqrt(c.G / max(31 - c.LACK, 1)), least)) if i < self.d else (0.0, 1.0)
                    c.LACK = 0.0
            return alarm
        nb = n - 31
        still = [c.HELD >= 2 and bool(number.WATCHED) for c in self.steps]
        still += [any(still)] * (self.ch - self.d)
        value = [
            v if isnan(v) else clip((v - c.C) * c.G, -1000.0, 1000.0) for v, c in zip(x, unit.channels, strict=False)
        ]
        y = [0.0 if isnan(v) else clip(v, -3.0, 3.0) for v in value]
        if self.d >= 2:
            one = other = 0.0
            for i in range(self.d):
                one += y[i]
                other += -y[i] if bin(i).count("1") % 2 else y[i]
            lacks = unit is self.rest or any(isnan(v) and c.W != 0.0 for v, c in zip(x, unit.channels, strict=False))
            value += [nan, nan] if lacks else [one / sqrt(self.d), other / sqrt(self.d)]
            y += [v if lacks else clip(v, -3.0, 3.0) for v in value[self.d :]]
        value, y = (
            [
                c.MU if held and not isnan(w) else v
                for c, held, v, w in zip(unit.channels, still, of, value, strict=True)
            ]
            for of in (value, y)
        )
        for i, (c, v, w, held) in enumerate(zip(unit.channels, value, y, still, strict=True)):
            if isnan(v):
                c.LACK += 1.0
                continue
            c.W += v
            c.WW += v * v
            if held:
                c.SYY += 1.0 / (c.RHO * c.RHO)
            c.SYY += w * w
            c.BY += w
            a = c.AL if held else abs(w)
            c.BA += a
            if number.WATCHED:
                # The steps of what may be stuck say more soon.
                alarm |= self.follow(c, v, w, a, n) and not self.unclear(i if unit is self.units[0] else self.d)
            own = nb - c.FROM - c.LACK
            if own % 8:
                continue
            c.SY += c.BY
            c.SA += c.BA
            b, a = c.BY / 8, c.BA / 8
            c.BYY += b * b
            c.BAA += a * a
            if own > 8:
                c.BYP += b * c.PY
                c.BAP += a * c.PA
            c.PY, c.PA, c.BY, c.BA = b, a, 0.0, 0.0
        if nb == number.CHECK and unit is not self.units[0] and self.units[0].back.WANTED > 0 and not number.FLAG:
            number.CHECK = nb + 128
        elif nb == number.CHECK:
            suspicious = any(abs(c.S) >= 0.25 * c.HS or abs(c.Q) >= 0.25 * c.HQ for c in unit.channels)
            if not alarm and not (number.WATCHED and suspicious):
                if self.leaps:
                    self.again(unit, nb)
                self.baseline(unit, nb)
            number.CHECK = 2 * nb
        return alarm

    def least(self, unit: Unit, i: int) -> float:
        """Return the least range of a feature."""
        return max(self.known.width[i], 1e-3) if unit is self.rest and i < self.d else 1e-3

    def again(self, unit: Unit, n: int) -> None:
        """Measure ranges anew that do not hold, of features that are not watched yet."""
        found = []
        for i, c in enumerate(unit.channels[: self.d]):
            own, least = n - c.FROM - c.LACK, c.G * self.least(unit, i) >= 1
            if own < 32 or (n >= 8 * unit.base and n >= c.LACK * 2) or (unit.number.WATCHED and inf > c.HS):
                continue
            at = c.W / own
            var = max(c.WW / own - at * at, 0.0)
            if 4 * own < c.SYY or (var > 4 if least else var < 0.25):
                c.C += at / c.G
                c.G = 1.0 / max(sqrt(var) / c.G, self.least(unit, i))
                found.append(c)
        for c in found + (unit.channels[self.d :] if found else []):
            c.FROM, c.LACK, c.BY, c.BA = float(n), 0.0, 0.0, 0.0
            c.SY = c.SYY = c.SA = c.W = c.WW = c.PY = c.PA = c.BYY = c.BYP = c.BAA = c.BAP = 0.0

    def follow(self, c: Any, v: float, y: float, a: float, n: int) -> bool:
        c.E += (v - c.E) * 0.0625
        s = c.S + (y - c.MU) * c.RHO
        s -= clip(s, -c.KD, c.KU)
        if s == 0:
            c.OS = float(n + 1)
        elif s * c.S < 0:
            c.OS = float(n)
        c.S = s
        q = c.Q + (a - c.AL) * c.BE
        q -= clip(q, -c.KQ, c.KQ)
        if q == 0:
            c.OQ = float(n + 1)
        elif q * c.Q < 0:
            c.OQ = float(n)
        c.Q = q
        return abs(s) >= self.limit_of(c) or q >= c.HQ or -q >= c.HQ * 0.6

    def baseline(self, unit: Unit, n: int) -> None:
        number, first = unit.number, not unit.number.WATCHED
        variances = []
        inside = number.BASES > 0
        for c in unit.channels:
            own = max(n - c.FROM - c.LACK, 1.0)
            c.MU, c.AL = (c.SY + c.BY) / own, (c.SA + c.BA) / own
            c.U = c.C + c.W / (own * c.G)
            var, va = max(c.SYY / own - c.MU * c.MU, 0.25), max(c.SYY / own - c.AL * c.AL, 0.04)
            variances.append((var, va))
            c.RHO, c.BE = 1.0 / sqrt(var), 1.0 / sqrt(va)
            at = c.C + c.MU / c.G
            if first and number.BASES == 0:
                c.HLO = c.HHI = at
            elif first:
                e = self.step / (c.RHO * c.G)
                inside = inside and not (at < c.HLO - e or at > c.HHI + e)
                c.HLO, c.HHI = min(c.HLO, at), max(c.HHI, at)
        number.RETURNS += first and inside
        far, blind, returning = 0.0, False, self.returning > 0 and number.RETURNS > 0
        late = n >= 8 * unit.base
        for i, (c, (var, va)) in enumerate(zip(unit.channels, variances, strict=True)):
            up = down = 0.0
            if self.ordinary <= number.RETURNS and i < self.d:
                at = c.C + c.MU / c.G
                up, down = max(c.HHI - at, 0.0) * c.G, max(at - c.HLO, 0.0) * c.G
                far += max(up, down)
            elif self.ordinary <= number.RETURNS:
                up = down = far / sqrt(self.d)
            own = n - c.FROM - c.LACK
            t = self.inflation(own, c.BYY, c.BYP, c.MU, var, c.TAUS, late, unit) if own >= unit.base else inf
            blind = blind or (returning and t == inf)
            if (blind and i >= self.d) or (unit is self.rest and t > 32.0):
                t = inf
            hidden = (returning or unit is self.rest) and t == inf
            if first or inf in (c.HS, t):
                c.S, c.OS, c.E = 0.0, float(number.NN), c.MU
            own = max(own, 1.0)
            errors, b = 3 * sqrt(min(t, own) / own), (3 + abs(c.MU)) * c.RHO
            c.KU, c.KD = self.step + errors + up * c.RHO, self.step + errors + down * c.RHO
            c.HS = self.limit / self.theta * t * self.leap(b, self.step, self.theta)
            half = self.half_back(unit, i)
            c.BACK = 0.0
            if half:
                c.KU, c.KD = (half + errors, c.KD) if half > 0 else (c.KU, errors - half)
                least = 2 * abs(half)
                high = self.limit / least * t * self.leap(b, abs(half), least)
                c.BACK = max(high / c.HS, 1.0) if inf > c.HS else 1.0
                c.BACK = c.BACK if half > 0 else -c.BACK
            t = inf
            if not hidden and own >= unit.base:
                t = self.inflation(own, c.BAA, c.BAP, c.AL, va, c.TAUQ, late, unit)
                t = inf if unit is self.rest and t > 32.0 else t
            if first or inf in (c.HQ, t):
                c.Q, c.OQ = 0.0, float(number.NN)
            c.KQ = 0.5 * self.step + 3 * sqrt(min(t, own) / own) + max(up, down) * c.BE
            t *= self.leap((3 - c.AL) * c.BE, 0.5 * self.step, self.theta_q)
            c.HQ = self.limit / self.theta_q * t
        number.BASES += first
        unit.back.WANTED = 0.0 if first else unit.back.WANTED
        unit.back.KEPT = max(n - min(c.FROM for c in unit.channels), unit.base)
        number.WATCHED = 1

    def keep(self, unit: Unit, far: int) -> None:
        """Keep what a unit is like, and of the clearest of its changes how far it went."""
        back, number = unit.back, unit.number
        back.WANTED = back.NEARER = 0.0
        if not self.leaps or not number.WATCHED or number.RETURNS > 0 or (self.outages - 1) * 65536 > self.t:
            return
        pairs = [pair[:2] for pair in self.strengths(unit)]
        best = max(max(pair) for pair in pairs)
        i = next(i for i, pair in enumerate(pairs) if max(pair) == best)
        which = pairs[i].index(best)
        if far >= 0 and best < 1.0:
            i, which, c = far, 0, unit.channels[far]
            way = (clip((self.steps[far].X - c.C) * c.G, -3.0, 3.0) - c.MU) * c.RHO
        elif best < 0.5:
            return
        else:
            c = unit.channels[i]
            s, onset, allowed = (c.Q, c.OQ, c.KQ) if which else (c.S, c.OS, c.KU if c.S > 0 else c.KD)
            records = max(number.NN - onset, 1.0)
            way = (1.0 if s > 0 else -1.0) * (abs(s) / records + allowed) if records <= 128 else 0.0
        if abs(way) < 0.25:
            return
        limit, largest = (c.HQ * self.theta_q, (3.0 - c.AL) * c.BE) if which else (c.HS * self.theta, 0.0)
        largest = largest if which else (3.0 + abs(c.MU)) * c.RHO
        varies = max(abs(way) * (largest - abs(way)), 1.0)
        back.WAY, back.BY = way, i + which * self.ch
        back.WANTED = 16.0 * abs(way) if inf == limit else max(limit * varies / abs(way), 16.0 * abs(way))
        unit.home = [[getattr(c, name) for name in HOME] for c in unit.channels]
        if unit is self.units[0]:
            self.home_steps = [[getattr(c, name) for name in HOME_STEPS] for c in self.steps]

    def is_back(self, unit: Unit, x: list[float]) -> bool:
        """Whether a unit without a baseline is where it was before the change."""
        back = unit.back
        if unit.number.NN > 256:
            back.WANTED = 0.0
            return False
        at = int(back.BY) % self.ch
        homes = [SimpleNamespace(**dict(zip(HOME, home, strict=True))) for home in unit.home]
        y = 0.0
        for i in [at] if at < self.d else range(self.d):
            if isnan(x[i]) or self.steps[i].HELD >= 2:
                return False
            v = clip((x[i] - homes[i].C) * homes[i].G, -3.0, 3.0)
            y += -v if at > self.d and bin(i).count("1") % 2 else v
        y = y if at < self.d else clip(y / sqrt(self.d), -3.0, 3.0)
        home = homes[at]
        z = (abs(y) - home.AL) * home.BE if self.ch <= back.BY else (y - home.MU) * home.RHO
        back.NEARER = max(back.NEARER + (1.0 if back.WAY > 0 else -1.0) * (0.5 * back.WAY - z), 0.0)
        if back.NEARER < back.WANTED or unit.number.NN < 32:
            return False
        back.WANTED = -1.0
        return True

    def begin_sums(self, unit: Unit) -> None:
        """Begin the sums of the next baseline anew."""
        number = unit.number
        number.NN -= (number.NN - 32) % 8
        number.CHECK = number.NN - 32 + max(int(unit.back.KEPT), unit.base)
        for c in unit.channels:
            self.begin_channel(c, number.NN)

    def begin_channel(self, c: Any, n: int) -> None:
        c.FROM, c.LACK, c.BY, c.BA = float(n - 32), 0.0, 0.0, 0.0
        c.SY = c.SYY = c.SA = c.W = c.WW = c.PY = c.PA = c.BYY = c.BYP = c.BAA = c.BAP = 0.0
        c.S, c.Q, c.OS, c.OQ, c.E = 0.0, 0.0, float(n), float(n), c.MU

    def restore(self, unit: Unit) -> None:
        number, back = unit.number, unit.back
        for c, home in zip(unit.channels, unit.home, strict=True):
            for name, value in zip(HOME, home, strict=True):
                setattr(c, name, value)
        if unit is self.units[0]:
            for c, home in zip(self.steps, self.home_steps, strict=True):
                for name, value in zip(HOME_STEPS, home, strict=True):
                    setattr(c, name, value)
            self.steady = 0
        if self.ch > back.BY:
            c = unit.channels[int(back.BY)]
            spread = 1.0 / (c.RHO * c.G)
            at, margin = c.C + c.MU / c.G + back.WAY * spread, self.step * spread
            if c.HLO - margin <= at <= c.HHI + margin:
                number.RETURNS += 1
            else:
                c.HLO, c.HHI = min(c.HLO, at), max(c.HHI, at)
        back.WANTED, number.WATCHED, number.NN = -1.0, 1, max(number.NN, 32)
        self.begin_sums(unit)

    def come_back(self) -> bool:
        """Let what is back go on as before; return whether all of the episode is."""
        first = self.units[0]
        whole = first.back.WANTED == -1 and not first.number.WATCHED
        for unit in self.every:
            number, back = unit.number, unit.back
            if not number.WATCHED and (back.WANTED == -1 or (whole and back.WANTED > 0)):
                self.restore(unit)
            elif number.WATCHED and (whole or unit is first):
                self.begin_sums(unit)
            elif whole and not number.WATCHED:
                for c in unit.channels:
                    for name in (*FIELDS, "W", "WW", "FROM", "LACK"):
                        setattr(c, name, getattr(c, name) if name in OUTLIVING else 0.0)
                number.NN, number.CHECK = 0, 128
            if whole and number.RFLAG and unit.home_share[-2] > 0:
                for name, value in zip(HOME_SHARE, unit.home_share, strict=False):
                    setattr(unit.share, name, value)
                number.RCHECK, number.RFLAG = int(unit.home_share[-1]), 0
            if whole:
                unit.share.WU = unit.share.WD = 0.0
            number.CNT = 0
        is_back = all(unit.back.WANTED == -1 for unit in self.every if unit.number.FLAG)
        shares, held = any(unit.number.RFLAG for unit in self.every), any(c.HELD for c in self.steps)
        return is_back and not shares and not held

    def half_back(self, unit: Unit, i: int) -> float:
        """Return half of the way, in spreads, to the mean before the last change; 0 where that is far or very near."""
        c = unit.channels[i]
        if not self.leaps or i >= self.d or c.OLDS == 0 or self.ordinary <= unit.number.RETURNS:
            return 0.0
        half = 0.5 * (c.OLD - (c.C + c.MU / c.G)) * c.G * c.RHO
        return half if 0.1 <= abs(half) < self.step else 0.0

    def limit_of(self, c: Any) -> float:
        return float(c.HS * (abs(c.BACK) if c.S * c.BACK > 0 else 1.0))

    def leap(self, b: float, k: float, theta: float) -> float:
        return 1.0 if not self.leaps else max(1.0, theta * (1.0 + 2.0 * k * b / 3.0) / (2.0 * k * 1.15))

    def inflation(
        self, n: float, total: float, cross: float, mean: float, var: float, known: float, late: bool, unit: Unit
    ) -> float:
        m, most = int(n // 8), n / 32
        if self.leaps and known > most:
            return known
        vb = total / m - mean * mean
        if vb <= 0:
            return 1.0
        r = clip((cross / (m - 1) - mean * mean) / vb, 0.0, 0.9)
        t = (8 * vb / var) * ((1 + r) / (1 - r))
        whole = unit is self.units[0]
        if known > 0 and unit is not self.rest:
            most = min(most, 2 * known)
        elif t > most and not late:
            return t * (t / most) ** 2 if self.leaps and whole and r < 0.9 and t < 2 * most else inf
        return min(max(t, 1.0), most)

    def close_block(self, unit: Unit, offset: int) -> bool:
        s, number = unit.share, unit.number
        c, number.CNT = float(number.CNT), 0
        if number.RB > 0:
            s.SNP += c * s.PN
        number.RB += 1
        s.SN += c
        s.SNN += c * c
        s.PN = c
        alarm = False
        if inf > s.HR:
            s.WU = max(s.WU + (c * s.HU + (64 - c) * s.MU), 0.0)
            s.BU += 1
            if s.WU == 0:
                s.OU, s.BU = float(offset), 0.0
            s.WD = max(s.WD + (c * s.HD + (64 - c) * s.MD), 0.0)
            s.BD += 1
            if s.WD == 0:
                s.OD, s.BD = float(offset), 0.0
            alarm = s.WU >= s.HR or s.WD >= s.HR
        if number.RB == number.RCHECK:
            if inf == s.HR or (s.WU < 0.25 * s.HR and s.WD < 0.25 * s.HR):
                self.share_baseline(unit, offset)
            number.RCHECK *= 2
        return alarm

    def share_baseline(self, unit: Unit, offset: int) -> None:
        s, number = unit.share, unit.number
        m = number.RB
        n = 64 * m
        mean = s.SN / m
        q = mean / 64
        var = 64 * q * (1 - q)
        vb = s.SNN / m - mean * mean
        t = 1.0
        if var > 0 and vb > 0:
            r = clip((s.SNP / (m - 1) - mean * mean) / vb, 0.0, 0.9)
            t = max((vb / var) * ((1 + r) / (1 - r)), 1.0)
        if 32 * t > s.SN or n - s.SN < 32 * t or m < 16 * t:
            s.HR = inf
            return
        if inf == s.HR:
            if number.RBASES == 0:
                s.RLO = s.RHI = q
            else:
                number.RRETURNS += 0.8 * s.RLO <= q <= 1.25 * s.RHI
                s.RLO, s.RHI = min(s.RLO, q), max(s.RHI, q)
            number.RBASES += 1
            s.WU = s.WD = s.BU = s.BD = 0.0
            s.OU = s.OD = float(offset)
        s.P0 = q
        se = 3 * sqrt(q * (1 - q) * t / n)
        high, low = q + se, q - se
        if self.ordinary <= number.RRETURNS:
            high, low = max(high, s.RHI), min(low, s.RLO)
        high, low = min(high, 0.999), max(low, 1e-6)
        up = 2 * high / (1 - high + 2 * high)
        down = low / (2 * (1 - low) + low)
        s.HU, s.MU = log(up / high), log((1 - up) / (1 - high))
        s.HD, s.MD = log(down / low), log((1 - down) / (1 - low))
        s.HR = self.limit * t

    def strengths(self, unit: Unit) -> list[tuple[float, float, float]]:
        if not unit.number.WATCHED:
            return []
        rough = [self.step_evidence(c) for c in self.steps] if unit is self.units[0] else []
        return [
            (
                abs(c.S) / self.limit_of(c),
                c.Q / c.HQ if c.Q >= 0 else -c.Q / c.HQ / 0.6,
                rough[i] if i < len(rough) else 0.0,
            )
            for i, c in enumerate(unit.channels)
        ]

    def alarm(self, offset: int) -> None:
        stuck = [self.step_evidence(c) >= 0.5 and self.is_stuck(c) for c in self.steps]
        stuck += [True] * (self.ch - self.d)
        for unit in self.every if any(stuck[: self.d]) else []:
            unit.number.CNT = 0
            for c, own in zip(unit.channels, stuck, strict=True):
                if own or unit is not self.units[0]:
                    c.S, c.Q, c.OS, c.OQ = 0.0, 0.0, float(unit.number.NN), float(unit.number.NN)
        far = [i for i, c in enumerate(self.steps) if self.step_evidence(c) >= 0.5 and self.which(c) == "far"]
        features = [max((max(pair) for pair in self.strengths(unit)), default=0.0) for unit in self.units]
        shares = [max(u.share.WU, u.share.WD) / u.share.HR if inf > u.share.HR else 0.0 for u in self.units]
        concerned = [k for k in range(len(self.units)) if features[k] >= 0.5 or shares[k] >= 0.5]
        joined = self.opened
        if not joined:
            self.opened, self.start = True, self.t - 1
            self.moved = self.rates = self.gone = 0
            self.event(0, len(concerned), offset)
        for k in concerned:
            unit = self.units[k]
            sums = any(max(of[:2]) >= 0.5 for of in self.strengths(unit))
            sums |= k == 0 and bool(far)
            self.describe(k, features[k], shares[k], joined)
            for c in self.steps if k == 0 and not joined else []:
                if self.step_evidence(c) >= 0.5 and self.is_stuck(c):
                    c.HELD, c.AWAY = 2.0, 0.0
                elif self.step_evidence(c) >= 0.5 and self.which(c) == "noisy" and c.HELD == 0:
                    c.HELD, c.AT, c.HI = 1.0, c.HI, max(c.HI, c.R)
            if sums:
                self.keep(unit, far[0] if far and k == 0 else -1)
                self.restart(unit)
                self.steady = self.steady if k else self.t
                if k == 0:
                    self.known.forget()
                for c in self.steps if k == 0 and unit.number.RETURNS == 0 else []:
                    c.BOTTOM = c.TOP = c.X
                self.moved += k > 0
            if shares[k] >= 0.5:
                s, kept = unit.share, unit.share.OLDR
                unit.home_share = [*(getattr(s, name) for name in HOME_SHARE), unit.number.RCHECK // 2]
                for name in SHARE[:16]:
                    setattr(s, name, s.P0 if name == "P0" else 0.0)
                s.PREVR, s.OLDR, s.P0, s.HR = kept, s.P0, 0.0, inf
                unit.number.RB, unit.number.RCHECK, unit.number.CNT, unit.number.RFLAG = 0, 16, 0, 1
                self.rates += 1

    def restart(self, unit: Unit) -> None:
        doublings = min(unit.number.RETURNS, self.returning)
        for place, c in enumerate(unit.channels):
            new = SimpleNamespace(**dict.fromkeys(FIELDS + PLAIN, 0.0))
            new.PREV, new.PREVS = c.OLD, c.OLDS
            new.OLD, new.OLDS = c.C + c.MU / c.G, 1.0 / (c.RHO * c.G)
            new.TAUS, new.TAUQ = (0.0, 0.0) if doublings else self.known_inflation(unit, c)
            new.HLO, new.HHI = c.HLO, c.HHI
            new.U = new.OLDU = c.U
            unit.channels[place] = new
        number = unit.number
        number.NN, number.WATCHED, number.FLAG = 0, 0, 1
        number.CHECK = unit.base * 2**doublings

    def known_inflation(self, unit: Unit, c: Any) -> tuple[float, float]:
        if not unit.number.WATCHED:
            return c.TAUS, c.TAUQ
        limits = (c.HS * self.theta, c.HQ * self.theta_q)
        one, other = (0.0 if limit == inf else limit / self.limit for limit in limits)
        return one, other

    def event(self, kind: int, units: int, offset: int) -> None:
        self.rows.append([1, self.t - 1, kind, self.seq, units, offset, len(self.centres)])
        self.seq += 1

    def marked(self, unit: Unit, onset: int) -> int:
        n = unit.number.NN
        for level, (every, far) in enumerate(((8, 112), (64, 960), (512, 7600))):
            if n - onset <= far:
                return unit.marks[level][onset // every % 16]
        return unit.marks[2][max((n - 1) // 512 - 15, 0) % 16]

    def describe(self, k: int, features: float, share: float, joined: bool) -> None:
        unit = self.units[k]
        s, n, strengths = unit.share, unit.number.NN, self.strengths(unit)
        rises = s.WU >= s.WD
        what = (features >= 0.5) + (0 if share < 0.5 else 2 if rises else 4)
        since = int(s.OU if rises else s.OD)
        if features >= 0.5:
            # The first of equally strong ones, S before Q.
            sums = [(-e, i, which) for i, pair in enumerate(strengths) for which, e in enumerate(pair)]
            _, i, which = min(sums)
            onset = unit.channels[i].OQ if which else unit.channels[i].OS
            since = self.marked(unit, max(n - self.t + self.stepped(self.steps[i]), 0) if which == 2 else int(onset))
        w, m, hit, miss = (s.WU, s.BU, s.HU, s.MU) if rises else (s.WD, s.BD, s.HD, s.MD)
        after = s.P0
        if m > 0 and share > 0:
            after = (w - 64 * m * miss) / (hit - miss) / (64 * m)
        row = [2, self.t - 1, k, what, features, share, s.P0, since, unit.number.NAME, int(joined), after]
        self.rows.append(row)
        if features < 0.5:
            return
        clear = [(-max(pair), i) for i, pair in enumerate(strengths) if max(pair) >= 0.5]
        for evidence, i in sorted(clear)[:5]:
            c, (of_s, of_q, of_steps) = unit.channels[i], strengths[i]
            if of_steps >= 0.5 and (of_steps >= max(of_s, of_q) or self.is_stuck(self.steps[i])):
                self.describe_steps(i, c, of_steps)
                continue
            change, before, now, spread, ratio, onset = self.described(unit, c, of_s, of_q)
            self.rows.append([3, self.t - 1, i, change, -evidence, before, now, spread, ratio, onset])

    def described(self, unit: Unit, c: Any, of_s: float, of_q: float) -> tuple[int, float, float, float, float, int]:
        """Return how a channel changed, its mean before and now, its spread, how much more it varies, since when."""
        moved = of_s >= 0.5 or of_s >= of_q
        onset = int(c.OS if moved else c.OQ)
        clipped = now = c.C + c.MU / c.G
        before = c.U if self.leaps else clipped
        left = 1.0
        for _ in range(min(self.since(unit, c, onset), 400)):
            left *= 0.9375
        if left != 1:
            now = c.C + (c.MU + (c.E - c.MU) / (1 - left)) / c.G
        now += before - clipped
        change = 0 if moved else 1 if c.Q > 0 else 2
        return change, before, now, 1.0 / (c.RHO * c.G), self.ratio(unit, c), self.marked(unit, onset)

    def ratio(self, unit: Unit, c: Any) -> float:
        """Return how many times as much a channel varies."""
        n = self.since(unit, c, int(c.OQ))
        if not n or c.Q == 0 or c.AL == 0:
            return 1.0
        return max((c.AL + (c.Q / n + (c.KQ if c.Q > 0 else -c.KQ)) / c.BE) / c.AL, 0.0)

    def since(self, unit: Unit, c: Any, onset: int) -> int:
        """Return how many records since an onset have a channel."""
        n = unit.number.NN
        return int((n - onset) * (1.0 - c.LACK / n)) if c.LACK else n - onset

    def describe_steps(self, i: int, c: Any, evidence: float) -> None:
        own, before = self.steps[i], c.U
        which = self.which(own)
        ratio = {"stuck": 0.0, "far": 1.0}.get(which) if which != "noisy" else own.R / (sqrt(own.LO) * sqrt(own.HI))
        at = max(self.units[0].number.NN - self.t + self.stepped(own), 0)
        onset, left = self.marked(self.units[0], at), 1.0
        for _ in range(min(self.since(self.units[0], c, at), 400)):
            left *= 0.9375
        now = c.C + (c.MU if left == 1 else c.MU + (c.E - c.MU) / (1 - left)) / c.G
        after = now if which == "far" or abs(now - before) > 3.0 / (c.RHO * c.G) else before
        after = own.X if which == "stuck" else after
        spread = 1.0 / (c.RHO * c.G)
        change = {"far": 0, "noisy": 1, "stuck": 2}[which]
        self.rows.append([3, self.t - 1, i, change, evidence, before, after, spread, ratio, onset])

    def end(self, offset: int) -> None:
        concerned = [unit for unit in self.every if unit.number.FLAG or unit.number.RFLAG]
        back = bool(concerned) or all(c.HELD == 0 for c in self.steps)
        for c in self.steps if self.over() else []:
            if c.HELD == 1:
                c.HELD, c.AT = 0.0, float(self.t)
        self.opened = False
        self.outages += any(unit.back.WANTED == -1 for unit in self.every)
        for unit in concerned:
            s, number = unit.share, unit.number
            if number.RFLAG:
                self.gone += s.SN < 0.1 * s.OLDR * (64 * number.RB)
                again = number.RBASES >= 3 and 0.8 * s.PREVR <= s.P0 <= 1.25 * s.PREVR
                back &= inf > s.HR and (0.8 * s.OLDR <= s.P0 <= 1.25 * s.OLDR or again)
            if number.FLAG:
                last = all(self.near(c, c.OLD, c.OLDS) for c in unit.channels)
                earlier = number.BASES >= 3 and all(self.near(c, c.PREV, c.PREVS) for c in unit.channels)
                back &= bool(number.WATCHED) and (last or earlier)
            number.FLAG = number.RFLAG = 0
            unit.back.WANTED = max(unit.back.WANTED, 0.0)
        self.event(2 if back else 1, len(concerned), offset)
        if self.gone > 0 or (self.moved > 0 and self.rates > 0):
            self.rebuild = True

    def near(self, c: Any, place: float, width: float) -> bool:
        if c.RHO == 0:
            return False
        at, spread = c.C + c.MU / c.G, 1.0 / (c.RHO * c.G)
        return abs(at - place) <= self.step * c.OLDS and spread <= 1.33 * width and width <= 1.33 * spread

    def look(self, clusters: list[Any]) -> None:
        """Take new cells where they are due; called after every record that `STRIDE` divides."""
        if self.settling() or any(c.HELD >= 2 for c in self.steps):
            return
        young = self.next <= 65536 and self.t >= self.next
        while young and self.next <= self.t:
            self.next *= 2
        sizes, cells = sorted((cluster.size for cluster in clusters), reverse=True)[: self.most], len(self.centres)
        n = sum(3 * size * len(sizes) >= sum(sizes) for size in sizes)
        due = len(sizes) < cells or n > cells if self.t <= 2048 else 2 * n >= 3 * cells and n > cells
        if not (self.rebuild or (young and due)):
            return
        self.rebuild = False
        chosen = sorted(clusters, key=lambda cluster: (-cluster.size, cluster.id))[: self.most]
        if not chosen:
            return
        self.centres = [[float(x) for x in cluster.centre] for cluster in chosen]
        self.units[1:] = [self.unit(128) for _ in chosen]
        for unit, cluster in zip(self.units[1:], chosen, strict=True):
            unit.number.NAME = cluster.id
