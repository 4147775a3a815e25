"""What every candidate is compared with: one cluster for all records, and k-means that knows how many there are."""

from typing import Final

import numpy as np
from numpy.typing import NDArray
from resonance.pipeline.evaluate.figures import pseudo_run
from resonance.pipeline.evaluate.run import NO_ANSWER, Run
from sklearn.cluster import KMeans

ONE, K_MEANS = "one cluster", "k-means, k = {:,}"

FITTED: Final = 20_000
"""Most records of the first half that k-means is fitted on."""

MOST_CLUSTERS: Final = 500
"""Most clusters that k-means is fitted with."""


def baselines(rows: NDArray[np.float64] | None, k: int, like: Run) -> dict[str, Run]:
    """Return the runs of the baselines by name, of the records that a run answered.

    `rows` are the prepared features, of which k-means sees the first half before it assigns all.
    """
    answered = like.cluster != NO_ANSWER
    one = np.where(answered, 0, NO_ANSWER).astype(np.int32)
    found = {ONE: pseudo_run(one, ["all"], like)}
    if rows is None:
        return found
    usable = np.flatnonzero(answered & ~np.isnan(rows).any(axis=1))
    half = usable[usable < len(rows) // 2]
    sample = half[:: -(-max(len(half), 1) // FITTED)]
    if 1 <= k <= min(MOST_CLUSTERS, len(sample)):
        model = KMeans(k, n_init=3, random_state=0).fit(rows[sample])
        cluster = one.copy()
        cluster[usable] = model.predict(rows[usable])
        found[K_MEANS.format(k)] = pseudo_run(cluster, [str(number) for number in range(k)], like)
    return found
