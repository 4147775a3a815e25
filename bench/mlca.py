"""How well the MLCA family labels records, beside nearest neighbours, and what it keeps when labels come in turn.

Emotions: 593 songs, 72 attributes, 6 labels; two times ten-fold cross-validation. Three regions: overlapping discs in
the plane; a record has the label of every disc that it lies in.
"""

from collections.abc import Callable, Iterator
from dataclasses import astuple, dataclass, fields

import numpy as np
from numpy.typing import NDArray
from resonance.engine import ENGINES
from sklearn.metrics import (
    accuracy_score,
    coverage_error,
    f1_score,
    hamming_loss,
    label_ranking_loss,
    roc_auc_score,
)
from sklearn.model_selection import RepeatedKFold
from sklearn.neighbors import KNeighborsClassifier

from bench.report import Row, arguments, show
from bench.streams import DATA

Array = NDArray[np.float64]

FOLDS, REPEATS = 10, 2
NEIGHBOURS = 10
FORMS = ("mlca", "mlca_i", "mlca_c")
VIGILANCES = (0.01, 0.3)

CENTRES = np.array([[0.35, 0.35], [0.65, 0.35], [0.5, 0.65]])
RADIUS = 0.3
RECORDS, TESTED = 10_000, 3_000
"""Records of each region that are learned, and that are asked about."""
PAPER = {"in order": 0.909, "at once": 0.972}
"""Exact match after the third region, as the paper has it, on regions of its own."""


@dataclass(frozen=True, slots=True)
class Quality:
    """What is measured of probabilities; F1 and the area under the curve are means over the labels."""

    exact_match: float
    macro_f1: float
    macro_auc: float
    hamming_loss: float
    ranking_loss: float
    coverage: float

    @classmethod
    def of(cls, Y: NDArray[np.int64], probabilities: Array) -> "Quality":
        """Compare with the labels that records have; coverage counts from 0."""
        predicted = probabilities > 0.5
        return cls(
            accuracy_score(Y, predicted),
            f1_score(Y, predicted, average="macro", zero_division=0.0),
            roc_auc_score(Y, probabilities, average="macro"),
            hamming_loss(Y, predicted),
            label_ranking_loss(Y, probabilities),
            coverage_error(Y, probabilities) - 1.0,
        )


Learner = Callable[[Array, NDArray[np.int64], Array], Array]
"""From records, their labels and other records to the probabilities of those."""


def by_engine(name: str, vigilance: float) -> Learner:
    """Return one of the family, with the paper's warm-up."""

    def learn(X: Array, Y: NDArray[np.int64], asked: Array) -> Array:
        model = ENGINES[name].make({"vigilance": vigilance, "warmup": "buffer"})
        return probabilities(model, X, Y, asked)

    return learn


def probabilities(model: object, X: Array, Y: NDArray[np.int64], asked: Array) -> Array:
    """Learn records in order; return the probabilities of others, labels in the order of the columns of `Y`."""
    model.learn(X, [np.flatnonzero(row).tolist() for row in Y])  # type: ignore[attr-defined]
    answer = model.predict(asked).labels  # type: ignore[attr-defined]
    found = np.zeros((len(asked), Y.shape[1]))
    found[:, list(answer.labels)] = answer.probabilities
    return found


def by_neighbours(X: Array, Y: NDArray[np.int64], asked: Array) -> Array:
    """Return the shares of each label among the nearest neighbours."""
    found = KNeighborsClassifier(NEIGHBOURS).fit(X, Y).predict_proba(asked)
    return np.stack([each[:, 1] for each in found], axis=1)


def emotions() -> tuple[Array, NDArray[np.int64]] | None:
    """Return attributes and labels; None where the file is not on this machine."""
    path = DATA.parent / "conformance" / "mlca" / "emotions.npz"
    if not path.exists():
        return None
    with np.load(path, allow_pickle=False) as found:
        return found["X"], found["Y"].astype(np.int64)


def validated(X: Array, Y: NDArray[np.int64], learner: Learner, scaled: bool) -> Quality:
    """Return the mean over all folds; `scaled` to [0, 1] by the records learned."""
    found = []
    for learned, asked in RepeatedKFold(n_splits=FOLDS, n_repeats=REPEATS, random_state=0).split(X):
        low, width = X[learned].min(axis=0), np.ptp(X[learned], axis=0)
        fold = (X - low) / np.where(width > 0, width, 1.0) if scaled else X
        found.append(astuple(Quality.of(Y[asked], learner(fold[learned], Y[learned], fold[asked]))))
    return Quality(*np.mean(found, axis=0).tolist())


def on_emotions() -> Iterator[Row]:
    """Measure every form beside nearest neighbours; attributes as they are, and scaled."""
    data = emotions()
    if data is None:
        return
    for kind, scaled in (("raw", False), ("scaled", True)):
        neighbours = validated(*data, by_neighbours, scaled)
        for name in FORMS:
            for vigilance in VIGILANCES:
                ours = validated(*data, by_engine(name, vigilance), scaled)
                for each in fields(Quality):
                    yield Row(
                        f"{name} V={vigilance:g} emotions {kind}",
                        each.name.replace("_", " "),
                        getattr(ours, each.name),
                        f"{NEIGHBOURS} neighbours",
                        getattr(neighbours, each.name),
                    )


def inside(X: Array) -> NDArray[np.int64]:
    """Return which discs records lie in."""
    apart = ((X[:, None, :] - CENTRES) ** 2).sum(axis=2)
    return (apart <= RADIUS**2).astype(np.int64)


def region(number: int, count: int, rng: np.random.Generator) -> Array:
    """Return records that are uniform in one disc."""
    square = CENTRES[number] + rng.uniform(-RADIUS, RADIUS, size=(2 * count, 2))
    return square[inside(square)[:, number] == 1][:count]


def on_regions() -> Iterator[Row]:
    """Measure exact match after all regions were learned, one after the other and mixed."""
    rng = np.random.default_rng(0)
    X = np.concatenate([region(number, RECORDS, rng) for number in range(len(CENTRES))])
    asked = np.concatenate([region(number, TESTED, rng) for number in range(len(CENTRES))])
    mixed = rng.permutation(len(X))
    for name in FORMS:
        for vigilance in (0.1, 0.3):
            for order, records in (("in order", X), ("at once", X[mixed])):
                model = ENGINES[name].make({"vigilance": vigilance, "warmup": "buffer"})
                right = (probabilities(model, records, inside(records), asked) > 0.5) == inside(asked)
                case = f"{name} V={vigilance:g} three regions {order}, {len(model.clusters())} nodes"
                yield Row(case, "exact match", float(right.all(axis=1).mean()), "paper", PAPER[order])


def main() -> None:
    """Run the benchmark."""
    given = arguments("How well the MLCA family labels records, on Emotions and on three regions.").parse_args()
    show(
        f"MLCA: {REPEATS} x {FOLDS}-fold, and label-incremental learning",
        [*on_emotions(), *on_regions()],
        given.json,
        "F1 and AUC are means over labels (macro); of losses and coverage, which counts from 0, less is better.",
    )


if __name__ == "__main__":
    main()
