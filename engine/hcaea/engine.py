"""HCAEA: a tree of CAEA models, each node's records divided further by a model of their own."""

from collections.abc import Sequence
from dataclasses import replace
from typing import Any, ClassVar

import numpy as np
from numpy.typing import ArrayLike, NDArray
from resonance.engine.base import Prediction, Step, check_batch
from resonance.engine.caea.block import CHILD, ID, K
from resonance.engine.caea.engine import fields_of, nodes_of
from resonance.engine.caea.reading import CRITERIA
from resonance.engine.events import events_from
from resonance.engine.hcaea.batch import learn_batch, predict_clusters, predict_labels
from resonance.engine.hcaea.memory import ROOT
from resonance.engine.hcaea.model_tree import RootedTree
from resonance.engine.labels import majority_label
from resonance.engine.shell import filled_by_kernels, no_answers, no_prediction


class HCAEA(RootedTree):
    """Hierarchical divisive clustering: a CAEA whose nodes have CAEA models of their own.

    A record is learned by the root, then by the child model of the node it was given to, and so on; the tree is the
    one that the paper's layer-by-layer training gives, but built online. A node that is removed takes its subtree
    with it, and its last records go to its neighbours.

    Notes
    -----
    A child model with 2 nodes or fewer is not valid: it goes on learning, and its parent's node counts as a leaf.
    Every model reads its own clusters; `Step.cluster` has one for each level of a record's path. With
    ``reading="valley"`` what is one blob has no clusters within it: a model below the root has two of them or none.

    References
    ----------
    N. Masuyama, N. Amako, Y. Yamada, Y. Nojima, H. Ishibuchi, "Adaptive resonance theory-based topological
    clustering with a divisive hierarchical structure capable of continual learning", IEEE Access, 2022.
    Algorithm 2.

    Examples
    --------
    >>> import numpy as np
    >>> from resonance.engine import HCAEA
    >>> rng = np.random.default_rng(0)
    >>> X = rng.normal(size=(1000, 2)) * 0.05 + rng.integers(0, 3, size=(1000, 1))
    >>> step = HCAEA().learn(X)
    >>> step.path.shape
    (1000, 3)
    """

    name: ClassVar[str] = "hcaea"

    def learn(self, X: ArrayLike, labels: Sequence[int] | NDArray[np.int64] | None = None) -> Step:  # noqa: D102
        batch, marks = self._received(X, labels)
        step = no_answers(len(batch), self.depth)
        if not len(batch):
            return step
        learn_batch(*self._memory, self._rules, self._factors, batch, marks, self._log, *filled_by_kernels(step))
        return replace(step, events=events_from(self._log, self.dimension, CRITERIA))

    def arrays(self) -> dict[str, NDArray[Any]]:
        """Return the leaves of the tree, depth first in node order; nothing before the first record.

        Returns
        -------
        dict
            ``path`` (L, depth; padded with -1), ``weight`` (L, d), ``sigma``, ``count`` and ``label`` (L,; the
            majority, -1 for none or a tie), ``labels`` (L, classes).
        """
        if not self.dimension:
            return {}
        rows: list[tuple[int, int, tuple[int, ...]]] = []
        self._find_leaves(ROOT, (), rows)
        memory = self.dimension, self._classes
        models = {m: nodes_of(self._floats[m], self._integers[m], *memory) for m in {m for m, _, _ in rows}}

        def column(name: str, *width: int) -> NDArray[Any]:
            return np.array([models[m][name][at] for m, at, _ in rows]).reshape(len(rows), *width)

        labels = column("labels", self._classes).astype(np.int64)
        paths = [path + (-1,) * (self.depth - len(path)) for _, _, path in rows]
        return {
            "path": np.array(paths, dtype=np.int64).reshape(len(rows), self.depth),
            "weight": column("weight", self.dimension),
            "sigma": column("sigma"),
            "count": column("count").astype(np.int64),
            "labels": labels,
            "label": np.array([majority_label(row) for row in labels], dtype=np.int64),
        }

    def _find_leaves(self, m: int, path: tuple[int, ...], rows: list[tuple[int, int, tuple[int, ...]]]) -> None:
        """Append model, position and path of each leaf at and below a model."""
        fields = fields_of(self._integers[m])
        for at, (name, child) in enumerate(zip(fields[ID].tolist(), fields[CHILD].tolist(), strict=True)):
            if child >= 0 and self._integers[child][K] > 2:
                self._find_leaves(child, (*path, name), rows)
            else:
                rows.append((m, at, (*path, name)))

    def predict(self, X: ArrayLike) -> Prediction:  # noqa: D102
        batch = check_batch(X, self.dimension)
        count = len(batch)
        answer = no_prediction(count, self.depth)
        if self.dimension and count:
            predict_clusters(self._indexes, self._rules, batch, answer.cluster, answer.score)
            # All leaves are described for their labels alone.
            leaves = self.arrays() if self._classes else None
            if leaves and (total := len(leaves["sigma"])):
                stride = (total + 7) // 8 * 8
                weights = np.zeros((self.dimension, stride))
                weights[:, :total] = leaves["weight"].T
                predict_labels(weights.ravel(), stride, total, leaves["sigma"], leaves["label"], batch, answer.label)
        return answer
