"""All who take part, each with the settings of its sweep; the first of these is the one for all streams."""

import math
import time
from collections.abc import Callable
from itertools import pairwise
from typing import Any

import numpy as np
from artlib import FuzzyART
from numpy.typing import NDArray
from resonance.pipeline.config.sections import EngineSection
from river import cluster
from sklearn.cluster import Birch, MiniBatchKMeans

from bench.quality.contestants import Answers, Contestant, Setting, TooSlowError, engine
from bench.quality.task import CHUNK, prepared
from bench.streams import Array

SHARES: tuple[Setting, ...] = tuple({"share": share} for share in (0.1, 0.03, 0.06, 0.2))
"""Radii as shares of the diagonal."""
WITHIN: Setting = {"mu": 0.5, "sigma": 0.3, "halflife": 0.4}
"""Where the k-means inside CluStream and STREAMKMeans begin: among records in [0, 1], not around 0."""


class Clock:
    """CPU time of this thread since it was made."""

    def __init__(self, limit: float) -> None:
        self._limit, self._began = limit, time.thread_time()

    def look(self, learned: int) -> float:
        """Return the seconds; raise `TooSlowError` beyond the limit."""
        passed = time.thread_time() - self._began
        if passed > self._limit:
            raise TooSlowError(learned, passed)
        return passed


def by_record(make: Callable[[int, int, Setting], Any]) -> Callable[[Array, int, Setting, float], Answers]:
    """Return how a clusterer of River answers; `make` takes the features, the clusters and a setting."""

    def answer(X: Array, k: int, setting: Setting, limit: float) -> Answers:
        model = make(X.shape[1], k, setting)
        records = [dict(enumerate(row)) for row in prepared(X).tolist()]
        groups: list[object] = []
        clock = Clock(limit)
        for number, record in enumerate(records):
            try:
                groups.append(model.predict_one(record))
            except (KeyError, AttributeError, ValueError):
                # CluStream and STREAMKMeans have no answer before their first centres.
                groups.append(None)
            model.learn_one(record)
            if number % 100 == 0:
                clock.look(number + 1)
        return Answers(groups, clock.look(len(X)))

    return answer


def by_batch(make: Callable[[int, Setting], Any]) -> Callable[[Array, int, Setting, float], Answers]:
    """Return how a clusterer of scikit-learn answers; the first batch is looked back at."""

    def answer(X: Array, k: int, setting: Setting, limit: float) -> Answers:
        model, rows = make(k, setting), prepared(X)
        groups: list[object] = []
        clock = Clock(limit)
        for start, stop in pairwise([*range(0, len(rows), CHUNK), len(rows)]):
            if start:
                groups += model.predict(rows[start:stop]).tolist()
            # One that knows k needs as many records at once.
            if stop - start >= k:
                model.partial_fit(rows[start:stop])
            if not start:
                groups += model.predict(rows[start:stop]).tolist()
            clock.look(stop)
        return Answers(groups, clock.look(len(rows)))

    return answer


def fuzzy_art(X: Array, _: int, setting: Setting, limit: float) -> Answers:
    """Return what artlib's Fuzzy ART says of each record as it learns it; records are clipped to [0, 1]."""
    model = FuzzyART(rho=setting["rho"], alpha=1e-3, beta=1.0)
    rows: NDArray[np.float64] = np.clip(prepared(X), 0.0, 1.0)
    model.set_data_bounds(np.zeros(rows.shape[1]), np.ones(rows.shape[1]))
    rows = model.prepare_data(rows)
    clock = Clock(limit)
    for start, stop in pairwise([*range(0, len(rows), 100), len(rows)]):
        model.partial_fit(rows[start:stop])
        clock.look(stop)
    return Answers(model.labels_.tolist(), clock.look(len(rows)))


def _radius(d: int, share: float) -> float:
    """Return the radius of a micro-cluster for d features in [0, 1]: a share of the diagonal."""
    return share * math.sqrt(d)


def _denstream(d: int, _: int, setting: Setting) -> Any:
    """Return DenStream; with its default weights every record of a slow stream is an outlier: those of its manual."""
    return cluster.DenStream(decaying_factor=0.01, beta=0.5, mu=2.5, epsilon=_radius(d, **setting))


CONTESTANTS = (
    engine(EngineSection().name, {"engine.valley": 0.1}, {"engine.valley": 0.5}, {"engine.neighbours": 14}),
    engine("caea", {"engine.lambda": 25}, {"engine.lambda": 100}, {"engine.valley": 0.5}),
    Contestant(
        "River DBSTREAM", False, SHARES, by_record(lambda d, _, setting: cluster.DBSTREAM(_radius(d, **setting)))
    ),
    Contestant("River DenStream", False, SHARES, by_record(_denstream)),
    Contestant(
        "River CluStream",
        True,
        (WITHIN, {}, {**WITHIN, "max_micro_clusters": 50}, {**WITHIN, "micro_cluster_r_factor": 4}),
        by_record(lambda _, k, setting: cluster.CluStream(n_macro_clusters=k, seed=0, **setting)),
    ),
    Contestant(
        "River STREAMKMeans",
        True,
        ({**WITHIN, "chunk_size": 100}, {}, {**WITHIN, "chunk_size": 30}, {**WITHIN, "chunk_size": 500}),
        by_record(lambda _, k, setting: cluster.STREAMKMeans(n_clusters=k, seed=0, **setting)),
    ),
    Contestant(
        "MiniBatchKMeans",
        True,
        ({}, {"n_init": 10}, {"reassignment_ratio": 0.0}, {"reassignment_ratio": 0.1}),
        by_batch(lambda k, setting: MiniBatchKMeans(n_clusters=k, random_state=0, **setting)),
    ),
    Contestant(
        "Birch",
        True,
        tuple({"threshold": share} for share in (0.1, 0.03, 0.2, 0.5)),
        by_batch(lambda k, setting: Birch(n_clusters=k, **setting)),
    ),
    Contestant("artlib Fuzzy ART", False, tuple({"rho": rho} for rho in (0.7, 0.5, 0.8, 0.9)), fuzzy_art),
)
