"""The parameters of the eVQ family, declared once, and what the kernels get of them."""

from decimal import Decimal, localcontext
from functools import lru_cache
from typing import Any

import numpy as np
from resonance.engine.errors import ParameterError
from resonance.engine.evq.layout import NARROWEST, Rules
from resonance.engine.parameters import MAX as _MAX
from resonance.engine.parameters import Parameter, filled

MODES = ("evq-ams", "evq-am", "evq-a", "evq")

PARAMETERS = (
    Parameter(
        "mode",
        str,
        "evq-ams",
        "the algorithm: evq-ams, evq-am, evq-a or evq",
        choices=MODES,
    ),
    Parameter(
        "ranges",
        str,
        None,
        "ranges of features: low to high (given, where both are set), or those seen so far (running)",
        choices=("given", "running"),
        optional=True,
    ),
    Parameter("low", float, None, "lowest value that features have", -1e100, 1e100, optional=True),
    Parameter("high", float, None, "highest value that features have", -1e100, 1e100, optional=True),
    Parameter("warmup", int, 20, "records held back at first, with running ranges", 1, 10_000),
    Parameter("vig", float, 0.24, "threshold of evq, in sqrt(d/2) ranges", 1e-6, 1),
    Parameter("fac", float, 4.0, "radius of the ellipsoids", 1e-6, 1e6),
    Parameter("pexp", float, 0.5, "exponent of d/2 in the radius", 0, 10),
    Parameter("m", float, 4.0, "how much wider a young cluster is", 0, 100),
    Parameter("sig0", float, 0.1, "standard deviation of a new cluster, by the range", 1e-6, 1),
    Parameter(
        "init",
        str,
        None,
        "covariance of a new cluster: from the range, where given, or the mean of the others",
        choices=("range", "mean"),
        optional=True,
    ),
    Parameter("kap", float, 2.5, "widening of that mean", 0, 1000, open_low=True),
    Parameter("frac", float, 100.0, "range over the least deviation of such a cluster", 0, 1e6, open_low=True),
    Parameter("check_every", int, 10, "records of a cluster between checks for merges and splits", 1, _MAX),
    Parameter("thr", float, 0.0, "overlap above which two clusters may merge", -100, 1, open_high=True),
    Parameter("volp", float, 1.0, "for each feature, union over sum of the volumes up to which they do", 1e-100, 1e6),
    Parameter("n_sub", int, 300, "records of a cluster kept for the split test", 4, 2000),
    Parameter("min_sub", int, 50, "kept records from which on a split is tried", 4, 2000),
    Parameter("kmax", int, 4, "most modes that a split test finds", 2, 8),
    Parameter("pcs", bool, True, "splits also along principal axes"),
    Parameter("crit", float, 2.57, "separation of modes at which a cluster is split", 0, 1e6, open_low=True),
    Parameter("margin", float, 10.0, "BIC that several modes must gain over one", 0, 1e6),
    Parameter(
        "loglik", str, "mix", "likelihood in BIC: of the mixture (mix), or the likeliest mode (class)",
        choices=("mix", "class"),
    ),
    Parameter("em_iter", int, 100, "most steps of EM", 1, 10_000),
    Parameter("em_tol", float, 1e-5, "change of a record's log-likelihood that ends EM", 0, 1),
    Parameter("refresh", int, 100, "records between two inversions of a covariance", 1, _MAX),
    Parameter("max_clusters", int, 256, "most clusters; beyond it the longest idle one goes", 2, 10**4),
    Parameter("seed", int, 1, "seed of the kept samples", 0, 2**64 - 1),
    Parameter(
        "consolidate_every", int, None, "records between searches for merges among all clusters", 1, _MAX,
        optional=True,
    ),
)  # fmt: skip
PAPER = {"pexp": 0.7071067811865476, "kmax": 2, "pcs": False, "min_sub": 30, "margin": 0.0}


def check_together(given: dict[str, Any]) -> None:
    """Raise `ParameterError` where parameters do not fit each other."""
    if given["min_sub"] > given["n_sub"]:
        raise ParameterError("min_sub", given["min_sub"], f"at most n_sub = {given['n_sub']}")
    low, high = given["low"], given["high"]
    if (low is None) != (high is None):
        missing = "low" if low is None else "high"
        raise ParameterError(missing, None, "given too: a range has two ends")
    if low is not None and not high - low > NARROWEST:
        raise ParameterError("high", high, f"above low = {low}")
    if given["ranges"] == "given" and low is None:
        raise ParameterError("ranges", "given", "with low and high, or running")
    if given["ranges"] == "running" and low is not None:
        raise ParameterError("ranges", "running", "without low and high, or given")


@lru_cache(maxsize=256)
def _wide(fac: float, d: int, pexp: float) -> float:
    """Return ``fac * (d/2)^pexp``, in decimal arithmetic: a library's power differs from machine to machine."""
    with localcontext() as context:
        context.prec = 40
        return float(Decimal(fac) * (Decimal(d) / 2) ** Decimal(pexp))


def rules_from(given: dict[str, Any], d: int) -> Rules:
    """Return checked parameters as the kernels see them."""
    mode, running = given["mode"], given["low"] is None
    euclidean = mode == "evq"
    return filled(
        Rules,
        given,
        d=d,
        euclidean=euclidean,
        merges=mode in ("evq-am", "evq-ams"),
        splits=mode == "evq-ams",
        running=running,
        wide=_wide(given["vig"], d, 0.5) if euclidean else _wide(given["fac"], d, given["pexp"]),
        mean=given["init"] == "mean" or (given["init"] is None and running),
        by_class=given["loglik"] == "class",
        consolidate_every=given["consolidate_every"] or 0,
        seed=np.uint64(given["seed"]),
    )
