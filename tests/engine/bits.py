"""The bits that an engine gives on a fixed stream: ``python -m tests.engine.bits`` prints their hashes."""

import hashlib
import json
import sys

import numpy as np
from resonance.engine import CAEA, EVQ, HCAEA, ILDN, SAART, Engine, FuzzyART

from tests.engine.streams import shifting

CASES: dict[str, type[Engine]] = {
    "caea": CAEA,
    "hcaea": HCAEA,
    "fuzzy_art": FuzzyART,
    "sa_art": SAART,
    "ildn": ILDN,
    "evq": EVQ,
}


def hashes() -> dict[str, str]:
    """Return the hash of state and answers of each engine."""
    found = {}
    for name, engine in CASES.items():
        model = engine.make({})
        X = shifting(2500, d=5)
        step = model.learn(np.clip(X, 0.0, 1.0) if engine.unit_interval else X)
        digest = hashlib.sha256(model.state())
        for array in (step.cluster, step.score, step.novel, step.path):
            digest.update(array.tobytes())
        found[f"{name} revision {engine.revision}"] = digest.hexdigest()
    return found


if __name__ == "__main__":
    json.dump(hashes(), sys.stdout, indent=1)
