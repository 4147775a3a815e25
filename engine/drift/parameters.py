"""The parameters of a watch, and what its kernels see of them."""

from collections.abc import Mapping
from typing import Any, NamedTuple

import numpy as np
from resonance.engine.arithmetic import log
from resonance.engine.drift.layout import channels_of
from resonance.engine.parameters import Parameter

PARAMETERS = (
    Parameter("rarity", float, 1e5, "records between two false alarms, at least, were they independent", 100.0, 1e15),
    Parameter("step", float, 0.5, "spreads of a unit by which a mean moves at least in a change", 0.1, 3.0),
    Parameter("hold", int, 500, "records that an episode lasts at least", 64, 1_000_000),
    Parameter("ordinary", int, 5, "returns after which all between a unit's places is ordinary", 1, 1_000_000),
    Parameter("cells", int, 32, "cells, at most", 0, 64),
)


class Rules(NamedTuple):
    """The parameters as the kernels see them."""

    d: int
    root: float
    """Square root of the number of features."""
    step: float
    theta: float
    """Shift that the thresholds of means are made for, in spreads."""
    theta_q: float
    """The same of absolute values."""
    hold: int
    ordinary: int
    threshold: float
    """Evidence beyond which there is a change, of records that are independent."""


def rules_from(given: Mapping[str, Any], dimension: int) -> Rules:
    """Return the rules of a watch of `dimension` features."""
    step = float(given["step"])
    theta = min(step, 0.6)
    channels = float(channels_of(dimension))
    return Rules(
        d=dimension,
        root=float(np.sqrt(float(dimension))),
        step=step,
        theta=theta,
        theta_q=0.6 * theta,
        hold=int(given["hold"]),
        ordinary=int(given["ordinary"]),
        threshold=float(log(float(given["rarity"]) * (8.0 * channels + 4.0))),
    )
