"""How fast the engines learn, beside the least that their arithmetic can cost, and beside their peers.

The floor sums the similarities of every record to the run's own nodes: the engine's exponential, its layout, and
nothing else. One core, batches of 1,000, medians of alternating runs over the same records.
"""

import copy
import math
import os
import time
from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np
from numpy.typing import NDArray
from resonance.engine import ENGINES, Engine, SparseBatch, make_engine
from resonance.kernels.arithmetic import exp_minus, jit

from bench import evq, ildn
from bench.peers import river
from bench.plain_caea import PlainCAEA
from bench.report import Row, alternating, arguments, show
from bench.streams import SPREADS, blobs, chosen, repeated, sparse_set

Array = NDArray[np.float64]

BATCH = 1000
WARM = 30_000
"""Records learned before the clock starts: the number of nodes has settled by then."""
TIMED = 40_000
SLOW_TIMED = 2_000
"""Records timed of what takes ten microseconds and more for each."""
SPARSE = ("r52", "mnist5k")
SPARSE_WARM, SPARSE_TIMED = 1_500, 1_000
LABELLED_TIMED = 1_000
PEER_TIMED = 100
"""Records timed of what takes milliseconds for each."""
HIERARCHIES = ("blobs", "s1", "statlog", "digits")


@jit
def floor(X, weights, scale, sums):  # type: ignore[no-untyped-def]
    """Sum the similarities of each record to all nodes; weights feature-major, padded to the vector lanes."""
    total = 0.0
    for t in range(X.shape[0]):
        for j in range(weights.shape[1]):
            sums[j] = 0.0
        for i in range(X.shape[1]):
            x = X[t, i]
            row = weights[i]
            for j in range(weights.shape[1]):
                z = x - row[j]
                sums[j] += exp_minus(z * z * scale)
        total += sums[t % weights.shape[1]]
    return total


@jit
def library_floor(X, weights, scale, sums):  # type: ignore[no-untyped-def]
    """Do the same as `floor` with the exponential of the mathematics library."""
    total = 0.0
    for t in range(X.shape[0]):
        for j in range(weights.shape[1]):
            sums[j] = 0.0
        for i in range(X.shape[1]):
            x = X[t, i]
            row = weights[i]
            for j in range(weights.shape[1]):
                z = x - row[j]
                sums[j] += math.exp(-(z * z * scale))
        total += sums[t % weights.shape[1]]
    return total


def seconds(work: Callable[[], Any]) -> float:
    """Return how long `work` takes."""
    start = time.perf_counter()
    work()
    return time.perf_counter() - start


def in_batches(X: Array) -> list[Array]:
    """Cut a stream."""
    return [X[start : start + BATCH] for start in range(0, len(X), BATCH)]


def learn_all(engine: Engine, batches: list[Array]) -> int:
    """Learn batch after batch; return the number of events."""
    return sum(len(engine.learn(batch).events) for batch in batches)


