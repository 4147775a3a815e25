"""The engines that need no labels on the same streams of two features, with their defaults.

``python -m bench.choose --picture docs/engines/choose.png`` draws how each of them sees a shape. How good an engine is
on real data is the matter of `bench.quality`, `bench.evq`, `bench.ildn` and `bench.sa_art`.
"""

import time
from io import BytesIO
from pathlib import Path
from typing import NamedTuple

import matplotlib as mpl
import numpy as np
from matplotlib import pyplot as plt
from numpy.typing import NDArray
from PIL import Image
from resonance.engine import ENGINES
from resonance.engine.prepare import Preparation
from sklearn.datasets import make_blobs, make_circles, make_moons
from sklearn.metrics import adjusted_rand_score

from bench.report import Row, arguments, show

NAMES = ("modal", "caea", "evq", "ildn", "fuzzy_art", "sa_art")
"""The first level of ``hcaea`` is ``caea``."""

RECORDS = 6_000
DRAWN = 1_500
CENTRES = [(0, 0), (4, 1), (8, 0), (1, 4), (5, 5), (9, 4), (2, 8), (7, 9)]
GREY = (0.8, 0.8, 0.8)

Rows = NDArray[np.float64]
Classes = NDArray[np.int64]


class Seen(NamedTuple):
    """What an engine made of a stream: the cluster of each record in the end, their number, microseconds a record."""

    cluster: Classes
    clusters: int
    cost: float


def streams(n: int = RECORDS) -> dict[str, tuple[Rows, Classes]]:
    """Return the streams with their classes; all but the last in random order."""
    clouds, eight = make_blobs(n, centers=CENTRES, cluster_std=0.5, random_state=11)
    near, six = make_blobs(n, centers=6, cluster_std=1.1, center_box=(-6, 6), random_state=2)
    slanted, four = make_blobs(n, centers=4, cluster_std=0.7, random_state=8)
    unequal, three = make_blobs(n, centers=[(0, 0), (6, 0), (3, 5)], cluster_std=[1.2, 0.5, 0.25], random_state=2)
    in_turn = np.argsort(eight, kind="stable")
    return {
        "clouds": (clouds, eight),
        "overlapping": (near, six),
        "a tenth noise": _with_noise(clouds, eight),
        "slanted": (slanted @ np.array([(0.6, -0.6), (-0.4, 0.8)]), four),
        "unequal": (unequal, three),
        "moons": make_moons(n, noise=0.05, random_state=4),
        "rings": make_circles(n, noise=0.04, factor=0.5, random_state=5),
        "nothing": (np.random.default_rng(1).random((n, 2)), np.zeros(n, dtype=np.int64)),
        "one after another": (clouds[in_turn], eight[in_turn]),
    }


def _with_noise(X: Rows, classes: Classes) -> tuple[Rows, Classes]:
    rng = np.random.default_rng(6)
    noise = rng.random(len(X)) < 0.1
    anywhere = rng.uniform(X.min(axis=0), X.max(axis=0), size=X.shape)
    return np.where(noise[:, None], anywhere, X), np.where(noise, -1, classes)


def seen(name: str, X: Rows) -> Seen:
    """Let an engine learn a stream once, scaled as a partition would, and look back with the model of the end."""
    kind = ENGINES[name]
    preparation = Preparation(["x", "y"], clip=kind.unit_interval)
    preparation.hold(X[np.random.default_rng(0).permutation(len(X))[: preparation.wanted]])
    preparation.freeze()
    rows = preparation.apply(X)
    model = kind.make({})
    begin = time.perf_counter()
    model.learn(rows)
    cost = (time.perf_counter() - begin) / len(X) * 1e6
    return Seen(model.predict(rows).cluster[:, 0], sum(not each.path for each in model.clusters()), cost)


def agreement(classes: Classes, cluster: Classes) -> float:
    """Return the adjusted Rand index of all records but the noise."""
    return float(adjusted_rand_score(classes[classes >= 0], cluster[classes >= 0]))


def draw(found: dict[str, dict[str, Seen]], given: dict[str, tuple[Rows, Classes]], path: Path) -> None:
    """Draw a row of panels for each stream, a column for each engine."""
    mpl.use("Agg")
    colours = np.array([*mpl.colormaps["tab20"].colors, *mpl.colormaps["tab20b"].colors])
    figure, axes = plt.subplots(
        len(found), len(NAMES), figsize=(1.8 * len(NAMES), 1.6 * len(found)), layout="constrained"
    )
    for line, (stream, by_engine) in enumerate(found.items()):
        X, classes = given[stream]
        for column, name in enumerate(NAMES):
            axis, result = axes[line, column], by_engine[name]
            ink = np.where((result.cluster >= 0)[:, None], colours[result.cluster % len(colours)], GREY)
            shown = slice(None, None, len(X) // DRAWN)
            axis.scatter(*X[shown].T, c=ink[shown], s=2.5, linewidths=0)
            score = agreement(classes, result.cluster)
            axis.set(xticks=[], yticks=[], xlabel=f"{result.clusters} clusters" + _agreement(stream, score))
            axis.xaxis.label.set_size(7)
            if line == 0:
                axis.set_title(name, fontsize=10)
            if column == 0:
                axis.set_ylabel(stream, fontsize=9)
    drawn = BytesIO()
    figure.savefig(drawn, dpi=80)
    # A palette takes a quarter of the space.
    Image.open(drawn).convert("RGB").quantize(64, dither=Image.Dither.NONE).save(path, optimize=True)


def _agreement(stream: str, score: float) -> str:
    return "" if stream == "nothing" else f", ARI {score:.2f}"


def main() -> None:
    """Print the agreement with the classes, and draw where it is asked for."""
    parser = arguments(__doc__.partition("\n")[0])
    parser.add_argument("--picture", type=Path, help="where to draw it")
    options = parser.parse_args()
    for name in NAMES:
        ENGINES[name].compile()
    given = streams()
    found = {stream: {name: seen(name, X) for name in NAMES} for stream, (X, _) in given.items()}
    rows = [
        Row(f"{name}, {stream}", "ARI", agreement(given[stream][1], result.cluster))
        for stream, by_engine in found.items()
        for name, result in by_engine.items()
        if stream != "nothing"
    ]
    rows += [
        Row(f"{name}, all streams", "us/record", float(np.mean([by[name].cost for by in found.values()])))
        for name in NAMES
    ]
    show("Engines with their defaults on streams of two features", rows, options.json)
    if options.picture:
        draw(found, given, options.picture)


if __name__ == "__main__":
    main()
