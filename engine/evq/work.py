"""Room that a step needs beside the model, made once for a batch."""

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray
from resonance.engine.base import FloatArray, IntArray
from resonance.engine.evq.model import Rules


class Work(NamedTuple):
    """Room for vectors and matrices of d, for samples of n_sub, and for kmax components."""

    v: FloatArray
    u: FloatArray
    scale: FloatArray
    upper: FloatArray
    square: FloatArray
    rows: FloatArray
    value: FloatArray
    direction: FloatArray
    best: FloatArray
    side: NDArray[np.bool_]
    p: FloatArray
    z: FloatArray
    prefix: FloatArray
    bound: IntArray
    gain: FloatArray
    where: IntArray
    share: FloatArray
    mean: FloatArray
    variance: FloatArray
    sums: FloatArray


def work_for(rules: Rules) -> Work:
    """Return room for the steps of a batch."""
    d, n, components = rules.d, rules.n_sub if rules.splits else 0, rules.kmax + 1
    return Work(
        v=np.empty(d),
        u=np.empty(d),
        scale=np.empty(d),
        upper=np.zeros((d, d)),
        square=np.empty((d, d)),
        rows=np.empty((d, d)),
        value=np.empty(d),
        direction=np.empty(d),
        best=np.empty(d),
        side=np.empty(n, dtype=np.bool_),
        p=np.empty(n),
        z=np.empty(n),
        prefix=np.empty(n + 1),
        bound=np.empty(components + 1, dtype=np.int64),
        gain=np.empty(components),
        where=np.empty(components, dtype=np.int64),
        share=np.empty(components),
        mean=np.empty(components),
        variance=np.empty(components),
        sums=np.empty((components, 3)),
    )
