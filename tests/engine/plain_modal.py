"""Modal, literally and slowly: all distances, neighbours by sorting, hills over dictionaries.

It is written to be read beside `resonance.engine.modal`, of which it shares the arithmetic alone: logarithm,
exponential and fused multiply-add, so that both decide alike to the last bit.
"""

from collections import Counter
from dataclasses import dataclass, field
from itertools import pairwise

import numpy as np
from numba import njit
from resonance.engine import Modal
from resonance.kernels.arithmetic import exp_minus, fma, log


@njit
def fused(a, b, c):
    """Return ``a * b + c``, rounded once."""
    return fma(a, b, c)


@njit
def distances(points, x):
    """Return squared distances from `x` to some points, feature after feature."""
    out = np.zeros(len(points))
    for i in range(len(points)):
        for f in range(len(x)):
            gap = points[i, f] - x[f]
            out[i] = fma(gap, gap, out[i])
    return out


def ln(x):
    return log(max(x, 1e-290))


def uniform(number):
    """Return splitmix64 of a number as a float from 0 to 1."""
    bits = 2**64 - 1
    z = (number + 1) * 0x9E3779B97F4A7C15 & bits
    z = (z ^ z >> 30) * 0xBF58476D1CE4E5B9 & bits
    z = (z ^ z >> 27) * 0x94D049BB133111EB & bits
    return ((z ^ z >> 31) >> 11) * 2.0**-53


@dataclass
class Landmark:
    """A record that stands for others; `cluster` is an id, `span` None until the next reading, `apart` since when."""

    id: int
    at: np.ndarray
    cluster: int | None
    last: int
    since: int
    count: int = 1
    radius2: float = 0.0
    hits: float = 0.0
    span: float | None = None
    past_hits: float = 0.0
    past_span: float = 0.0
    mass: float = 1.0
    apart: int | None = None
    met: int = 0
    squares: float = 0.0

    @property
    def counted(self):
        return self.past_hits + self.hits

    def span_at(self, clock):
        return self.span + (clock - self.since)

    def length_at(self, clock):
        return self.past_span + self.span_at(clock)

    def change(self, clock):
        """Return the squared change of the rate of hits, in squared standard errors; 0 where there is no past."""
        if self.past_span <= 0.0:
            return 0.0
        span = max(self.span_at(clock), 1.0)
        change, rate = self.hits / span - self.past_hits / self.past_span, self.counted / (span + self.past_span)
        return change * change / (rate * (1.0 / span + 1.0 / self.past_span))

    def variation(self, clock):
        """Return the mean squared pause from hit to hit, the last one included, beside the square of the mean."""
        whole, last = min(self.length_at(clock), 1e140), float(clock - self.met)
        return (self.counted + 2.0) * (self.squares + last * last) / (whole * whole)

    def keep_variation(self, clock, value):
        whole = min(self.length_at(clock), 1e140)
        room = value * whole * whole / (self.counted + 2.0)
        if float(clock - self.met) ** 2 > room:
            self.met = clock - int(np.sqrt(room))
        self.squares = max(0.0, room - float(clock - self.met) ** 2)

    def log_density(self, dimension, clock):
        return ln(self.counted) - ln(self.length_at(clock)) - 0.5 * dimension * ln(self.radius2)


