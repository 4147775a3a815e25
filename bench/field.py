"""How well what is odd is found, as owners of metrics meet it: ``python -m bench.field``, also on files with labels.

Streams with a truth have the essence of real ones: a daily rhythm, one metric of many that is off, bursts of a few
records, counters that are nearly always 0. A segment is found where one of its records is novel or opens an alert; what
is flagged elsewhere counts against the precision, records close to each other once. A running z-score, an
IsolationForest of the first records, HalfSpaceTrees and ADWIN stand beside. Records with categories have kinds, which
k-means, with their true number, and HDBSCAN look for, too.
"""

import argparse
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path
from typing import NamedTuple

import numpy as np
import orjson
from resonance.pipeline.records import Record
from sklearn.cluster import HDBSCAN, KMeans
from sklearn.ensemble import IsolationForest
from sklearn.metrics import adjusted_rand_score, roc_auc_score

from bench.drift import detectors
from bench.quality.rhythms import slow
from bench.quality.task import TOPIC, new_task
from bench.report import arguments, show_lines
from bench.streams import Array

MINUTE = 60_000
BEGAN = 1_770_000_000_000
FIRST = 2_000
"""Records that are not judged; IsolationForest learns them."""
NEAR = 10
"""Records by which two flags are of one run, and that an answer may come late."""
CHUNK = 500
Z, FORGETS = 5.0, 1_440.0
"""Standard deviations that a z-score flags, and the records that it remembers."""


class Odd(NamedTuple):
    """Records that are off, from the first up to the last but one, in a feature; -1 where no feature is known."""

    begin: int
    end: int
    feature: int = -1


class Stream(NamedTuple):
    """Records, a minute apart, and what is odd in them."""

    X: Array
    odd: list[Odd]


class Found(NamedTuple):
    """What a contestant says of each record; `named` has the feature that it blames, -1 for none."""

    flags: Array
    score: Array
    named: Array


@dataclass(frozen=True, slots=True)
class Line:
    """How well one contestant found what is odd in a stream.

    `late` is the median of the records from the begin of a segment to its first flag, `right` the share of the found
    segments whose feature is named.
    """

    stream: str
    contestant: str
    segments: int
    found: int
    precision: float | None
    right: float | None
    late: float | None
    auc: float


def _segments(rng: np.random.Generator, n: int, count: int, lengths: tuple[int, int], d: int) -> list[Odd]:
    begins = np.sort(rng.choice(np.arange(FIRST + 100, n - 200, 150), count, replace=False))
    return [Odd(int(b), int(b + rng.integers(*lengths)), int(rng.integers(d))) for b in begins]


def _metrics(rng: np.random.Generator, n: int, d: int) -> Array:
    """Return metrics of a server: each has a daily wave, noise that lasts, and noise of each record."""
    day = np.sin(2 * np.pi * (np.arange(n)[:, None] / 1_440 + rng.random(d)))
    return rng.uniform(20, 60, d) * (1 + 0.2 * day + 0.03 * slow(rng, n, d, 30) + 0.03 * rng.normal(size=(n, d)))


def server(rng: np.random.Generator) -> Stream:
    """Return 18 metrics, one of which is off for 5 to 60 minutes at a time."""
    n, d = 20_000, 18
    X, odd = _metrics(rng, n, d), _segments(rng, n, 20, (5, 60), d)
    for begin, end, f in odd:
        X[begin:end, f] += rng.choice([-1, 1]) * rng.uniform(4, 10) * X[:, f].std()
    return Stream(X, odd)


def narrow(rng: np.random.Generator) -> Stream:
    """Return 18 independent features, one of which is 12 standard deviations off for 20 records."""
    n, d = 10_000, 18
    X, odd = rng.normal(size=(n, d)), _segments(rng, n, 10, (20, 21), d)
    for begin, end, f in odd:
        X[begin:end, f] += 12.0
    return Stream(X, odd)


