"""SA-ART and Fuzzy ART as their specification prints them: dense, record by record, in plain numpy."""

import numpy as np


class PlainSAART:
    """One step of Algorithm 1 after the other, with all entries of [x] or [x, 1 - x]."""

    def __init__(self, rho0=0.7, lambda_=0.5, delta=0.01, complement=False):
        self.rho0, self.lambda_, self.delta, self.complement = rho0, lambda_, delta, complement
        self.w = []
        self.mu = []
        self.z = []
        self.cnt = []
        self.size = []
        self.rho = []

    def salience(self, j):
        variance = self.z[j] / (self.size[j] - 1) if self.size[j] > 1 else np.zeros_like(self.z[j])
        weighed = self.lambda_ * self.cnt[j] / self.size[j] + (1 - self.lambda_) * np.exp(-variance)
        return np.where(self.cnt[j] == 0, 0.0, weighed)

    def learn(self, x):
        record = np.concatenate([x, 1 - x]) if self.complement else x
        choice, match = np.zeros(len(self.w)), np.zeros(len(self.w))
        for j, w in enumerate(self.w):
            s = self.salience(j)
            u = (np.minimum(record, w) * s).sum()
            if u > 1e-12:
                choice[j] = u / (0.01 + (w * s).sum())
                match[j] = u / (record * s).sum()
        for j in np.argsort(-choice, kind="stable"):
            if choice[j] == 0:
                break
            if match[j] >= self.rho[j] - 1e-9:
                self.adapt(j, record)
                return int(j)
            self.rho[j] *= 1 - self.delta
        self.w.append(record.copy())
        self.mu.append(record.copy())
        self.z.append(np.zeros_like(record))
        self.cnt.append((record > 0).astype(float))
        self.size.append(1)
        self.rho.append(self.rho0)
        return len(self.w) - 1

    def adapt(self, j, record):
        mu, apart = self.mu[j], record - self.mu[j]
        variance = self.z[j] / (self.size[j] - 1) if self.size[j] > 1 else np.zeros_like(mu)
        width = np.minimum(mu + 0.01, 1 - mu)
        with np.errstate(divide="ignore", invalid="ignore"):
            theta = np.where(
                variance != 0, np.exp(-(apart**2) / (2 * variance)), np.exp(-9 * apart**2 / (2 * width**2))
            )
        theta = np.where(apart == 0, 1.0, theta)
        self.w[j] = np.minimum(record, mu) * theta + self.w[j] * (1 - theta)
        self.cnt[j] += record > 0
        self.size[j] += 1
        self.mu[j] = mu + apart / self.size[j]
        self.z[j] += apart * (record - self.mu[j])
        self.rho[j] = min((1 + self.delta) * self.rho[j], 1.0)


class PlainFuzzyART:
    """Choice (1), match (2) and learning (3)."""

    def __init__(self, rho, beta, complement):
        self.rho, self.beta, self.complement = rho, beta, complement
        self.w = []

    def learn(self, x):
        record = np.concatenate([x, 1 - x]) if self.complement else x
        overlap = np.array([np.minimum(record, w).sum() for w in self.w])
        choice = overlap / (0.01 + np.array([w.sum() for w in self.w]))
        for j in np.argsort(-choice, kind="stable"):
            if overlap[j] / record.sum() >= self.rho - 1e-9:
                self.w[j] = self.beta * np.minimum(record, self.w[j]) + (1 - self.beta) * self.w[j]
                return int(j)
        self.w.append(record.copy())
        return len(self.w) - 1
