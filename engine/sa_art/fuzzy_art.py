"""Fuzzy ART: categories that are boxes, joined by fuzzy intersection."""

from typing import Any, ClassVar

from resonance.engine.parameters import Parameter, filled
from resonance.engine.sa_art.layout import Rules
from resonance.engine.sa_art.model import SHARED, AdaptiveResonance


class FuzzyART(AdaptiveResonance):
    """Adaptive resonance by fuzzy intersection.

    A record takes the category whose template it shares most with, in the order of the choice
    ``|min(I, w)| / (alpha + |w|)``, provided that the shared part is at least `rho` of the record; else it founds a
    category of its own. The template moves towards the shared part and so only ever becomes smaller.

    Notes
    -----
    Defined on [0, 1]: a value outside it is refused. A record of zeros has, without complement coding, nothing in
    common with anything: it is answered with no cluster and not learned.

    References
    ----------
    G. A. Carpenter, S. Grossberg, D. B. Rosen, "Fuzzy ART: Fast stable learning and categorization of analog
    patterns by an adaptive resonance system", Neural Networks 4, 1991.

    Examples
    --------
    >>> import numpy as np
    >>> from resonance.engine import FuzzyART
    >>> rng = np.random.default_rng(0)
    >>> X = np.clip(rng.normal(size=(1000, 2)) * 0.02 + rng.integers(1, 4, size=(1000, 1)) / 4, 0, 1)
    >>> model = FuzzyART(rho=0.8)
    >>> step = model.learn(X)
    >>> len(model.clusters())
    3
    """

    name: ClassVar[str] = "fuzzy_art"
    revision: ClassVar[int] = 1
    parameters: ClassVar[tuple[Parameter, ...]] = (
        Parameter("rho", float, 0.7, "vigilance: share of a record that its cluster must have", 0, 1, open_low=True),
        Parameter("beta", float, 0.1, "learning rate; 1 is fast learning", 0, 1, open_low=True),
        Parameter("complement", bool, True, "codes records as [x, 1 - x]: absence counts, too"),
        *SHARED,
    )
    presets: ClassVar[dict[str, dict[str, Any]]] = {"paper": {"rho": 0.6, "beta": 0.6}}

    def _rules(self) -> Rules:
        return filled(Rules, self._given, salient=False, delta=0.0, lambda_=0.0, floor=0.0, fixed=True)