@dataclass
class PlainModal:
    """The model; parameters by the names in `Modal.parameters`."""

    given: dict = field(default_factory=dict)
    landmarks: list = field(default_factory=list)
    clusters: list = field(default_factory=list)  # ids, ascending
    records: dict = field(default_factory=dict)  # that a cluster was given at the last reading, and those since
    rest: dict = field(default_factory=dict)  # records that its landmarks' counts are of, 0 where it moves
    ranges: dict = field(default_factory=dict)  # by cluster, the middle of each feature, and one over how far it may be
    usual: dict = field(default_factory=dict)  # the same of what most of its records are, or of all where it is rare
    made: dict = field(default_factory=dict)  # the records learned when a cluster was made
    joined: dict = field(default_factory=dict)  # since when no valley was seen in front of a cluster
    events: list = field(default_factory=list)
    n: int = 0
    clock: int = 0
    read: int = 0
    unplaced: int = 0
    next_id: int = 0
    next_cluster: int = 0
    dimension: float = 0.0
    over: float = 0.0  # by how much the variance of counts exceeds that of independent ones
    enough: int = 0  # records learned at the last reading that needed no more landmarks
    crowded: bool = False
    spare: int = 0  # records learned at the last reading for which half of the landmarks would not have been enough
    steps: int = 0  # to a record from one unlike it
    stays: int = 0  # of these, the ones within the ball of a landmark
    previous: np.ndarray | None = None
    outside: list = field(default_factory=list)  # what the last record is unusual in: column, value, usual range

    def __post_init__(self):
        known = {each.name: each.default for each in Modal.parameters}
        self.p = type("Parameters", (), {**known, **self.given})
        self.reach2 = self.p.reach * self.p.reach
        self.budget = self.p.landmarks

    # A record.

    def learn(self, x):
        """Return cluster, score, novel and landmark, -1 for none."""
        repeated = self.previous is not None and bool((self.previous == x).all())
        self.previous, self.outside = x, []
        self.n += 1
        self.clock += not repeated
        if not self.landmarks:
            self.unplaced += 1
            self._add(x, None)
            self._read_if_due()
            return -1, np.nan, True, self.landmarks[0].id
        squared = distances(np.array([mark.at for mark in self.landmarks]), x)
        near = self.landmarks[int(np.argmin(squared))]
        gap = float(squared.min())
        if not repeated:
            for mark, far in zip(self.landmarks, squared, strict=True):
                if far <= mark.radius2:
                    mark.hits += 1.0
                    mark.squares += float(self.clock - mark.met) ** 2
                    mark.met = self.clock
        if not repeated:
            self.steps += 1
            self.stays += near.last == self.n - 1
            if self.steps == 4096:
                self.steps, self.stays = 2048, self.stays // 2
        within, score = self._compared(x, gap, near, squared)
        cluster = near.cluster if within else None
        novel = not within or (cluster is None and bool(self.clusters))
        if gap <= near.radius2:
            near.last = self.n
        self.unplaced += cluster is None and (not within or near.span is None)
        node = near.id
        if self._is_wanted(gap, near, within):
            added = self._add(x, cluster)
            node = added if novel else node
        elif within:
            near.mass += 1.0
            near.count += 1
        if cluster is not None:
            self.records[cluster] += 1.0
        self._read_if_due()
        return -1 if cluster is None else cluster, score, novel, node

    def _compared(self, x, gap, near, squared):
        """Return whether a record is like its nearest landmark, and its score."""
        within = bool(gap <= self.reach2 * near.radius2)
        if not self.clusters:
            return within, np.nan
        whole = 1.0
        if near.cluster is None:
            placed = [i for i, mark in enumerate(self.landmarks) if mark.cluster is not None]
            if not placed:
                return within, 0.0
            found = min(placed, key=lambda i: squared[i])
            near, gap, whole = self.landmarks[found], float(squared[found]), 0.5
        outside = 0.0
        if gap > 0.0:
            outside = gap / (self.reach2 * near.radius2) if near.radius2 > 0.0 else np.inf
        ranges = self.ranges[near.cluster], self.usual[near.cluster]
        known, usual = (np.abs(x - middle) * narrow for middle, narrow in ranges)
        parts = np.maximum(known, usual)
        score = whole / (1.0 + max(outside, float(np.max(parts)) ** 2))
        self.outside = []
        for f in np.argsort(-parts, kind="stable")[:3] if score < 0.5 else ():
            middle, narrow = ranges[int(usual[f] >= known[f])]
            if parts[f] > 0.5:
                self.outside.append((f, x[f], middle[f] - 0.5 / narrow[f], middle[f] + 0.5 / narrow[f]))
        gaps, reach = np.abs(x - near.at), 0.5 * np.sqrt(self.reach2 * near.radius2)
        f = int(np.argmax(gaps))
        if score < 0.5 and not self.outside and gaps[f] > reach:
            self.outside.append((f, x[f], near.at[f] - reach, near.at[f] + reach))
        return within and float(np.max(known)) <= 1.0, score

    def _measure_ranges(self):
        """Note the middle of each cluster by feature, and one over how far a record may be from it."""
        self.ranges = {}
        placed = [mark.at for mark in self.landmarks if mark.cluster is not None]
        for c in self.clusters:
            own = [mark.at for mark in self.landmarks if mark.cluster == c]
            own = own if len(own) >= 16 else placed
            middle = in_order(own) / max(1, len(own)) if own else np.zeros(len(self.previous))
            gaps = [np.abs(at - middle) for at in own]
            if len(own) < 16:
                self.ranges[c] = middle, np.zeros(len(middle))
                continue
            deviation = np.sqrt(in_order(gap * gap for gap in gaps) / len(own))
            most = np.maximum(np.maximum(0.05, 6.0 * deviation), 2.0 * np.max(gaps, axis=0))
            self.ranges[c] = middle, 1.0 / most

    def _measure_usual(self):
        """Note the middle of most records of each cluster by feature, and one over how far one may be from it."""
        self.usual = {}
        whole = sum(self.records[c] for c in self.clusters)
        placed = [mark for mark in self.landmarks if mark.cluster is not None]
        d = len(self.previous)
        tail = min(0.02, 0.2 / d)
        t = np.sqrt(-2.0 * np.log(tail))
        widths = 6.0 / (t - (2.30753 + 0.27061 * t) / (1.0 + 0.99229 * t + 0.04481 * t * t))
        for c in self.clusters:
            own = [mark for mark in placed if mark.cluster == c]
            rarer = sum(self.records[other] for other in self.clusters if self.records[other] <= self.records[c])
            own = own if len(own) >= 16 and rarer >= 0.05 * whole else placed
            mass = sum(mark.mass for mark in own)
            low, high = np.zeros(len(self.previous)), np.zeros(len(self.previous))
            for f in range(len(low)):
                below = 0.0
                for mark in sorted(own, key=lambda mark: mark.at[f]):
                    if below <= tail * mass:
                        low[f] = mark.at[f]
                    if below < (1.0 - tail) * mass:
                        high[f] = mark.at[f]
                    below += mark.mass
            narrow = 1.0 / np.maximum(0.05, 0.5 * widths * (high - low))
            self.usual[c] = 0.5 * (low + high), narrow if len(placed) >= 16 else np.zeros(d)

    def _loose(self):
        return sum(mark.cluster is None for mark in self.landmarks)

    # Landmarks.

    def _is_wanted(self, gap, near, within):
        if gap <= 0.0:
            return False
        if len(self.landmarks) < self.budget or not within:
            return True
        if near.cluster is None and 4 * self._loose() < self.budget:
            return True
        rest = 0 if near.cluster is None else self.rest[near.cluster]
        rests = rest > 0 and self.n > 5 * self.p.memory
        chance = self.budget / min(self.n, 5 * rest if rests else 2 * self.p.memory)
        if 0.0 < near.radius2 < gap:
            chance = max(chance, 0.125 if rests else 0.25)
        return uniform(2 * self.n) < chance

    def _add(self, x, cluster):
        mark = Landmark(self.next_id, x, cluster, self.n, self.clock, met=self.clock)
        self.next_id += 1
        if len(self.landmarks) < self.budget:
            column = len(self.landmarks)
            self.landmarks.append(mark)
        else:
            column = self._leaving(cluster)
            gone = self.landmarks[column]
            for _, j in self._neighbours(column):
                heir = self.landmarks[j]
                if heir.cluster == gone.cluster:
                    heir.mass += gone.mass
                    heir.count += gone.count
                    break
            self.landmarks[column] = mark
        mark.radius2, _ = self._ball(column)
        return mark.id

    def _leaving(self, cluster):
        """Return the column of the landmark that makes room."""
        soon = self.p.expire_records // 4
        members = {None: []} | {c: [] for c in self.clusters}
        for column, mark in enumerate(self.landmarks):
            members[mark.cluster].append(column)
        recent = {c: max((self.landmarks[i].last for i in own), default=0) for c, own in members.items()}
        idle = [
            column
            for column, mark in enumerate(self.landmarks)
            if self.n - mark.last > soon and (mark.cluster is None or self.n - recent[mark.cluster] <= soon)
        ]
        if idle:
            oldest = min(idle, key=lambda i: self.landmarks[i].last)
            ended = self.n - self.landmarks[oldest].last > self.p.expire_records
            return oldest if ended and self.budget > self.p.landmarks else idle[0]
        chosen = self._giving(cluster, members)
        own = members[chosen]
        if chosen is None:
            return min(own or range(len(self.landmarks)), key=lambda i: self.landmarks[i].last)
        stalest, found = 20.0, None
        for i in own:
            mark = self.landmarks[i]
            if mark.span is not None:
                missed = self._missed(mark)
                if missed > stalest:
                    stalest, found = missed, i
        if found is not None:
            return found
        first = int(uniform(2 * self.n + 1) * len(self.landmarks))
        return next((i for i in own if i >= first), own[0])

    def _missed(self, mark):
        return (self.n - mark.last) * mark.counted * self.clock / (self.n * mark.length_at(self.clock))

    def _giving(self, cluster, members):
        total = in_order(np.sqrt(self.records[c]) for c in self.clusters)
        most, chosen = len(members[None]) * 4 / self.budget, None
        for c in self.clusters:
            count, share = len(members[c]), self.budget * np.sqrt(self.records[c]) / total
            if count > 1 and c == cluster and count >= share:
                return c
            if count > 1 and count > most * share:
                most, chosen = count / share, c
        return chosen

    def _neighbours(self, i):
        """Return (squared distance, column) of the nearest landmarks."""
        squared = distances(np.array([mark.at for mark in self.landmarks]), self.landmarks[i].at)
        order = sorted((float(gap), j) for j, gap in enumerate(squared) if j != i)
        return order[: self.p.neighbours]

    def _ball(self, i, known=0.0):
        """Return squared radius and the neighbours inside, if that is the dimension."""
        near = self._neighbours(i)
        if not near:
            return 0.0, []
        jump = self._jump(known or self.dimension)
        last = min(3, len(near))
        while last < len(near) and near[last][0] <= jump * near[last - 1][0]:
            last += 1
        return near[last - 1][0] * (1.0 + 2.0**-40), near[:last]

    def _jump(self, dimension):
        return max(2.25, 1.0 / exp_minus(2.0 * 3.3 / dimension)) if dimension > 0.0 else 2.25

    def _is_young(self):
        return self.n <= 200

    def _median_dimension(self, fewest):
        """Return the dimension by the first three neighbours, in the median; 0 for few landmarks."""
        growth = []
        for i in range(len(self.landmarks)):
            first, second, third = ([gap for gap, _ in self._neighbours(i)] + 3 * [np.inf])[:3]
            if 0.0 < first < third < np.inf:
                growth.append((third / first) * (third / second))
        d = float(len(self.previous))
        return min(d, 2.0 * 1.678 / log(np.median(growth))) if len(growth) >= fewest else 0.0

    def _dimension_of_most(self):
        """Return the dimension of most places where it is much larger than that of the last reading."""
        median = self._median_dimension(30)
        return median if median > 2.0 * self.dimension else self.dimension

    def _without_isolated(self, balls):
        """Leave out of the balls of a young model what is far from their landmark beside what is around it."""
        if not self._is_young() or self._walks() or len(self.landmarks) <= self.p.neighbours:
            return balls
        dimension = self._median_dimension(self.p.neighbours + 1) or float(len(self.previous))
        times = max(3.0, 1.0 / exp_minus(2.0 * 2.0 / max(1.0, dimension)))
        left = []
        for i, (_, inside) in enumerate(balls):
            around = [i, *(j for _, j in self._neighbours(i))]
            far = times * sorted(self._neighbours(j)[1][0] for j in around)[self.p.neighbours // 2]
            near = [(gap, j) for at, (gap, j) in enumerate(inside) if at == 0 or gap <= far]
            left.append((near[-1][0] * (1.0 + 2.0**-40), near))
        return left

    def _is_cut(self, i, inside, dimension):
        """Whether the ball of a landmark in a cluster ends at a gap, or reaches over one."""
        gaps = [gap for gap, _ in self._neighbours(i)]
        if self.landmarks[i].cluster is None or not gaps or gaps[0] <= 0.0:
            return False
        jump = self._jump(dimension)
        most = [min(jump * jump, 735.0), min(jump * jump, 30.0), *[min(jump, 30.0)] * (self.p.neighbours - 3)]
        wide = [far > times * near for times, (near, far) in zip(most, pairwise(gaps), strict=False)]
        return len(inside) < len(gaps) or any(wide)

    # Densities.

    def _measure(self, balls):
        """Return the intrinsic dimension."""
        d, total, terms = float(len(self.previous)), 0.0, 0
        for radius2, inside in balls:
            if len(inside) >= 5 and inside[0][0] > 0.0:
                growth = 1.0
                for gap, _ in inside[:-1]:
                    growth *= radius2 / gap
                if growth > 1.0:
                    total += 0.5 * log(min(growth, 1e300)) / (len(inside) - 2.0)
                    terms += 1
        return max(1.0, min(d, terms / total)) if terms else d

    def _densities(self, balls):
        """Return the logarithm of the density at each landmark."""
        mass = in_order(mark.mass for mark in self.landmarks)
        evidence = 1.5 if self.clock > 4 * self.budget else 4.0
        logs = []
        for i, (mark, (radius2, inside)) in enumerate(zip(self.landmarks, balls, strict=True)):
            new = mark.span is None
            if not new:
                if mark.radius2 <= 0.0 or radius2 <= 0.0:
                    new = mark.radius2 != radius2
                else:
                    new = 0.5 * self.dimension * abs(ln(mark.radius2) - ln(radius2)) > 0.6931471805599453
            if new:
                self._begin(i, radius2, [j for _, j in inside], evidence, mass)
            self._weigh_past(mark)
            logs.append(mark.log_density(self.dimension, self.clock))
        return logs

    def _weigh_past(self, mark):
        """Forget what a ball has counted where its rate is another one now; after a memory, add the last hits."""
        rests = mark.cluster is not None and self.rest[mark.cluster] > 0
        half, pauses = 0.5 * self.p.memory, mark.variation(self.clock)
        if mark.past_span > half and (not rests or mark.change(self.clock) > 16.0):
            mark.past_hits, mark.past_span = max(mark.past_hits * (half / mark.past_span), 1e-3), half
        span = mark.span_at(self.clock)
        if span > self.p.memory:
            self._begin_memory(mark, span, rests)
        mark.keep_variation(self.clock, pauses)

    def _begin_memory(self, mark, span, rests):
        if rests and mark.change(self.clock) <= 4.0:
            hits, length = mark.counted, mark.past_span + span
            times = 0.5 if length > 16 * self.p.memory else 1.0
            mark.past_hits, mark.past_span = max(times * hits, 1e-3), times * length
            mark.hits = mark.span = 0.0
        else:
            mark.past_hits = mark.past_span = 0.0
            mark.hits, mark.span = max(0.5 * mark.hits, 1e-3), 0.5 * span
        mark.since = self.clock

    def _begin(self, i, radius2, inside, evidence, mass):
        mark, near = self.landmarks[i], [self.landmarks[j] for j in inside]
        share, hits = in_order([mark.mass, *(other.mass for other in near)]), max(len(inside) - 1.0, 1.0)
        share *= hits / ((len(inside) + 1.0) * mass)
        known = [o for o in near if o.span is not None and o.radius2 > 0.0 and o.since < self.clock]
        counted = in_order(other.counted for other in known)
        enough = counted > evidence * len(known) * max(1.0, len(inside) - 1.0)
        if len(known) >= 3 and 2 * len(known) >= len(inside) and enough and radius2 > 0.0:
            mean = in_order(other.log_density(self.dimension, self.clock) for other in known) / len(known)
            exponent = fused(0.5 * self.dimension, ln(radius2), mean)
            share = 1.0 if exponent >= 0.0 else exp_minus(-exponent)
        mark.radius2, mark.hits, mark.span, mark.since = radius2, hits, hits / max(share, 1e-290), self.clock
        mark.past_hits = mark.past_span = 0.0
        if self.next_id == len(self.landmarks) and 2 * self.next_id > self.clock:
            came = sorted([mark.id, *(other.id for other in near)])
            gaps = np.diff([-1, *came, self.next_id])
            mark.met = max(1, self.clock * (came[-1] + 1) // self.next_id)
            squares = float((gaps * gaps).sum())
            mark.keep_variation(self.clock, (len(came) + 2.0) * squares / float(self.next_id + 1) ** 2)
            return
        mark.met = self.clock
        counting = [other for other in near if other.span is not None and other.since < self.clock]
        total = in_order(other.variation(self.clock) for other in counting)
        mark.keep_variation(self.clock, total / len(counting) if counting else 2.0)

    # Clusters.

    def _overdispersion(self):
        """Return by how much the variance of counts exceeds that of independent ones."""
        known = [mark for mark in self.landmarks if mark.span is not None and mark.cluster is not None]
        over = 1.0
        if known:
            total = in_order(mark.counted * mark.variation(self.clock) for mark in known)
            over = total / in_order(mark.counted for mark in known) - 1.0
        balls = max(1.0, len(self.landmarks) / (8.0 * max(1, len(self.clusters))))
        stays = min(self.stays / max(1, self.steps), 0.99)
        excess = max(0.0, stays - max(0.1, 2.0 / balls)) / (1.0 - stays)
        over = max(over, 1.0 + excess / exp_minus(log(balls) / max(1.0, self.dimension)))
        share = 0.1 * len(known)
        stale = sum(self._missed(mark) > 20.0 for mark in known)
        if stale > share + 2.0 * np.sqrt(share) and not self._walks():
            over = min(over, 4.0 * (share / stale) * (share / stale))
        return max(1.0, over)

    def _walks(self):
        """Return whether most records lie where the one before them lay."""
        return 2 * self.stays > self.steps

    def _read_if_due(self):
        since = self.n - self.read
        seldom = max(1000, min(1000 * self.budget // 1024, self.n // 8))
        is_soon = 2 * self.clock > self.n and len(self.landmarks) > self.p.neighbours
        often = max(4, min(25, self.n // 8)) if is_soon else 100
        every = next(e for most, e in ((200, often), (1000, 100), (10_000, 250), (np.inf, seldom)) if self.n <= most)
        if since >= every or (since >= 100 and self.unplaced >= self.p.min_cluster_records):
            self._read()

    def _read(self):
        most = self._dimension_of_most()
        balls = [self._ball(i, most) for i in range(len(self.landmarks))]
        cut = sum(self._is_cut(i, inside, most) for i, (_, inside) in enumerate(balls))
        balls = self._without_isolated(balls)
        self.dimension = self._measure(balls)
        self.over = self._overdispersion()
        logs = self._densities(balls)
        hills = Hills(self, logs, [[j for _, j in inside] for _, inside in balls], [inside for _, inside in balls])
        if in_order(mark.mass for mark in self.landmarks) > 2.0 * self.p.memory * (self.budget / self.p.landmarks):
            for mark in self.landmarks:
                mark.mass = max(0.5 * mark.mass, 1e-290)
        self.read, self.unplaced = self.n, 0
        groups = {}
        for i, summit in hills.group.items():
            groups.setdefault(summit, []).append(i)
        marks = self.landmarks
        groups = {
            summit: own
            for summit, own in groups.items()
            if in_order(marks[i].mass for i in own) >= self.least(known=True)
            and self.n - max(marks[i].last for i in own) <= self.p.expire_records
        }
        heir, _ = self._relations(groups)
        groups = {
            summit: own
            for summit, own in groups.items()
            if in_order(marks[i].mass for i in own) >= self.least(known=summit in heir.values())
        }
        basin = {summit: summit for summit in groups}
        groups = self._without_new_splits(groups, hills)
        groups = self._without_new_joins(groups, basin, hills)
        self._name(hills, groups, basin, logs)
        self._measure_ranges()
        self._measure_usual()
        self._fit_budget(hills, cut)
        self._thin_out()

    def _fit_budget(self, hills, cut):
        """Let there be twice as many landmarks where there are too few of them for the hills, half where few do."""
        needed = self._needs_more(hills, cut)
        if not needed:
            self.enough = self.n
        lasts = needed and self.n - self.enough >= min(0.25 * self.n, 2000.0)
        self.crowded = lasts and 2 * self.budget > self.p.max_landmarks
        if lasts and not self.crowded:
            self.budget, self.enough = 2 * self.budget, self.n
        few = 128 * hills.found <= self.budget and 256 * len(self.clusters) <= self.budget
        if not few or 8 * cut > 0.12 * self.budget or self.budget < 2 * self.p.landmarks:
            self.spare = self.n
        elif self.n - self.spare >= self.p.expire_records:
            self.budget, self.spare = self.budget // 2, self.n

    def _thin_out(self):
        """Leave out every second landmark of each cluster, and of those in none, where there may be only half."""
        if len(self.landmarks) <= self.budget:
            return
        first, odd, even, seen = [], [], [], {}
        for column, mark in enumerate(self.landmarks):
            seen[mark.cluster] = seen.get(mark.cluster, 0) + 1
            (first if seen[mark.cluster] == 1 else even if seen[mark.cluster] % 2 else odd).append(column)
        kept = set((first + odd + even)[: self.budget])
        for column, gone in enumerate(self.landmarks):
            if column in kept:
                continue
            near = [j for _, j in self._neighbours(column) if j in kept]
            heir = next((j for j in near if self.landmarks[j].cluster == gone.cluster), None)
            if heir is not None:
                self.landmarks[heir].mass += gone.mass
                self.landmarks[heir].count += gone.count
        self.landmarks = [self.landmarks[column] for column in sorted(kept)]
        self._measure_anew()

    def _measure_anew(self):
        """Measure all balls; each goes on counting for the same density, beside those of the others."""
        growth = {}
        for i, mark in enumerate(self.landmarks):
            before, (mark.radius2, _) = mark.radius2, self._ball(i)
            if mark.span is None or before <= 0.0 or mark.radius2 <= 0.0:
                mark.span = None
            else:
                growth[i] = 0.5 * self.dimension * (ln(mark.radius2) - ln(before))
        for i, own in growth.items():
            mark, shorter = self.landmarks[i], own - in_order(growth.values()) / len(growth)
            pauses = mark.variation(self.clock)
            factor = exp_minus(shorter) if shorter >= 0.0 else 1.0 / exp_minus(-shorter)
            mark.span = mark.span_at(self.clock) * factor
            if mark.past_span > 0.0:
                mark.past_span = max(mark.past_span * factor, 0.5)
            else:
                mark.span = max(mark.span, 0.5)
            mark.since = self.clock
            mark.keep_variation(self.clock, pauses)
        self._measure_usual()

    def _needs_more(self, hills, cut):
        marks = self.landmarks
        if len(marks) < self.budget or self.clock <= 2 * self.budget:
            return False
        if sum(mark.cluster is not None and self.rest[mark.cluster] == 0 for mark in marks) > 0.1 * len(marks):
            return False
        lasting = 2 * sum(mark.length_at(self.clock) > self.p.memory for mark in marks) > len(marks)
        dense = hills.found > 1.05 * len(self.clusters) or hills.touching > 0.1 * len(self.clusters)
        return cut > 0.12 * self.budget or (dense and 64 * hills.found > self.budget and lasting)

    def _without_outliers(self, groups, logs):
        """Return the groups without the places where a Gaussian has hardly a record."""
        part = 2.0 / (9.0 * self.dimension)
        median, far = 1.0 - part, 1.0 - part + 2.88 * np.sqrt(part)
        thinness = 0.5 * self.dimension * (far * far * far - median * median * median)
        left = {}
        for g, own in groups.items():
            whole, passed = in_order(self.landmarks[i].mass for i in own), 0.0
            for i in sorted(own, key=lambda i: -logs[i]):
                passed += self.landmarks[i].mass
                if 2.0 * passed >= whole:
                    break
            depth = {j: thinness * (1.0 if self.landmarks[j].cluster is None else 2.0) for j in own}
            thin = [j for j in own if logs[j] < logs[i] - depth[j]]
            few = in_order(self.landmarks[j].mass for j in thin) <= 0.1 * whole
            left[g] = [j for j in own if not few or j not in thin]
        return left

    def least(self, *, known):
        least = float(self.p.min_cluster_records)
        if self._is_young():
            least = max(min(least, 4.0), least * self.n / 200)
        return least * (0.5 if known and (self._is_young() or self.n > 2 * self.p.memory) else 1.0)

    def _relations(self, groups):
        """Return mass by cluster and group, the heir of each cluster, and the cluster where each group comes from."""
        marks = self.landmarks
        part = {
            (c, g): in_order(marks[i].mass for i in own if marks[i].cluster == c)
            for c in self.clusters
            for g, own in groups.items()
        }
        heir = {c: largest({g: part[c, g] for g in groups}) for c in self.clusters}
        return heir, {g: largest({c: part[c, g] for c in self.clusters}) for g in groups}

    def _without_new_splits(self, groups, hills):
        """Return the groups; one behind a valley that has not lasted is in the group that goes on."""
        marks = self.landmarks
        heir, origin = self._relations(groups)
        needed, core, held = int(min(0.25 * self.n, 2000.0)), {}, set()
        most = min(2000.0 * self.over, float(max(needed, self.p.memory)))
        longer = int(min(min(0.25 * self.over, 0.75) * self.n, most))
        for g, own in groups.items():
            inherited = [marks[i] for i in own if marks[i].cluster == origin[g]]
            stayed = in_order(mark.mass for mark in inherited if mark.apart is None)
            part = stayed, in_order(mark.mass for mark in inherited if mark.apart is not None)
            if origin[g] not in core or part > core[origin[g]][0]:
                core[origin[g]] = part, g
        for g, own in groups.items():
            c = origin[g]
            if c is None or core[c][1] == g or any(heir[other] == g for other in self.clusters if other != c):
                continue
            waits = longer if (core[c][1], g) in hills.valley or self._walks() else needed
            old = [i for i in own if marks[i].apart is not None and self.n - marks[i].apart >= waits]
            lasts = 2.0 * in_order(marks[i].mass for i in old) >= in_order(marks[i].mass for i in own)
            if not lasts or self.n - max(marks[i].last for i in own) > needed:
                held.add(g)
        behind = {i for g in held for i in groups[g]}
        for i, mark in enumerate(marks):
            mark.apart = (mark.apart or self.n) if i in behind else None
        whole = {g: list(own) for g, own in groups.items() if g not in held}
        for g in held:
            whole[core[origin[g]][1]] += groups[g]
        return {g: sorted(own) for g, own in whole.items()}

    def _without_new_joins(self, groups, basin, hills):
        """Return the groups; what is left of a cluster in front of which a valley was of late is one of its own."""
        marks = self.landmarks
        heir, _ = self._relations(groups)
        needed = int(min(0.1 * self.n, 2000.0))
        turns = int(min(min(0.1 * self.over, 0.75) * self.n, 4.0 * self.p.memory)) if self.over > 2.0 else 0
        first = {}
        for c in self.clusters:
            g = heir[c]
            if g is None or first.setdefault(g, c) == c:
                self.joined.pop(c, None)
                continue
            depth, threshold = hills.lost.get(c, (-1.0, -1.0))
            since = self.joined.setdefault(c, self.n)
            own = [i for i in groups[g] if marks[i].cluster == c]
            enough = in_order(marks[i].mass for i in own) >= self.p.min_cluster_records
            recent = self.n - max(marks[i].last for i in own) <= self.p.expire_records
            rests = self.rest[c] > 0
            none = rests and 0.0 <= depth < 0.7 * threshold
            waits = max(needed, min(max(turns, 0 if rests else self.p.memory), since - self.made[c]))
            if enough and recent and not none and self.n - since < waits:
                groups[g] = [i for i in groups[g] if i not in own]
                groups["held", c], basin["held", c] = own, basin[g]
        return groups

    def _name(self, hills, groups, basin, logs):
        marks = self.landmarks
        before = {c: self.shape([i for i, mark in enumerate(marks) if mark.cluster == c]) for c in self.clusters}
        after = {g: self.shape(own) for g, own in groups.items()}
        heir, origin = self._relations(groups)
        owner = {g: next((c for c in self.clusters if heir[c] == g), None) for g in groups}
        name = dict(owner)
        for g in groups:
            if name[g] is None:
                name[g] = self.next_cluster
                self.made[name[g]] = self.n
                self.next_cluster += 1
        for c in self.clusters:
            if heir[c] is None:
                self.events.append((self.n - 1, "vanished", c, None, None, [before[c]], []))
            elif owner[heir[c]] != c:
                g = heir[c]
                why = ("valley", *hills.lost[c]) if c in hills.lost else None
                self.events.append((self.n - 1, "absorbed", c, name[g], why, [before[c], before[name[g]]], [after[g]]))
        for g in sorted(groups, key=name.get):
            if owner[g] is None and origin[g] is None:
                why = ("size", after[g][0], self.least(known=False))
                self.events.append((self.n - 1, "emerged", name[g], None, why, [], [after[g]]))
            elif owner[g] is None:
                c, h = origin[g], heir[origin[g]]
                valley = hills.valley.get((basin[h], basin[g]))
                why = ("valley", *valley) if valley else None
                self.events.append((self.n - 1, "split", name[g], name[h], why, [before[c]], [after[h], after[g]]))
        self.clusters = sorted(name.values())
        groups = self._without_outliers(groups, logs)
        for mark in marks:
            mark.cluster = None
        self.records, self.rest = {}, {}
        for g, own in groups.items():
            for i in own:
                marks[i].cluster = name[g]
            self.records[name[g]] = float(max(1, int(in_order(marks[i].mass for i in own))))
            length = [marks[i].length_at(self.clock) for i in own]
            stale = [self._missed(marks[i]) > 20.0 for i in own]
            mean = in_order(length) / max(1, len(own))
            rests = sum(stale) <= 0.1 * len(own) + 2.0 * np.sqrt(0.1 * len(own))
            changes = [marks[i].change(self.clock) for i in own if marks[i].past_span > 0.0]
            rests = rests and in_order(changes) <= len(changes) + 7.0 * np.sqrt(len(changes))
            self.rest[name[g]] = max(self.p.memory, int(mean)) if rests else 0

    def shape(self, own):
        """Return size, nodes, centre and spread of some landmarks."""
        marks = [self.landmarks[i] for i in own]
        mass = in_order(mark.mass for mark in marks)
        centre = in_order(mark.mass / mass * mark.at for mark in marks)
        square = in_order(mark.mass / mass * (mark.at - centre) * (mark.at - centre) for mark in marks)
        return sum(mark.count for mark in marks), len(marks), centre, np.sqrt(square)


def in_order(terms):
    """Return a sum whose terms are added one after another."""
    total = 0.0
    for term in terms:
        total = total + term
    return total


def largest(parts):
    """Return the first key of the largest positive part, None without one."""
    best = max(parts.values(), default=0.0)
    return next((key for key, part in parts.items() if part == best > 0.0), None)


def parent_of(parent, i):
    while parent[i] != i:
        i = parent[i]
    return i


class Hills:
    """`group` is the summit of each landmark in a hill; `valley` the depth between hills, `lost` of joined clusters."""

    def __init__(self, model, logs, inside, near):
        self.model, self.p, self.inside = model, model.p, inside
        self.count = len(logs)
        lasting, growth = sum(2 * model.made[c] <= model.n for c in model.clusters), model.budget / self.p.landmarks
        self.errors = [self._errors(growth), self._errors(max(growth, lasting / 6.0))]
        whole = in_order(mark.mass for mark in model.landmarks)
        self.many = growth > 1.0 and lasting > 30
        self.alike = 3.0 * whole / lasting if self.many or lasting > 6.0 * growth else 0.0
        self.reach = [model.reach2 * mark.radius2 for mark in model.landmarks]
        self.large = self._large(near)
        self._edges(near)
        self._scales(logs)
        self._climb(logs)
        self._join()

    def _large(self, near):
        parent = list(range(self.count))
        for i in range(self.count):
            for gap, j in near[i]:
                if gap <= self.reach[i] and gap <= self.reach[j]:
                    one, other = parent_of(parent, i), parent_of(parent, j)
                    parent[max(one, other)] = min(one, other)
        root, mass = [parent_of(parent, i) for i in range(self.count)], dict.fromkeys(range(self.count), 0.0)
        for i, mark in enumerate(self.model.landmarks):
            mass[root[i]] += mark.mass
        known = {root[i] for i, mark in enumerate(self.model.landmarks) if mark.cluster is not None}
        return [mass[root[i]] >= self.model.least(known=root[i] in known) for i in range(self.count)]

    def _edges(self, near):
        self.edges = [[] for _ in range(self.count)]
        for i in range(self.count):
            for gap, j in near[i]:
                if self.large[i] and self.large[j] and (gap <= self.reach[i] or gap <= self.reach[j]):
                    self.edges[i].append(j)
                    self.edges[j].append(i)

    def _scales(self, logs):
        top = max(logs)
        most = 1.0 + 2.0 * 2.0 / max(self.model.dimension, 2.0)
        gains = self._gains()
        self.uneven = [(0.00015, 0.004 * max(0.0, self.model.dimension - 2.0))]
        self.density = [[exp_minus(top - each) for each in logs]]
        self.records = [[mark.counted / self.model.over for mark in self.model.landmarks]]
        for scale in range(1, 3):
            density, records = self.density[-1], self.records[-1]
            self.uneven.append(tuple(each / min(most, gains[scale]) for each in self.uneven[-1]))
            self.density.append([])
            self.records.append([])
            for i in range(self.count):
                own = [i, *(j for j in self.inside[i] if self.large[i] and self.large[j])]
                self.density[-1].append(in_order(density[j] for j in own) / float(len(own)))
                hits = in_order(records[j] for j in own)
                self.records[-1].append(hits / len(own) * min(float(len(own)), most, gains[scale]))

    def _gains(self):
        """Return the size of the weighted sample that an average is of, by scale, in that of the scale before."""
        sizes = np.zeros(3)
        for i in range(0, self.count, max(1, self.count // 32)):
            weight = Counter([i, *self.inside[i]])
            for scale in range(3 if self.large[i] else 0):
                sizes[scale] += weight.total() ** 2 / sum(w * w for w in weight.values())
                wider = Counter()
                for j, w in weight.items():
                    for ball in (j, *self.inside[j]):
                        wider[ball] += w
                weight = wider
        return [1.0, *(sizes[1:] / sizes[:-1])] if sizes[0] else [1.0] * 3

    def _climb(self, logs):
        hits, parent = self.records[0], {}
        least = self.p.valley * (0.5 if self.many and self.model.dimension > 2.5 else 1.0)
        order = sorted(range(self.count), key=lambda i: -logs[i])
        rank = {i: at for at, i in enumerate(order)}
        for i in order:
            higher = [j for j in self.edges[i] if j in parent]
            if not higher:
                parent[i] = i
                continue
            parent[i] = parent_of(parent, min(higher, key=rank.get))
            for j in higher:
                one, other = parent_of(parent, j), parent_of(parent, i)
                if one == other:
                    continue
                low, high = (one, other) if rank[one] > rank[other] else (other, one)
                error = np.sqrt(1.0 / hits[low] + 1.0 / hits[i])
                if logs[low] - logs[i] < least + 0.5 * error:
                    parent[low] = high
        self.group = {i: parent_of(parent, i) for i in range(self.count) if self.large[i]}

    def _apart(self, u, v):
        one, other = self.now[u], self.now[v]
        return one is not None and other is not None and one != other

    def _errors(self, more):
        half_square = 0.25 + 0.7 * log(max(float(self.model.clock), 300.0) / 300.0) - log(self.p.doubt * more)
        return min(3.5, np.sqrt(2.0 * max(0.0, half_square))) * max(1.0, 2.0 / self.model.dimension)

    def _are_small(self, u, v):
        mass = in_order(mark.mass for i, mark in enumerate(self.model.landmarks) if self.group.get(i) in (u, v))
        return mass <= self.alike

    def _need(self, error, u, v, lasts):
        large, small = (errors * error for errors in self.errors)
        either = min(self.p.valley + small, np.sqrt(self.p.valley * self.p.valley + large * large))
        depth = either if self._are_small(u, v) else self.p.valley + large
        return max(depth * (0.7 if lasts else 1.0), 1e-300)

    def _left_of_excess(self, u, v):
        return 1.0 / np.sqrt(self.model.over) if self._apart(u, v) else 1.0

    def _clearest(self, u, v):
        """Return depth of the clearest valley of two basins over the scales, and the depth that it needs."""
        best, found = -1.0, (0.0, 1.0)
        size = Counter(self.group.values())
        piece = 64 <= min(size[u], size[v]) <= self.count / 5.0 and self.model.dimension <= 2.5
        piece = piece and not self._are_small(u, v)
        for scale in range(3):
            least = self.uneven[scale][0] * min(size[u], size[v]) + self.uneven[scale][1]
            low = u if self.peak[scale, u][0] < self.peak[scale, v][0] else v
            (peak, peak_records), (bottom, records) = self.peak[scale, low], self.bottom[scale, u, v]
            part = self._left_of_excess(u, v)
            error = np.sqrt(max(least, part / peak_records) + max(least, part / records))
            need = self._need(error, u, v, self._apart(u, v) and (scale > 0 or not piece))
            depth = depth_of(peak, bottom)
            if depth / need > best:
                best, found = depth / need, (depth, need)
        return found

    def _slabs(self, u, v):
        """Return depth and squared error of the valley on the line between the means of two groups, None for none."""
        marks = self.model.landmarks
        members = {g: [i for i, own in self.group.items() if own == g] for g in (u, v)}
        if min(map(len, members.values())) < 5:
            return None
        whole, total, square = {g: self._mean(own) for g, own in members.items()}, [0.0] * 3, [0.0] * 3
        for i, g in self.group.items():
            if g not in members:
                continue
            begin = self._mean([j for j in members[g] if j != i])
            line = whole[v if g == u else u] - begin
            if not line.any():
                continue
            t = (marks[i].at - begin) @ line / (line @ line)
            for slab in range(3):
                if abs((t if g == u else 1.0 - t) - 0.5 * slab) <= 1.0 / 6.0:
                    total[slab] += marks[i].mass
                    square[slab] += marks[i].mass ** 2
        end = 0 if total[0] < total[2] else 2
        if total[end] < 1.0:
            return None
        error2 = square[end] / total[end] ** 2 + (square[1] / total[1] ** 2 if total[1] >= 1.0 else 1.0)
        return log(total[end] / max(total[1], 1.0)), error2

    def _mean(self, own):
        marks = [self.model.landmarks[i] for i in own]
        return in_order(mark.mass * mark.at for mark in marks) / in_order(mark.mass for mark in marks)

    def _is_clearer_along_the_line(self, u, v):
        found = self._slabs(u, v)
        if found is None:
            return False
        error2 = found[1] * (0.25 if self.many and self._are_small(u, v) else 1.0)
        need = self._need(np.sqrt(error2 * (self.model.over * self._left_of_excess(u, v))), u, v, self._apart(u, v))
        depth, needed = self.valley[u, v]
        if found[0] * needed <= depth * need:
            return False
        self.valley[u, v] = self.valley[v, u] = found[0], need
        return True

    def _join(self):
        basins = sorted(set(self.group.values()))
        self.found = len(basins)
        self.now = {u: self.model.landmarks[u].cluster for u in basins}
        self.peak = {(scale, u): (0.0, 1.0) for scale in range(3) for u in basins}
        self.bottom = {}
        for i, u in self.group.items():
            for scale in range(3):
                if self.density[scale][i] > self.peak[scale, u][0]:
                    self.peak[scale, u] = self.density[scale][i], self.records[scale][i]
        for i, u in self.group.items():
            for j in self.edges[i]:
                v = self.group[j]
                for scale in range(3) if u != v else ():
                    low = i if self.density[scale][i] < self.density[scale][j] else j
                    if self.density[scale][low] > self.bottom.get((scale, u, v), (0.0, 1.0))[0]:
                        pair = self.density[scale][low], self.records[scale][low]
                        self.bottom[scale, u, v] = self.bottom[scale, v, u] = pair
        # A valley stands in the order in which the basins were found, also after one of them was joined.
        pairs = [(u, v) for u in basins for v in basins if u < v and (0, u, v) in self.bottom]
        self.valley, self.lost, self.seen = {}, {}, set()
        for u, v in pairs:
            self.valley[u, v] = self.valley[v, u] = self._clearest(u, v)
        while pairs:
            ratio = [self.valley[pair][0] / self.valley[pair][1] for pair in pairs]
            if min(ratio) >= 1.0:
                break
            one, other = pairs[ratio.index(min(ratio))]
            if self.model.dimension > 2.5 and (one, other) not in self.seen:
                self.seen |= {(one, other), (other, one)}
                if self._is_clearer_along_the_line(one, other):
                    continue
            if self.peak[0, one][0] < self.peak[0, other][0]:
                one, other = other, one
            if self._apart(one, other):
                self.lost[self.now[other]] = self.valley[one, other]
            self._unite(one, other, basins)
            pairs = [tuple(one if u == other else u for u in pair) for pair in pairs]
            pairs = [(u, v) for u, v in pairs if u != v]
        self.touching = len({frozenset(pair) for pair in pairs})

    def _unite(self, one, other, basins):
        self.group = {i: one if u == other else u for i, u in self.group.items()}
        for scale in range(3):
            if self.peak[scale, other][0] > self.peak[scale, one][0]:
                self.peak[scale, one] = self.peak[scale, other]
            for v in basins:
                bottom = self.bottom.pop((scale, other, v), (0.0, 1.0))
                self.bottom.pop((scale, v, other), None)
                if v != one and bottom[0] > self.bottom.get((scale, one, v), (0.0, 1.0))[0]:
                    self.bottom[scale, one, v] = self.bottom[scale, v, one] = bottom
        self.valley = {pair: found for pair, found in self.valley.items() if other not in pair}
        for v in basins:
            if (0, one, v) in self.bottom:
                self.valley[one, v] = self.valley[v, one] = self._clearest(one, v)
                self.seen -= {(one, v), (v, one)}


def depth_of(peak, bottom):
    return log(max(peak, 1e-300)) - log(max(bottom, 1e-300))
