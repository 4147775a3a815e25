"""The squared radius of a node by its number of records: a quantile of chi-square, widened for young nodes.

Taken in decimal arithmetic and rounded once: a library's gamma and power functions differ from machine to machine.
"""

from decimal import Decimal, localcontext
from functools import lru_cache

import numpy as np
from resonance.engine.base import FloatArray

GROWN = 800
"""Records after which the factor stays: 2 * 1.05^(1 - n) is below half a unit in the last place of 1 from 784 on."""

_ROOT_PI = Decimal("1.77245385090551602729816748334114518279754945612238712821380779")
_ENOUGH = Decimal(10) ** -30


def _below(y: Decimal, d: int, gamma: Decimal) -> tuple[Decimal, Decimal]:
    """Return the share of chi-square below 2 `y` and its derivative by `y`; `gamma` is Gamma(d / 2 + 1).

    The share is the lower incomplete gamma function of d / 2, by its power series.
    """
    a = Decimal(d) / 2
    scale = (a * y.ln() - y).exp() / gamma
    term = total = Decimal(1)
    step = a
    while term > total * _ENOUGH:
        step += 1
        term *= y / step
        total += term
    return scale * total, scale * a / y


@lru_cache(maxsize=64)
def chi_square_quantile(q: float, d: int) -> float:
    """Return what a share `q` of chi-square with `d` degrees of freedom lies below."""
    with localcontext() as context:
        context.prec = 50
        gamma = Decimal(1) if d % 2 == 0 else _ROOT_PI
        factor = Decimal(d) / 2
        while factor > 0:
            gamma *= factor
            factor -= 1
        wanted, low, high = Decimal(q), Decimal(0), Decimal(d)
        while _below(high, d, gamma)[0] < wanted:
            low, high = high, 2 * high
        y = (low + high) / 2
        # Newton's steps; one that leaves the bracket is a bisection instead.
        while high - low > high * _ENOUGH:
            share, slope = _below(y, d, gamma)
            if share < wanted:
                low = y
            else:
                high = y
            following = y + (wanted - share) / slope if slope else low
            if not low < following < high:
                following = (low + high) / 2
            if abs(following - y) <= y * _ENOUGH:
                break
            y = following
        return float(2 * y)


@lru_cache(maxsize=64)
def squared_radii(q: float, d: int, radius: str) -> FloatArray:
    """Return the squared radius of a node of n records in entry n - 1, n = 1..`GROWN`; more records change nothing.

    It is ``eps(n) X`` ("sq") or ``eps(n)^2 X`` ("sqrt") with ``eps(n) = 1 + 2 * 1.05^(1 - n)`` and X the quantile.
    """
    quantile = chi_square_quantile(q, d)
    with localcontext() as context:
        context.prec = 40
        shrinking = 1 / Decimal("1.05")
        factors = np.array([float(1 + 2 * shrinking**n) for n in range(GROWN)])
    radii: FloatArray = factors * quantile if radius == "sq" else factors * factors * quantile
    return radii
