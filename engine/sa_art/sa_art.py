"""SA-ART: Fuzzy ART that weighs features by their salience, for sparse data."""

from typing import Any, ClassVar

from resonance.engine.parameters import Parameter, filled
from resonance.engine.sa_art.layout import Rules
from resonance.engine.sa_art.model import SHARED, AdaptiveResonance

FLOOR = 1e-12
"""Weights decay without ever reaching 0: a smaller overlap is none."""


class SAART(AdaptiveResonance):
    """Salience-aware adaptive resonance.

    Every cluster weighs the features by how often its records have them and how steady their values are. Choice and
    match count salient features more; the template follows, feature by feature, values that are near the cluster's
    mean and lets others fade; and each cluster has a vigilance of its own, which rises when it resonates and falls
    when it is tried and rejected. Only the non-zero entries of a record, and the features of the cluster that learns
    it, cost time.

    Notes
    -----
    Defined on [0, 1]: a value outside it is refused. A record of zeros has, without complement coding, nothing in
    common with anything: it is answered with no cluster and not learned. A category with which a record has nothing
    in common is not tried, so its vigilance stays; a rejected one cannot be accepted after its vigilance has fallen;
    no vigilance exceeds 1; equation (5) has its limit where it is 0/0.

    References
    ----------
    L. Meng, A.-H. Tan, C. Miao, "Salience-aware adaptive resonance theory for large-scale sparse data clustering",
    Neural Networks 120, 2019. Algorithm 1, equations (4)-(14).

    Examples
    --------
    >>> import numpy as np
    >>> from resonance.engine import SAART
    >>> rng = np.random.default_rng(0)
    >>> X = (rng.random((600, 30)) < 0.7) * np.repeat(np.eye(3), 10, axis=1)[np.arange(600) % 3]
    >>> model = SAART()
    >>> step = model.learn(X)
    >>> sorted({feature.feature // 10 for feature in model.clusters()[0].salient})
    [0]
    """

    name: ClassVar[str] = "sa_art"
    revision: ClassVar[int] = 1
    parameters: ClassVar[tuple[Parameter, ...]] = (
        Parameter("rho0", float, 0.7, "vigilance of a new cluster", 0, 1, open_low=True),
        Parameter("lambda", float, 0.5, "weight of the frequency in a feature's salience", 0, 1),
        Parameter("delta", float, 0.01, "step of a cluster's vigilance; 0 leaves it at rho0", 0, 1, open_high=True),
        Parameter("complement", bool, False, "codes records as [x, 1 - x]: absence counts, too"),
        *SHARED,
    )
    presets: ClassVar[dict[str, dict[str, Any]]] = {"paper": {"lambda": 0.9, "delta": 0.1, "complement": True}}

    def _rules(self) -> Rules:
        given = self._given
        return filled(
            Rules,
            given,
            salient=True,
            rho=given["rho0"],
            lambda_=given["lambda"],
            beta=0.0,
            floor=FLOOR,
            fixed=True,
        )
