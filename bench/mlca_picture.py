"""Picture of the documentation: ``python -m bench.mlca_picture docs/engines`` draws ``mlca.png``.

Three overlapping discs, learned one after the other; after each, the labels that MLCA predicts over the plane.
"""

import sys
from pathlib import Path

import matplotlib as mpl
import numpy as np
from matplotlib import pyplot as plt
from matplotlib.patches import Circle
from resonance.engine import MLCA

from bench.mlca import CENTRES, RADIUS, RECORDS, inside, region

SIDE = 200
NAMES = np.array(["A", "B", "C"])
INKS = np.array([[0.85, 0.35, 0.3], [0.3, 0.5, 0.85], [0.95, 0.75, 0.2]])
"""Colours of the labels; where several are predicted, their mean."""


def main() -> None:
    """Draw it into the folder that the command line names."""
    mpl.use("Agg")
    rng = np.random.default_rng(0)
    across, up = np.meshgrid(np.linspace(0, 1, SIDE), np.linspace(0, 1, SIDE))
    plane = np.column_stack([across.ravel(), up.ravel()])
    model = MLCA(vigilance=0.1)
    figure, axes = plt.subplots(1, 3, figsize=(9.5, 3.4), layout="constrained")
    for number, axis in enumerate(axes):
        X = region(number, RECORDS, rng)
        model.learn(X, [NAMES[row == 1].tolist() for row in inside(X)])
        answer = model.predict(plane)
        assert answer.labels is not None
        chosen = np.zeros((len(plane), len(NAMES)))
        for column, label in enumerate(answer.labels.labels):
            chosen[:, NAMES.tolist().index(str(label))] = answer.labels.probabilities[:, column] > 0.5
        # Where no node is near nothing is shown: a probability is given there, too.
        chosen[answer.cluster[:, 0] < 0] = 0
        count = chosen.sum(axis=1, keepdims=True)
        ink = np.where(count > 0, chosen @ INKS / np.maximum(count, 1), 1.0)
        axis.imshow(ink.reshape(SIDE, SIDE, 3), origin="lower", extent=(0, 1, 0, 1), interpolation="nearest")
        for name, centre in zip(NAMES, CENTRES, strict=True):
            axis.add_patch(Circle(tuple(centre), RADIUS, fill=False))
            axis.annotate(name, centre + 0.62 * RADIUS * np.sign(centre - CENTRES.mean(axis=0)), ha="center")
        axis.set(title=f"after {NAMES[number]}: {len(model.clusters())} nodes", xticks=[], yticks=[])
    figure.savefig(Path(sys.argv[1]) / "mlca.png", dpi=80, metadata={"Software": None})


if __name__ == "__main__":
    main()
