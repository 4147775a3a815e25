"""MLCA, MLCA-I and MLCA-C as their specification prints them, record by record, in plain numpy."""

import numpy as np


def bandwidth(window):
    """Equation (8) by attribute: one value for all where there is one record."""
    m, d = window.shape
    one = np.full(d, window[0].std(ddof=1) if d > 1 else 0.0)
    q = one if m == 1 else window.std(axis=0, ddof=1)
    q = np.where(q == 0, 1e-6, q)
    return np.asarray((4 / (2 + d)) ** (1 / (4 + d)) * q * m ** (-1 / (4 + d)))


def similarity(x, y, s):
    return np.asarray(np.exp(-((x - y) ** 2) / (2 * np.asarray(s) ** 2)))


class PlainMLCA:
    """One of the three, by `form`: ``mlca``, ``mlca_i`` or ``mlca_c``."""

    def __init__(self, form, vigilance=0.3, lambda_=50, k=10, s=1.0, labels=3):
        self.form, self.v, self.lambda_, self.k, self.s = form, vigilance, lambda_, k, s
        self.y = []
        self.m = []
        self.sigma = []
        self.cl = []
        self.c, self.nc = np.zeros((labels, k + 1)), np.zeros((labels, k + 1))
        self.known = 0
        self.window = []
        self.n = 0
        self.groups = []

    def cim(self, x, median=False):
        sigma = np.array(self.sigma)
        if self.form == "mlca":
            s = np.median(sigma.max(axis=1)) if median else sigma.max(axis=1).mean()
            return np.array([np.sqrt(max(0.0, 1 - similarity(x, y, s).mean())) for y in self.y])
        groups = [[i] for i in range(len(x))] if self.form == "mlca_i" else self.groups or [list(range(len(x)))]
        far = []
        for y in self.y:
            parts = [np.sqrt(max(0.0, 1 - similarity(x[g], y[g], sigma[:, g].mean()).mean())) for g in groups]
            far.append(np.mean(parts))
        return np.array(far)

    def predict(self, x):
        """CIM to the nearest node, and the probability of each known label."""
        far = self.cim(x, median=True)
        near = np.argsort(far, kind="stable")[: self.k]
        out = np.full(len(self.c), np.nan)
        for label, d in enumerate(self.memberships(near)[: self.known]):
            prior = (self.s + sum(cl[label] for cl in self.cl)) / (2 * self.s + self.n)
            having = (self.s + self.c[label, d]) / (self.s * (len(near) + 1) + self.c[label].sum()) * prior
            lacking = (self.s + self.nc[label, d]) / (self.s * (len(near) + 1) + self.nc[label].sum()) * (1 - prior)
            out[label] = having / (having + lacking)
        return float(far[near[0]]), out

    def memberships(self, near):
        t = np.array([self.cl[j] for j in near]).sum(axis=0)
        return [int(np.floor(len(near) * each / t.max() + 0.5)) if t.max() > 0 else 0 for each in t]

    def learn(self, x, labels, window=None):
        """Learn a record; with `window` it is one of those that were held back. Return its node."""
        if window is None:
            self.window = [*self.window, x][-self.lambda_ :]
            window = np.array(self.window)
        else:
            self.window = list(window)
        self.n += 1
        self.known = max([self.known, *(label + 1 for label in labels)])
        own = np.array([label in labels for label in range(len(self.c))], dtype=float)
        far = self.cim(x) if self.y else np.array([np.inf])
        order = np.argsort(far, kind="stable")
        if not self.y or far[order[0]] > self.v:
            winner = len(self.y)
            sigma = bandwidth(window)
            self.y.append(x.copy())
            self.m.append(1)
            self.sigma.append(np.full(len(x), np.median(sigma)) if self.form == "mlca" else sigma)
            self.cl.append(own)
            near = [winner, *(order if len(self.y) > 1 else [])][: self.k]
        else:
            winner = int(order[0])
            self.m[winner] += 1
            self.y[winner] = self.y[winner] + (x - self.y[winner]) / self.m[winner]
            self.cl[winner] = self.cl[winner] + own
            if len(order) > 1 and far[order[1]] <= self.v:
                other = int(order[1])
                self.y[other] = self.y[other] + (x - self.y[other]) / (10 * self.m[other])
            near = list(order[: self.k])
        if self.n > 1:
            d = self.memberships(near) if len(self.y) > 1 else [self.k] * len(self.c)
            for label in range(self.known):
                counts = self.c if label in labels else self.nc
                counts[label, d[label]] += 1
        if self.form == "mlca_c" and self.n % self.lambda_ == 0:
            self.regroup()
        return winner

    def learn_together(self, X, labels):
        """Learn the first records, which were held back."""
        self.known = max(label + 1 for own in labels for label in own)
        self.window = list(X)
        if self.form == "mlca_c":
            self.regroup()
        for x, own in zip(X, labels, strict=True):
            self.learn(x, own, X)

    def regroup(self):
        """Cluster the attributes' means; those that did not vary are one group."""
        window = np.array(self.window)
        varying = [i for i in range(window.shape[1]) if np.ptp(window[:, i]) > 0]
        points = window.mean(axis=0)[varying]
        centres = []
        sizes = []
        sigmas = []
        for p, v in enumerate(points):
            far = np.inf
            if centres:
                j = int(np.argmin(np.abs(v - np.array(centres))))
                far = float(np.sqrt(max(0.0, 1 - similarity(v, np.array(centres[j]), np.mean(sigmas)))))
            if far > self.v:
                end = min(len(points), max(p + 1, self.lambda_))
                part = points[max(0, end - self.lambda_) : end]
                centres.append(float(v))
                sizes.append(1)
                sigmas.append(float(bandwidth(part[:, None])[0]))
            else:
                sizes[j] += 1
                centres[j] += (v - centres[j]) / sizes[j]
        found = {}
        for i in range(window.shape[1]):
            key = int(np.argmin(np.abs(window[:, i].mean() - np.array(centres)))) if i in varying else -1
            found.setdefault(key, []).append(i)
        self.groups = list(found.values())


FORMS = ("mlca", "mlca_i", "mlca_c")


def stream(n=60, seed=0):
    """Return records of six attributes on three scales, one of them constant, with labels of which one comes late."""
    rng = np.random.default_rng(seed)
    centres = rng.random((4, 5))
    kind = rng.integers(4, size=n)
    X = centres[kind] + rng.normal(scale=0.08, size=(n, 5))
    X = np.column_stack([X[:, 0], X[:, 1] * 100, X[:, 2] * 10, np.full(n, 3.0), X[:, 3] * 100, X[:, 4]]).round(3)
    sets = [{int(k) % 2, *({2} if k == 3 and t > n // 3 else ())} if k != 1 else set() for t, k in enumerate(kind)]
    sets[0] = {0, 1}
    return X, sets
