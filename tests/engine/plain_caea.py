"""CAEA and its readings, written from their description in plain numpy, one record at a time: slow, short, to compare.

It keeps no bounds, no children and no state; the engine is measured and checked against it.
"""

from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

Array = NDArray[np.float64]


@dataclass
class Answer:
    """What is said of a record: its cluster as last read (-1: none), the node that learned it, and if that is new."""

    cluster: int
    node: int
    novel: bool


@dataclass
class PlainCAEA:
    """CAEA; parameters and symbols as in the engine."""

    lambda_: int = 50
    age_max: int = 10
    grace: int = 2
    reading: str = "valley"
    tau: float = 0.08
    min_cluster_records: int = 25
    expire_records: int = 2000
    bandwidth: str = "varying"
    renew: int = 3
    valley: float = 0.5

    n: int = 0
    y: Array = field(default_factory=lambda: np.empty((0, 0)))
    M: Array = field(default_factory=lambda: np.empty(0))
    sigma: Array = field(default_factory=lambda: np.empty(0))
    V: Array = field(default_factory=lambda: np.empty(0))
    made: list[int] = field(default_factory=list)
    seen: Array = field(default_factory=lambda: np.empty(0))
    hits: Array = field(default_factory=lambda: np.empty(0))
    since: Array = field(default_factory=lambda: np.empty(0))
    ids: list[int] = field(default_factory=list)
    cluster: list[int] = field(default_factory=list)
    edge: Array = field(default_factory=lambda: np.full((0, 0), -1.0))
    A: Array = field(default_factory=lambda: np.zeros((0, 0)))
    recent: list[Array] = field(default_factory=list)
    events: list[tuple[int, str, int, int]] = field(default_factory=list)
    next_id: int = 0
    next_cluster: int = 0
    read_id: int = 0
    novel_run: int = 0
    present: set[int] = field(default_factory=set)

    def learn(self, x: Array) -> Answer:
        """Answer for a record of shape (d,), then learn it."""
        answer = self._cluster_of(x)
        h = (self.lambda_ + 1) // 2
        self.n += 1
        self.recent = [*self.recent, x][-h:]
        if len(self.M) < h:
            node = self._found(x, np.nan)
            novel = True
            if len(self.M) == h:
                if self.bandwidth == "varying":
                    self.sigma[:] = self.sigma[-1]
                self.V[:] = self._mean_nearest(self.y, self.sigma.mean())
            else:
                self.V[:] = self.V[:-1].mean() if len(self.V) > 1 else np.nan
        else:
            node, novel = self._resonate(x)
        if self.n % self.lambda_ == 0:
            if len(self.M) > 1:
                lonely = ~(self.edge >= 0).any(axis=1)
                old = self.n - np.array(self.made) >= self.grace * self.lambda_
                waiting = self.bandwidth == "varying" and self.V[-1] == 0
                self._keep(np.flatnonzero(~((lonely & old & (not waiting)) | self._expired())))
            self._renew()
            age = self.n - self.since
            half = (age >= 2 * self.expire_records) & (self.expire_records > 0)
            self.hits[half] //= 2
            self.since[half] = self.n - age[half] // 2
            self._read()
        return Answer(answer, node, novel)

    def _expired(self) -> NDArray[np.bool_]:
        """Return which nodes have not won for long; those of a cluster that has not, either, go together."""
        own = np.array(self.cluster)
        last = np.array([self.seen[own == c].max() if c >= 0 else self.n for c in own])
        idle, late = self.n - self.seen >= self.expire_records, self.n - last
        return idle & (self.expire_records > 0) & ((late >= self.expire_records) | (2 * late < self.expire_records))

    def _renew(self) -> None:
        h, fresh = (self.lambda_ + 1) // 2, self.next_id - self.read_id
        self.read_id = self.next_id
        self.novel_run = self.novel_run + 1 if 2 * fresh > self.lambda_ else 0
        if self.bandwidth == "all" or len(self.M) < h:
            return
        if self.V[-1] == 0 or (self.renew and self.novel_run == self.renew):
            sigma = self._varying()
            V = self._mean_nearest(self.y[-h:], sigma) if sigma > 0 else 0.0
            if V > 0:
                self.V[:], self.sigma[:] = V, sigma
        elif self.renew and self.novel_run > self.renew and self.novel_run % self.renew == 0:
            self.V[:] = np.minimum(1.0, 1.1 * self.V)

    def _mean_nearest(self, nodes: Array, s: float) -> float:
        C = np.array([self._cim(y, nodes, s) for y in nodes])
        np.fill_diagonal(C, np.inf)
        if self.bandwidth == "all":
            return float(C.min(axis=1).mean())
        first = [not (C[i, :i] == 0).any() for i in range(len(C))]
        C[C == 0] = np.inf
        return float(C[first].min(axis=1).mean()) if sum(first) >= (self.lambda_ + 1) // 2 else 0.0

    def _cim(self, x: Array, y: Array, s: float | None = None) -> Array:
        s = self.sigma.mean() if s is None else s
        return np.sqrt(np.maximum(0.0, 1.0 - np.exp(-((x - y) ** 2) / (2 * s * s)).mean(axis=1)))

    def _bandwidth(self) -> float:
        window = np.array(self.recent)
        m, d = window.shape
        if self.bandwidth == "varying" and m > 1:
            if (sigma := self._varying()) > 0:
                return sigma
            if len(self.sigma):
                return float(self.sigma.mean())
            window, m = window[-1:], 1
        # A single record: the spread over its features stands in for theirs.
        q = window.std(axis=0, ddof=1) if m > 1 else window.std(axis=1, ddof=1) if d > 1 else np.zeros(1)
        q[q == 0] = 1e-6
        return float(np.median((4 / (2 + d)) ** (1 / (4 + d)) * q * m ** (-1 / (4 + d))))

    def _varying(self) -> float:
        """Return the median over the features that vary; 0 where none does."""
        window = np.array(self.recent)
        m, d = window.shape
        q = window.std(axis=0, ddof=1)
        q = q[(window != window[0]).any(axis=0) & (q > 1e-12 * np.abs(window.mean(axis=0)) * np.sqrt(m / (m - 1)))]
        return float(np.median(q) * (4 / (2 + d)) ** (1 / (4 + d)) * m ** (-1 / (4 + d))) if len(q) else 0.0

    def _found(self, x: Array, V: float) -> int:
        K = len(self.M)
        self.y = np.vstack([self.y.reshape(K, len(x)), x])
        self.M = np.append(self.M, 1.0)
        self.sigma = np.append(self.sigma, self._bandwidth())
        self.V = np.append(self.V, V)
        self.made.append(self.n)
        self.seen, self.since = np.append(self.seen, self.n), np.append(self.since, self.n)
        self.hits = np.append(self.hits, 0)
        self.ids.append(self.next_id)
        self.cluster.append(-1)
        self.edge = np.pad(self.edge, (0, 1), constant_values=-1.0)
        self.A = np.pad(self.A, (0, 1))
        self.next_id += 1
        return self.ids[-1]

    def _resonate(self, x: Array) -> tuple[int, bool]:
        C = self._cim(x, self.y)
        self.hits += C**2 <= 0.36 * self.V**2
        k1 = int(C.argmin())
        rest = C.copy()
        rest[k1] = np.inf
        k2 = int(rest.argmin())
        if C[k1] > self.V[k1]:
            return self._found(x, self.V[k1]), True
        self.A[k1, k2] += 1
        self.A[k2, k1] += 1
        self.edge[k1, self.edge[k1] >= 0] += 1
        self.edge[k1, self.edge[k1] > self.age_max] = -1
        self.edge[:, k1] = self.edge[k1]
        self.y[k1] += (x - self.y[k1]) / self.M[k1]
        self.M[k1] += 1
        self.seen[k1] = self.n
        if C[k2] <= self.V[k2]:
            near = self.edge[k1] >= 0
            self.y[near] += (x - self.y[near]) / (10 * self.M[near, None])
            self.edge[k1, k2] = self.edge[k2, k1] = 0
        return self.ids[k1], False

    def _keep(self, kept: NDArray[np.int64]) -> None:
        self.y, self.M, self.sigma, self.V = (a[kept] for a in (self.y, self.M, self.sigma, self.V))
        self.seen, self.hits, self.since = (a[kept] for a in (self.seen, self.hits, self.since))
        self.made, self.ids, self.cluster = ([a[k] for k in kept] for a in (self.made, self.ids, self.cluster))
        self.edge, self.A = (a[np.ix_(kept, kept)] for a in (self.edge, self.A))

    def _cluster_of(self, x: Array) -> int:
        held = np.flatnonzero(np.array(self.cluster) >= 0)
        return self.cluster[held[self._cim(x, self.y[held]).argmin()]] if len(held) else -1

    def _groups(self) -> list[list[int]]:
        groups = [[i] for i in range(len(self.M))]
        if self.reading == "components":
            for i, j in np.argwhere(np.triu(self.edge >= 0)):
                a, b = (next(g for g in groups if k in g) for k in (i, j))
                if a is not b:
                    a += b
                    groups.remove(b)
            return sorted(sorted(g) for g in groups)
        volume = self.A.sum(axis=1)
        T = volume.sum()
        if T == 0:
            return groups
        B = np.maximum(0.0, self.A - np.outer(volume, volume) / T)
        np.fill_diagonal(B, 0.0)
        w = B.sum(axis=1)
        while len(groups) > 1:
            with np.errstate(invalid="ignore", divide="ignore"):
                s = np.triu(np.where(B > 0, B / np.sqrt(np.outer(w, w)), 0.0), 1)
            i, j = divmod(int(s.argmax()), len(groups))
            if s[i, j] < self.tau:
                break
            B[i] += B[j]
            B[:, i] += B[:, j]
            B[i, i] = 0.0
            w[i] += w[j]
            B, w = np.delete(np.delete(B, j, 0), j, 1), np.delete(w, j)
            groups[i] += groups.pop(j)
        groups = sorted(sorted(g) for g in groups)
        return groups if self.reading == "affinity" else self._joined(groups)

    def _joined(self, groups: list[list[int]]) -> list[list[int]]:
        """Join the groups that no valley divides, by the highest pass first."""
        age = np.maximum(1, self.n - self.since)
        rate, floor = self.hits / age, (self.hits + 1) / age
        group = {i: g for g in groups for i in g}
        summit = {g[0]: max(g, key=lambda i: (rate[i], -i)) for g in groups}
        edges = [(i, j) for i, j in np.argwhere(np.tril(self.edge >= 0)) if group[i] is not group[j]]
        for i, j in sorted(edges, key=lambda e: (-min(floor[e[0]], floor[e[1]]), e[0], e[1])):
            a, b = sorted((group[i], group[j]))
            if a is b:
                continue
            low, high = (a, b) if rate[summit[a[0]]] < rate[summit[b[0]]] else (b, a)
            lower, other, pass_ = summit[low[0]], summit[high[0]], i if floor[i] < floor[j] else j
            depth = np.log(max(rate[lower], 1e-300)) - np.log(max(floor[pass_], 1e-300))
            need = self.valley + max(1, 2 / self.y.shape[1]) * np.sqrt(
                1 / max(1, self.hits[lower]) + 1 / (1 + self.hits[pass_])
            )
            if self.cluster[lower] >= 0 and self.cluster[other] >= 0:
                need *= 1.5 if self.cluster[lower] == self.cluster[other] else 0.7
            if depth < need:
                a[:] = sorted(a + b)
                summit[a[0]] = other
                for k in b:
                    group[k] = a
                groups = [g for g in groups if g is not b]
        return groups

    def _read(self) -> None:
        groups = [g for g in self._groups() if len(g) > 1 and self.M[g].sum() >= self.min_cluster_records]
        # share[c][g]: records of the nodes that cluster c had and group g has.
        share = {c: [sum(self.M[i] for i in g if self.cluster[i] == c) for g in groups] for c in sorted(self.present)}
        heir = {c: shares.index(max(shares)) if any(shares) else None for c, shares in share.items()}
        ids: list[int] = []
        born: list[tuple[int, str, int, int]] = []
        for g in range(len(groups)):
            heirs = [c for c in share if heir[c] == g]
            if heirs:
                ids.append(min(heirs))
                continue
            parts = {c: shares[g] for c, shares in share.items() if shares[g] > 0}
            origin = max(parts, key=lambda c: parts[c]) if parts else -1
            born.append((self.n, "split" if parts else "emerged", self.next_cluster, origin))
            ids.append(self.next_cluster)
            self.next_cluster += 1
        for c, g in heir.items():
            if g is None:
                self.events.append((self.n, "vanished", c, -1))
            elif ids[g] != c:
                self.events.append((self.n, "absorbed", c, ids[g]))
        self.events += born
        self.present = set(ids)
        self.cluster = [-1] * len(self.M)
        for identity, nodes in zip(ids, groups, strict=True):
            for i in nodes:
                self.cluster[i] = identity