class Course:
    """A stream, an engine that knows its beginning, and its nodes at every batch of the rest."""

    def __init__(self, X: Array) -> None:
        d = X.shape[1]
        self.warm, self.timed = in_batches(X[:WARM]), in_batches(X[WARM:])
        self.slow_warm, self.slow_timed = X[WARM - SLOW_TIMED : WARM], X[WARM : WARM + SLOW_TIMED]
        engine = make_engine("caea", {})
        learn_all(engine, self.warm)
        self.state = engine.state()
        modal = make_engine("modal", {})
        learn_all(modal, self.warm)
        self.modal_state = modal.state()
        self.modal_case = f"modal d={d} clusters={len(modal.clusters())}"
        self.nodes: list[tuple[Array, float]] = []
        counts = []
        self.novel = 0
        self.events = 0
        for batch in self.timed:
            found: Any = engine.arrays()  # type: ignore[attr-defined]
            counts.append(len(found["id"]))
            padded = np.zeros((d, -(-counts[-1] // 8) * 8))
            padded[:, : counts[-1]] = found["weight"].T
            self.nodes.append((padded, 0.5 / float(found["sigma"].mean()) ** 2))
            step = engine.learn(batch)
            self.novel += int(step.novel.sum())
            self.events += len(step.events)
        self.mean_nodes = sum(counts) / len(counts)
        self.case = f"d={d} nodes={self.mean_nodes:.0f}"

    def caea(self) -> float:
        """Return microseconds a record of CAEA with all its parts."""
        engine = ENGINES["caea"].from_state(self.state)
        return seconds(lambda: learn_all(engine, self.timed)) / TIMED * 1e6

    def modal(self) -> float:
        """Return microseconds a record of the default engine with all its parts."""
        engine = ENGINES["modal"].from_state(self.modal_state)
        return seconds(lambda: learn_all(engine, self.timed)) / TIMED * 1e6

    def arithmetic(self, kernel: Callable[..., float]) -> float:
        """Return microseconds a record of one of the floors."""
        room = [np.empty(weights.shape[1]) for weights, _ in self.nodes]

        def work() -> None:
            for batch, (weights, scale), sums in zip(self.timed, self.nodes, room, strict=True):
                kernel(batch, weights, scale, sums)

        return seconds(work) / TIMED * 1e6

    def plain(self, model: PlainCAEA) -> float:
        """Return microseconds a record of CAEA in plain numpy."""
        again = copy.deepcopy(model)

        def work() -> None:
            for x in self.slow_timed:
                again.learn(x)

        return seconds(work) / SLOW_TIMED * 1e6

    def river(self, model: Any) -> float:
        """Return microseconds a record of a River clusterer that learns; answering would come on top."""
        again = copy.deepcopy(model)
        records = river.as_river(self.slow_timed)

        def work() -> None:
            for x in records:
                again.learn_one(x)

        return seconds(work) / SLOW_TIMED * 1e6


def flat(d: int, rounds: int, with_peers: bool) -> list[Row]:
    """Measure CAEA and the default engine at d features."""
    course = Course(blobs(WARM + TIMED, d, SPREADS[d]))
    contestants: dict[str, Callable[[], float]] = {
        "caea": course.caea,
        "modal": course.modal,
        "floor": lambda: course.arithmetic(floor),
        "math.exp": lambda: course.arithmetic(library_floor),
    }
    if with_peers:
        plain = PlainCAEA()
        for x in course.slow_warm:
            plain.learn(x)
        contestants["plain numpy caea"] = lambda: course.plain(plain)
        for name, make in (("river dbstream", river.dbstream), ("river denstream", river.denstream)):
            model = make(d)
            for x in river.as_river(course.slow_warm):
                model.learn_one(x)
            contestants[name] = lambda model=model: course.river(model)  # type: ignore[misc]
    for kernel in (floor, library_floor):
        kernel(course.timed[0], *course.nodes[0], np.empty(course.nodes[0][0].shape[1]))
    found = alternating(contestants, rounds)
    unit = "us/record"
    rows = [
        Row(f"floor {course.case}", unit, found["floor"], "math.exp", found["math.exp"]),
        Row(course.modal_case, unit, found["modal"], "caea", found["caea"]),
    ]
    return rows + [
        Row(f"caea {course.case}", unit, found["caea"], name, found[name])
        for name in found
        if name not in ("caea", "modal", "math.exp")
    ]


def hierarchy(stream: str, rounds: int) -> list[Row]:
    """Measure HCAEA of three levels beside CAEA on the same stream: blobs, or a set of records again and again.

    Blobs have nothing below their first level: children divide what is one and the same, and found most.
    """
    X = blobs(WARM + TIMED, 8, SPREADS[8]) if stream == "blobs" else repeated(stream, WARM + TIMED)
    if X is None:
        return []
    course = Course(X)
    engine = make_engine("hcaea", {})
    learn_all(engine, course.warm)
    state = engine.state()

    def hcaea() -> float:
        model = ENGINES["hcaea"].from_state(state)
        return seconds(lambda: learn_all(model, course.timed)) / TIMED * 1e6

    found = alternating({"hcaea": hcaea, "caea": course.caea}, rounds)
    return [Row(f"hcaea depth=3 {stream} {course.case}", "us/record", found["hcaea"], "caea", found["caea"])]


class SparseCourse:
    """A sparse set in random order, and engines that know its beginning."""

    def __init__(self, batch: SparseBatch) -> None:
        order = np.random.default_rng(0).permutation(len(batch))[: SPARSE_WARM + SPARSE_TIMED]
        self.warm, self.timed = chosen(batch, order[:SPARSE_WARM]), chosen(batch, order[SPARSE_WARM:])

    def ours(self, name: str) -> tuple[Callable[[], float], int]:
        """Return what measures microseconds a record of an engine, and its number of clusters."""
        engine: Any = make_engine(name, {})
        engine.learn(self.warm)
        state = engine.state()

        def run() -> float:
            model: Any = ENGINES[name].from_state(state)
            return seconds(lambda: model.learn(self.timed)) / len(self.timed) * 1e6

        return run, len(engine.clusters())

    def artlib(self) -> Callable[[], float] | None:
        """Return what measures microseconds a record of artlib's Fuzzy ART, where that is installed."""
        try:
            from artlib import FuzzyART  # noqa: PLC0415
        except ImportError:
            return None
        d = self.warm.dimension
        assert d is not None
        model = FuzzyART(rho=0.7, alpha=0.01, beta=0.1)
        model.set_data_bounds(np.zeros(d), np.ones(d))
        warm, timed = (model.prepare_data(dense(batch)) for batch in (self.warm, self.timed.part(0, PEER_TIMED)))
        model.partial_fit(warm)

        def run() -> float:
            again = copy.deepcopy(model)
            return seconds(lambda: again.partial_fit(timed)) / len(timed) * 1e6

        return run


class LabelledCourse:
    """Records of 72 features around 500 centres, each with two of eight labels, and an engine with a node for each."""

    def __init__(self, name: str) -> None:
        rng = np.random.default_rng(0)
        centres = rng.random((500, 72))
        kind = np.concatenate([np.arange(500), rng.integers(500, size=LABELLED_TIMED)])
        X = centres[kind] + rng.normal(scale=0.05, size=(len(kind), 72))
        sets = [{int(k) % 3, 3 + int(k) % 5} for k in kind]
        engine: Any = make_engine(name, {})
        engine.learn(X[:500], sets[:500])
        self.timed, self.sets = X[500:], sets[500:]
        self.engine, self.state = ENGINES[name], engine.state()
        nodes = engine.arrays()
        self.case = f"{name} d=72 nodes={len(nodes['id'])}"
        self.weights = np.zeros((72, -(-len(nodes["id"]) // 8) * 8))
        self.weights[:, : len(nodes["id"])] = nodes["weight"].T
        self.scale = 0.5 / float(nodes["sigma"].mean()) ** 2

    def learns(self) -> float:
        """Return microseconds a record that is answered and learned."""
        model: Any = self.engine.from_state(self.state)
        return seconds(lambda: model.learn(self.timed, self.sets)) / LABELLED_TIMED * 1e6

    def answers(self) -> float:
        """Return microseconds a record without labels."""
        model = self.engine.from_state(self.state)
        return seconds(lambda: model.learn(self.timed)) / LABELLED_TIMED * 1e6

    def floor(self) -> float:
        """Return microseconds a record of the exponentials alone, once with each node."""
        sums = np.empty(self.weights.shape[1])
        return seconds(lambda: floor(self.timed, self.weights, self.scale, sums)) / LABELLED_TIMED * 1e6


def labelled(rounds: int, course: Course) -> list[Row]:
    """Measure the MLCA family beside the exponentials of the same size, and beside CAEA."""
    courses = [LabelledCourse(name) for name in ("mlca", "mlca_i", "mlca_c")]
    contestants: dict[str, Callable[[], float]] = {"caea": course.caea, "floor": courses[0].floor}
    for each in courses:
        each.floor()
        contestants[each.case] = each.learns
        contestants[f"{each.case} answers"] = each.answers
    found = alternating(contestants, rounds)
    references = ((courses[0].case.replace("mlca", "floor"), "floor"), (f"caea {course.case}", "caea"))
    return [
        Row(case, "us/record", found[case], name, found[reference])
        for case in contestants
        if case not in ("caea", "floor")
        for name, reference in references
    ]


def dense(batch: SparseBatch) -> Array:
    """Return a batch with its zeros."""
    X = np.zeros((len(batch), batch.dimension or 0))
    X[np.repeat(np.arange(len(batch)), np.diff(batch.indptr)), batch.indices] = batch.data
    return X


def sparse(name: str, rounds: int, course: Course) -> list[Row]:
    """Measure SA-ART and Fuzzy ART on a sparse set beside CAEA."""
    found = sparse_set(name)
    if found is None:
        return []
    records = SparseCourse(found[0])
    entries = len(records.timed.indices) / len(records.timed)
    contestants: dict[str, Callable[[], float]] = {"caea": course.caea}
    cases = {}
    for engine in ("sa_art", "fuzzy_art"):
        contestants[engine], clusters = records.ours(engine)
        cases[engine] = f"{engine} {name} nnz={entries:.0f} clusters={clusters}"
    artlib = records.artlib()
    if artlib is not None:
        contestants["artlib fuzzy_art"] = artlib
    took = alternating(contestants, rounds)
    rows = [Row(cases[engine], "us/record", took[engine], f"caea {course.case}", took["caea"]) for engine in cases]
    if artlib is not None:
        rows.append(
            Row(cases["fuzzy_art"], "us/record", took["fuzzy_art"], "artlib fuzzy_art", took["artlib fuzzy_art"])
        )
    return rows


class Network:
    """A stream that an engine of ellipsoids learns from its first record on, in batches, and its slowest record."""

    def __init__(
        self, name: str, X: Array, parameters: dict[str, Any], repeats: int = 1, engine_name: str = "ildn"
    ) -> None:
        self.batches, self.parameters, self.repeats = in_batches(X), parameters, repeats
        self.records, self.engine = len(X), engine_name
        engine = make_engine(engine_name, parameters)
        learn_all(engine, self.batches)
        nodes = sum(cluster.nodes for cluster in engine.clusters())
        if engine_name == "ildn":
            nodes = engine.arrays()["nodes"].shape[1]  # type: ignore[attr-defined]
        self.case = f"{engine_name} {name} d={X.shape[1]} nodes={nodes}"

    def run(self) -> float:
        """Return microseconds a record."""
        found = [
            seconds(lambda: learn_all(make_engine(self.engine, self.parameters), self.batches))
            for _ in range(self.repeats)
        ]
        return min(found) / self.records * 1e6

    def slowest_batch(self) -> float:
        """Return microseconds of the slowest batch, the least of three runs."""
        times = np.full(len(self.batches), np.inf)
        for _ in range(3):
            learn = make_engine(self.engine, self.parameters).learn
            times = np.minimum(times, [seconds(partial(learn, batch)) for batch in self.batches])
        return float(times.max() * 1e6)

    def slowest(self) -> float:
        """Return microseconds of the slowest single record, each in a batch of its own, the least of three runs."""
        times = np.full(self.records, np.inf)
        for _ in range(3):
            learn = make_engine(self.engine, self.parameters).learn
            records = (x[None] for batch in self.batches for x in batch)
            times = np.minimum(times, [seconds(partial(learn, x)) for x in records])
        return float(times.max() * 1e6)


def networks(rounds: int) -> list[Row]:
    """Measure ILDN on the five parts and on Segment, and the eVQ family, as multiples of CAEA at eight features."""
    course = Course(blobs(WARM + TIMED, 8, SPREADS[8]))
    parts = {"k": 0.5, "sigma": 3e-5}
    cases = [
        Network("five parts", ildn.parts()[0], parts),
        Network("five parts open-ended", ildn.parts(open_ended=True)[0], parts),
    ]
    segment = ildn.segment(0)
    if segment is not None:
        cases.append(Network("segment", segment[0], {}, repeats=5))
    unit: dict[str, Any] = {"low": 0.0, "high": 1.0}
    for mode in ("evq-a", "evq-am"):
        by_cluster = evq.squares(shuffled=False)
        cases.append(Network(f"{mode} cluster by cluster", by_cluster, unit | {"mode": mode}, 5, "evq"))
    cases.append(Network("evq-ams shuffled", evq.squares(), unit, engine_name="evq"))
    cases.append(Network("evq-ams correlated", evq.correlated(), unit, engine_name="evq"))
    contestants = {"caea": course.caea} | {case.case: case.run for case in cases}
    found = alternating(contestants, rounds)
    rows = [Row(case.case, "us/record", found[case.case], f"caea {course.case}", found["caea"]) for case in cases]
    rows += [Row(f"{case.case}: slowest batch", "us", case.slowest_batch()) for case in cases]
    return rows + [Row(f"{case.case}: slowest record", "us", case.slowest()) for case in cases]


def main() -> None:
    """Run the benchmark."""
    parser = arguments("How fast the engines learn: one core, batches of 1,000, microseconds a record.")
    parser.add_argument("--rounds", type=int, default=9, help="alternating runs that each median is taken of")
    parser.add_argument("--features", type=int, nargs="*", default=list(SPREADS), help="numbers of features")
    parser.add_argument("--no-peers", action="store_true", help="leave out River and plain numpy")
    parser.add_argument("--no-hierarchies", action="store_true", help="leave out HCAEA")
    parser.add_argument("--no-sparse", action="store_true", help="leave out Fuzzy ART and SA-ART")
    parser.add_argument("--no-labels", action="store_true", help="leave out the MLCA family")
    given = parser.parse_args()
    os.sched_setaffinity(0, {min(os.sched_getaffinity(0))})
    rows = [row for d in given.features for row in flat(d, given.rounds, not given.no_peers)]
    if not given.no_hierarchies:
        rows += [row for stream in HIERARCHIES for row in hierarchy(stream, min(given.rounds, 5))]
    course = Course(blobs(WARM + TIMED, 8, SPREADS[8]))
    if not given.no_labels:
        rows += labelled(min(given.rounds, 5), course)
    if not given.no_sparse:
        rows += [row for name in SPARSE for row in sparse(name, min(given.rounds, 5), course)]
    rows += networks(min(given.rounds, 5))
    show(
        "Engines: one core, batches of 1,000, 20 blobs",
        rows,
        given.json,
        "CAEA and Modal learn with default settings and answer: readings and events are included. River learns only.",
    )


if __name__ == "__main__":
    main()