def bursts(rng: np.random.Generator) -> Stream:
    """Return five metrics of a machine whose first is at 100 % for six minutes at a time."""
    n, d = 10_000, 5
    X, odd = _metrics(rng, n, d), [each._replace(feature=0) for each in _segments(rng, n, 10, (6, 7), d)]
    X[:, 0] = np.minimum(X[:, 0], 70.0)
    for begin, end, f in odd:
        X[begin:end, f] = 100.0
    return Stream(X, odd)


def failures(rng: np.random.Generator) -> Stream:
    """Return counts of answers and a latency; failures are rare, and come in bursts of 5 to 30 minutes."""
    n = 15_000
    load = 200 * (1 + 0.5 * np.sin(2 * np.pi * np.arange(n) / 1_440))
    counts = [rng.poisson(load), rng.poisson(0.05 * load), rng.poisson(0.004, n), rng.poisson(0.004, n)]
    X = np.column_stack([*counts, rng.lognormal(3, 0.2, n)]).astype(float)
    odd = [each._replace(feature=int(rng.choice([2, 3]))) for each in _segments(rng, n, 14, (5, 30), 5)]
    for begin, end, f in odd:
        X[begin:end, f] = rng.poisson(12, end - begin)
    return Stream(X, odd)


STREAMS: Mapping[str, Callable[[np.random.Generator], Stream]] = {
    "server": server, "narrow": narrow, "bursts": bursts, "failures": failures,
}  # fmt: skip


def resonance(X: Array) -> Found:
    """Send the records through a partition task with defaults."""
    n, d = X.shape
    names = [f"f{i}" for i in range(d)]
    task = new_task({"input.features": names, "stream": "topic"})
    flags, score, named = np.zeros(n, dtype=bool), np.zeros(n), np.full(n, -1)
    for start, stop in pairwise([*range(0, n, CHUNK), n]):
        values = [orjson.dumps(dict(zip(names, row, strict=True))) for row in X[start:stop].tolist()]
        times = enumerate(values, start)
        outputs = task.process([Record(TOPIC, 0, at, BEGAN + at * MINUTE, None, value) for at, value in times])
        for answer in map(orjson.loads, (each.value for each in outputs.assignments)):
            at = answer["source"]["offset"]
            flags[at], score[at] = answer["novel"], -(answer["score"] or 0.0)
        for alert in map(orjson.loads, (each.value for each in outputs.of("alerts"))):
            if alert["kind"] == "opened" and alert["rule"] == "unlike":
                at = alert["cause"]["source"]["offset"]
                flags[at] = True
                named[at] = names.index(alert["features"][0]["feature"]) if alert.get("features") else -1
    return Found(flags, score, named)


def z_score(X: Array) -> Found:
    """Compare each feature with its mean and deviation of the last day."""
    mean, square, found = X[0].copy(), np.zeros(X.shape[1]), np.zeros(X.shape)
    for i, x in enumerate(X):
        keep = 1 - 1 / min(i + 1.0, FORGETS)
        found[i] = np.abs(x - mean) / np.sqrt(square + 1e-12)
        square = keep * (square + (1 - keep) * (x - mean) ** 2)
        mean = keep * mean + (1 - keep) * x
    worst = found.max(1)
    return Found(worst > Z, worst, found.argmax(1))


def isolation_forest(X: Array) -> Found:
    """Score the records by a forest of the first ones; it flags what is rarer than its default."""
    forest = IsolationForest(random_state=0).fit(X[:FIRST])
    return Found(forest.predict(X) < 0, -forest.score_samples(X), np.full(len(X), -1))


