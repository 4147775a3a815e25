"""How fast the engines learn: microseconds a record, beside CAEA with about 50 nodes and 8 features.

One core, batches of 1,000, medians of alternating runs over the same records. Readings and events are included.
"""

import os
import time
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
from resonance.engine import ENGINES, make_engine

from bench.quality.papers import segment
from bench.report import Row, alternating, arguments, show
from bench.streams import SPREADS, Array, blobs, chosen, correlated, ellipses, parts, repeated, sparse_set

BATCH = 1000
WARM, TIMED = 30_000, 40_000
"""Records before the clock starts, when the number of nodes has settled, and after that."""
REFERENCE = "caea"

Batches = list[tuple[Any, ...]]
"""What `learn` is called with, time after time."""


class Course:
    """An engine that knows the beginning of a stream, and the rest of it."""

    def __init__(self, engine: str, case: str, warm: Batches, timed: Batches, given: dict[str, Any]) -> None:
        self._engine, self._given, self._timed = engine, given, timed
        model: Any = make_engine(engine, given)
        for batch in warm:
            model.learn(*batch)
        self._state, self.case = None, f"{engine} {case}"
        if warm:
            self._state = model.state()
            self.case += f" nodes={sum(cluster.nodes for cluster in model.clusters())}"

    def run(self) -> float:
        """Return microseconds a record."""
        model: Any = ENGINES[self._engine].from_state(self._state) if self._state else None
        model = model or make_engine(self._engine, self._given)
        start = time.perf_counter()
        for batch in self._timed:
            model.learn(*batch)
        return (time.perf_counter() - start) / sum(len(batch[0]) for batch in self._timed) * 1e6


def in_batches(X: Array) -> Batches:
    """Cut a stream."""
    return [(X[start : start + BATCH],) for start in range(0, len(X), BATCH)]


def dense(engine: str, case: str, X: Array, given: dict[str, Any] | None = None, warm: int = WARM) -> Course:
    """Return the course of an engine over dense records."""
    return Course(engine, f"{case} d={X.shape[1]}", in_batches(X[:warm]), in_batches(X[warm:]), given or {})


def flat(features: list[int]) -> Iterator[Course]:
    """Yield CAEA and the default engine on blobs."""
    for d in features:
        X = blobs(WARM + TIMED, d, SPREADS[d])
        for engine in ("caea", "modal"):
            yield dense(engine, "blobs", X)


def trees(_: list[int]) -> Iterator[Course]:
    """Yield HCAEA of three levels beside CAEA: on blobs, below whose first level is nothing, and on sets."""
    for stream in ("blobs", "s1", "statlog", "digits"):
        X = blobs(WARM + TIMED, 8, SPREADS[8]) if stream == "blobs" else repeated(stream, WARM + TIMED)
        if X is not None:
            yield dense("hcaea", stream, X)
            yield dense("caea", stream, X)


def sparse(_: list[int]) -> Iterator[Course]:
    """Yield SA-ART and Fuzzy ART on sparse sets."""
    for name in ("r52", "mnist5k"):
        if (found := sparse_set(name)) is not None:
            order = np.random.default_rng(0).permutation(len(found[0]))[:2_500]
            warm, timed = chosen(found[0], order[:1_500]), chosen(found[0], order[1_500:])
            case = f"{name} nnz={len(timed.indices) / len(timed):.0f}"
            for engine in ("sa_art", "fuzzy_art"):
                yield Course(engine, case, [(warm,)], [(timed,)], {})


def labelled(_: list[int]) -> Iterator[Course]:
    """Yield the MLCA family with 500 nodes, on records of 72 features with two of eight labels each, and without."""
    rng = np.random.default_rng(0)
    kind = np.concatenate([np.arange(500), rng.integers(500, size=BATCH)])
    X = rng.random((500, 72))[kind] + rng.normal(scale=0.05, size=(len(kind), 72))
    sets = [{int(k) % 3, 3 + int(k) % 5} for k in kind]
    for engine in ("mlca", "mlca_i", "mlca_c"):
        warm = [(X[:500], sets[:500])]
        yield Course(engine, "learns d=72", warm, [(X[500:], sets[500:])], {})
        yield Course(engine, "answers d=72", warm, [(X[500:],)], {})


def networks(_: list[int]) -> Iterator[Course]:
    """Yield ILDN and the eVQ family from their first record on."""
    unit = {"low": 0.0, "high": 1.0}
    yield dense("ildn", "five parts", parts()[0], {"k": 0.5, "sigma": 3e-5}, 0)
    if (found := segment(0)) is not None:
        yield dense("ildn", "segment", found[0], {}, 0)
    yield dense("evq", "ellipses", ellipses(), unit, 0)
    yield dense("evq", "ellipses, without splits", ellipses(), unit | {"mode": "evq-am"}, 0)
    yield dense("evq", "correlated", correlated(), unit, 0)


PARTS: dict[str, Callable[[list[int]], Iterator[Course]]] = {
    "flat": flat, "trees": trees, "sparse": sparse, "labelled": labelled, "networks": networks
}  # fmt: skip


def main() -> None:
    """Run the benchmark."""
    parser = arguments("How fast the engines learn: one core, batches of 1,000, microseconds a record.")
    parser.add_argument("--rounds", type=int, default=9, help="alternating runs that each median is taken of")
    parser.add_argument("--features", type=int, nargs="*", default=list(SPREADS), help="numbers of features")
    parser.add_argument("--parts", nargs="*", choices=PARTS, default=list(PARTS))
    given = parser.parse_args()
    os.sched_setaffinity(0, {min(os.sched_getaffinity(0))})
    reference = dense(REFERENCE, "blobs", blobs(WARM + TIMED, 8, SPREADS[8]))
    rows = []
    for part in given.parts:
        courses = {course.case: course.run for course in PARTS[part](given.features)}
        found = alternating({"reference": reference.run, **courses}, given.rounds)
        rows += [Row(case, "us/record", found[case], reference.case, found["reference"]) for case in courses]
    show("Engines: one core, batches of 1,000", rows, given.json)


if __name__ == "__main__":
    main()
