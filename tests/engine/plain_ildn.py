"""ILDN as its specification has it, in plain numpy: no pruning, no whitening, every matrix inverted at every record."""

from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray
from scipy.stats import chi2


def eps(n):
    return 1.0 + 2.0 * 1.05 ** (1 - n)


def fewest(eigenvalues, rho):
    """How many of the largest eigenvalues make up `rho` of their sum."""
    return int(np.argmax(np.cumsum(eigenvalues) >= rho * eigenvalues.sum() * (1 - 1e-12))) + 1


@dataclass
class PlainNode:
    centre: NDArray[np.float64]
    covariance: NDArray[np.float64]
    n: int
    won: int

    def squared_distance(self, x):
        return float((x - self.centre) @ np.linalg.solve(self.covariance, x - self.centre))


@dataclass
class PlainILDN:
    """Section 3 of the specification; `max_nodes` is the bound that the engine adds."""

    sigma: float
    k: float = 0.01
    lam: int = 1000
    q: float = 0.9
    rho: float = 0.95
    radius: str = "sq"
    max_nodes: int = 10**9
    t: int = 0
    next_id: int = 0
    nodes: dict[int, PlainNode] = field(default_factory=dict)
    edges: set[tuple[int, int]] = field(default_factory=set)

    def squared_radius(self, n, d):
        x2 = float(chi2.ppf(self.q, d))
        return eps(n) * x2 if self.radius == "sq" else eps(n) ** 2 * x2

    def learn(self, x):
        """Learn one record; return the id of the node that holds it, -1 when that was removed at once."""
        self.t += 1
        d = len(x)
        inside = {}
        for i, node in self.nodes.items():
            distance = node.squared_distance(x)
            if distance < self.squared_radius(node.n, d):
                inside[i] = distance
        if not inside:
            w = self._new(PlainNode(x.copy(), self.sigma * np.eye(d), 1, self.t))
            if len(self.nodes) > self.max_nodes:
                self._drop(min(self.nodes, key=lambda i: self.nodes[i].won))
        else:
            w = min(inside, key=lambda i: (inside[i], i))
            node = self.nodes[w]
            g, dx = 1.0 / (node.n + 1), x - node.centre
            node.covariance = node.n * g * node.covariance + node.n * g**2 * np.outer(dx, dx)
            node.centre = node.centre + g * dx
            node.n, node.won = node.n + 1, self.t
            for a in sorted(inside):
                for b in sorted(inside):
                    if a < b and (a, b) not in self.edges:
                        self.edges.add((a, b))
            while (j := next((j for j in self.neighbours(w) if self.merge_test(w, j)), None)) is not None:
                w = self._merge(w, j)
        if self.t % self.lam == 0:
            mean = sum(node.n for node in self.nodes.values()) / len(self.nodes)
            for i in [i for i, node in self.nodes.items() if node.n < self.k * mean]:
                self._drop(i)
        return w if w in self.nodes else -1

    def neighbours(self, i):
        return sorted(b if a == i else a for a, b in self.edges if i in (a, b))

    def joined(self, i, j):
        a, b = self.nodes[i], self.nodes[j]
        n = a.n + b.n
        apart = a.centre - b.centre
        return PlainNode(
            (a.n * a.centre + b.n * b.centre) / n,
            (a.n * a.covariance + b.n * b.covariance) / n + a.n * b.n / n**2 * np.outer(apart, apart),
            n,
            max(a.won, b.won),
        )

    def merge_test(self, i, j):
        """Whether the ellipsoid of both has less volume than the two together: equations (7), (12), (13)."""
        three = [self.nodes[i], self.nodes[j], self.joined(i, j)]
        values = [np.linalg.eigvalsh(node.covariance)[::-1] for node in three]
        t = max(fewest(each, self.rho) for each in values)
        a, b, m = (
            0.5 * np.log(each[:t]).sum() + 0.5 * t * np.log(self.squared_radius(node.n, len(each)))
            for each, node in zip(values, three, strict=True)
        )
        return bool(np.logaddexp(a, b) > m)

    def components(self):
        """Ids of the nodes of each cluster, those of the oldest node first."""
        found = []
        left = set(self.nodes)
        while left:
            part = [min(left)]
            for i in part:
                part += [j for j in self.neighbours(i) if j not in part]
            left -= set(part)
            found.append(sorted(part))
        return found

    def _new(self, node):
        self.nodes[self.next_id] = node
        self.next_id += 1
        return self.next_id - 1

    def _merge(self, i, j):
        m = self._new(self.joined(i, j))
        for k in set(self.neighbours(i)) | set(self.neighbours(j)):
            if k not in (i, j):
                self.edges.add((k, m))
        self._drop(i)
        self._drop(j)
        return m

    def _drop(self, i):
        del self.nodes[i]
        self.edges = {edge for edge in self.edges if i not in edge}