def half_space_trees(X: Array) -> Found:
    """Score each record before the trees learn it, within the ranges of the first ones; one in 100 is flagged."""
    from river import anomaly  # noqa: PLC0415 - an extra

    ends = zip(X[:FIRST].min(0).tolist(), X[:FIRST].max(0).tolist(), strict=True)
    trees, score = anomaly.HalfSpaceTrees(seed=0, limits=dict(enumerate(ends))), np.zeros(len(X))
    for i, row in enumerate(X.tolist()):
        score[i] = trees.score_one(dict(enumerate(row)))
        trees.learn_one(dict(enumerate(row)))
    return Found(score > np.quantile(score[FIRST // 2 : FIRST], 0.99), score, np.full(len(X), -1))


def adwin(X: Array) -> Found:
    """Flag the alarms of ADWIN, which has no score."""
    named = np.full(len(X), -1)
    for alarm in detectors.adwin(X):
        named[alarm.record] = alarm.feature
    return Found(named >= 0, (named >= 0).astype(float), named)


CONTESTANTS: Mapping[str, Callable[[Array], Found]] = {
    "modal": resonance, "z-score": z_score, "IsolationForest": isolation_forest, "HalfSpaceTrees": half_space_trees,
    "ADWIN": adwin,
}  # fmt: skip


def judged(name: str, stream: Stream, contestant: str) -> Line:
    """Return how well a contestant did."""
    found = CONTESTANTS[contestant](stream.X)
    flags = np.flatnonzero(found.flags[FIRST:]) + FIRST
    truth = np.zeros(len(stream.X), dtype=bool)
    late, right, known = [], 0, 0
    for begin, end, f in stream.odd:
        truth[begin:end] = True
        hits = flags[(flags >= begin) & (flags < end + NEAR)]
        if len(hits):
            late.append(hits[0] - begin)
            blamed = [each for each in found.named[hits] if each >= 0]
            known += bool(blamed) and f >= 0
            right += f in blamed[:1]
    near = np.zeros(len(stream.X), dtype=bool)
    for begin, end, _ in stream.odd:
        near[max(begin - NEAR, 0) : end + NEAR] = True
    cuts = np.flatnonzero((np.diff(flags) > NEAR) | np.diff(near[flags])) + 1
    runs = np.split(flags, cuts) if len(flags) else []
    good = sum(bool(near[run[0]]) for run in runs)
    return Line(
        name, contestant, len(stream.odd), len(late), good / len(runs) if runs else None,
        right / known if known else None, float(np.median(late)) if late else None,
        float(roc_auc_score(truth[FIRST:], found.score[FIRST:])),
    )  # fmt: skip


class Mixed(NamedTuple):
    """Records with categories, the values of these, and the kind of each record."""

    rows: list[dict[str, str | float]]
    categories: dict[str, list[str]]
    kind: Array


@dataclass(frozen=True, slots=True)
class KindsLine:
    """How well a contestant separates kinds of records, in the second half of the stream."""

    stream: str
    contestant: str
    kinds: int
    clusters: int
    ari: float


_FLOWS: tuple[tuple[str, str, str, float, float, float], ...] = (
    ("udp", "dns", "SF", -4.0, 4.2, 5.0), ("tcp", "http", "SF", 0.0, 6.5, 9.0), ("tcp", "ssl", "SF", 3.0, 8.0, 11.0),
    ("tcp", "ssh", "SF", 5.0, 9.5, 9.5), ("tcp", "-", "S0", -7.0, 0.0, 0.0),
)  # fmt: skip
"""Kinds of flows: protocol, service, state, and the logarithms of seconds and of bytes to and fro."""


def flows(rng: np.random.Generator) -> Mixed:
    """Return flows of a network: dns, web pages, encrypted ones, shells, and a scan that gets no answer."""
    kind = rng.choice(len(_FLOWS), 6_000, p=[0.35, 0.2, 0.25, 0.05, 0.15])
    rows: list[dict[str, str | float]] = []
    for k in kind.tolist():
        proto, service, state, *means = _FLOWS[k]
        seconds, sent, got = np.exp(rng.normal(means, 0.5)).tolist()
        answered = float(state == "SF")
        row: dict[str, str | float] = {"proto": proto, "service": service, "state": state, "seconds": seconds}
        rows.append({**row, "sent": round(sent) * answered, "got": round(got) * answered})
    values = {name: sorted({str(row[name]) for row in rows}) for name in ("proto", "service", "state")}
    return Mixed(rows, values, kind)


def equal(rng: np.random.Generator) -> Mixed:
    """Return three combinations of categories, nothing else."""
    kind = rng.integers(3, size=3_000)
    rows: list[dict[str, str | float]] = [
        {"proto": "tcp" if k < 2 else "udp", "port": ("80", "22", "53")[k]} for k in kind.tolist()
    ]
    return Mixed(rows, {"proto": ["tcp", "udp"], "port": ["80", "22", "53"]}, kind)


def with_number(rng: np.random.Generator) -> Mixed:
    """Return the same with a number, which is another one in each."""
    rows, categories, kind = equal(rng)
    return Mixed(
        [{**row, "size": float(rng.normal(10 * k, 1))} for row, k in zip(rows, kind.tolist(), strict=True)],
        categories,
        kind,
    )


MIXED: Mapping[str, Callable[[np.random.Generator], Mixed]] = {
    "equal records": equal, "with a number": with_number, "flows": flows,
}  # fmt: skip


def separated(name: str, stream: Mixed) -> Iterator[KindsLine]:
    """Yield how well each contestant separates the kinds; the other two know all records at once."""
    numbers = [each for each in stream.rows[0] if each not in stream.categories]
    task = new_task({"input.features": list(stream.rows[0]), "prepare.categories": stream.categories})
    values = list(map(orjson.dumps, stream.rows))
    outputs = task.process([Record(TOPIC, 0, at, BEGAN + at, None, value) for at, value in enumerate(values)])
    answers = [orjson.loads(each.value)["cluster"] or "" for each in outputs.assignments]
    X = np.array([
        *([float(row[each]) for row in stream.rows] for each in numbers),
        *([float(row[each] == value) for row in stream.rows] for each in stream.categories
          for value in stream.categories[each]),
    ]).T  # fmt: skip
    X = (X - X.mean(0)) / X.std(0)
    kinds = len(np.unique(stream.kind))
    found = {
        "modal": np.unique(answers, return_inverse=True)[1],
        "k-means": KMeans(kinds, random_state=0).fit_predict(X),
        "HDBSCAN": HDBSCAN(min_cluster_size=15, copy=True).fit_predict(X),
    }
    half = len(X) // 2
    for contestant, labels in found.items():
        late = labels[half:]
        yield KindsLine(
            name, contestant, kinds, len(np.unique(late)), float(adjusted_rand_score(stream.kind[half:], late))
        )


def of_folder(folder: Path, label: str) -> Iterator[tuple[str, Stream]]:
    """Yield the CSV files of a folder: the columns with numbers alone, and the segments that the label marks."""
    for file in sorted(folder.glob("*.csv")):
        rows = np.genfromtxt(file, delimiter=",", names=True)
        columns = [rows[name] for name in rows.dtype.names if name != label]
        X = np.column_stack([column for column in columns if np.isfinite(column).all()])
        edges = np.flatnonzero(np.diff(np.concatenate(([0], rows[label] != 0, [0])))).reshape(-1, 2).tolist()
        yield file.name, Stream(X, [Odd(*edge) for edge in edges if edge[0] >= FIRST])


def main() -> None:
    """Run the benchmark."""
    parser: argparse.ArgumentParser = arguments(__doc__.splitlines()[0])
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--folder", type=Path, help="real files instead of streams")
    parser.add_argument("--label", default="label", help="of the folder's files: the column that is not 0 where odd")
    given = parser.parse_args()
    streams = (
        of_folder(given.folder, given.label)
        if given.folder
        else ((name, make(np.random.default_rng([given.seed, i]))) for i, (name, make) in enumerate(STREAMS.items()))
    )
    lines = [judged(name, stream, contestant) for name, stream in streams for contestant in CONTESTANTS]
    show_lines("What is odd", lines, given.json)
    if not given.folder:
        mixed = ((name, make(np.random.default_rng([given.seed, 9]))) for name, make in MIXED.items())
        show_lines("Kinds", [line for name, stream in mixed for line in separated(name, stream)], given.json)


if __name__ == "__main__":
    main()
