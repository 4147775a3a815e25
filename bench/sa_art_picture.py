"""Pictures of the documentation: ``python -m bench.sa_art_picture docs/engines``.

``sa_art.png``: what the largest clusters of handwritten digits look like to SA-ART. ``fuzzy_art.png``: the boxes that
Fuzzy ART puts around records of two features.
"""

import sys
from pathlib import Path

import matplotlib as mpl
import numpy as np
from matplotlib import pyplot as plt
from matplotlib.patches import Rectangle
from resonance.engine import SAART, FuzzyART
from sklearn.datasets import load_digits

SHOWN = 10
INK = {"dpi": 80, "metadata": {"Software": None}}


def digits(path: Path) -> None:
    """Draw mean, template and salience of the largest clusters of digits."""
    images, classes = load_digits(return_X_y=True)
    model = SAART()
    learned = model.learn(images / 16).path[:, 0]
    largest = sorted(model.clusters(), key=lambda cluster: -cluster.size)[:SHOWN]
    found = model.categories
    figure, axes = plt.subplots(3, SHOWN, figsize=(10, 3.4), layout="constrained")
    for column, cluster in enumerate(largest):
        row = found["id"].tolist().index(cluster.id)
        for line, (name, values) in enumerate(
            (("mean", cluster.centre), ("template", found["weight"][row]), ("salience", found["salience"][row]))
        ):
            axes[line, column].imshow(values.reshape(8, 8), cmap="Greys", vmin=0, vmax=1)
            axes[line, column].set(xticks=[], yticks=[])
            if column == 0:
                axes[line, column].set_ylabel(name)
        kinds = np.bincount(classes[learned == cluster.id])
        share = kinds.max() / kinds.sum()
        axes[0, column].set_title(f"{cluster.size} records\n{share:.0%} are {kinds.argmax()}", fontsize=8)
    figure.savefig(path, **INK)


def boxes(path: Path) -> None:
    """Draw records of two features, and the categories of two vigilances."""
    rng = np.random.default_rng(4)
    centres = np.array([[0.2, 0.25], [0.5, 0.75], [0.8, 0.3]])
    X = np.clip(centres[rng.integers(3, size=600)] + rng.normal(scale=0.05, size=(600, 2)), 0, 1)
    figure, axes = plt.subplots(1, 2, figsize=(8, 4), layout="constrained")
    for axis, rho in zip(axes, (0.7, 0.9), strict=True):
        model = FuzzyART(rho=rho, beta=1.0)
        learned = model.learn(X).path[:, 0]
        axis.scatter(*X.T, c=learned, cmap="tab10", s=4)
        for cluster in model.clusters():
            low = cluster.centre - cluster.spread
            axis.add_patch(Rectangle(low, *(2 * cluster.spread), fill=False))
        axis.set(title=f"rho = {rho}: {len(model.clusters())} clusters", xlim=(0, 1), ylim=(0, 1), aspect="equal")
    figure.savefig(path, **INK)


def main() -> None:
    """Draw both into the folder that the command line names."""
    mpl.use("Agg")
    folder = Path(sys.argv[1])
    digits(folder / "sa_art.png")
    boxes(folder / "fuzzy_art.png")


if __name__ == "__main__":
    main()
