"""The bits that an engine gives on a fixed stream: ``python -m tests.engine.bits [ENGINE ...]`` prints hashes."""

import hashlib
import json
import sys

import numpy as np
from resonance.engine import CAEA, EVQ, HCAEA, ILDN, MLCA, MLCAC, MLCAI, SAART, FuzzyART, LabelEngine, Modal

from tests.engine.streams import shifting

CASES = {
    "modal": Modal,
    "caea": CAEA,
    "hcaea": HCAEA,
    "fuzzy_art": FuzzyART,
    "sa_art": SAART,
    "mlca": MLCA,
    "mlca_i": MLCAI,
    "mlca_c": MLCAC,
    "ildn": ILDN,
    "evq": EVQ,
}


def hashes(names=tuple(CASES)):
    """Return the hash of state and answers of some engines."""
    found = {}
    for name in names:
        engine = CASES[name]
        model = engine.make({})
        X = shifting(2500, d=5)
        # Every fourth record of an engine that learns from labels has none.
        classes = [int(4 * x[0]) % 3 if x[1] < 0.7 else -1 for x in X] if isinstance(model, LabelEngine) else None
        step = model.learn(np.clip(X, 0.0, 1.0) if engine.unit_interval else X, classes)
        digest = hashlib.sha256(model.state())
        for array in (step.cluster, step.score, step.novel, step.path):
            digest.update(array.tobytes())
        if step.labels is not None:
            digest.update(step.labels.probabilities.tobytes())
        found[f"{name} revision {engine.revision}"] = digest.hexdigest()
    return found


if __name__ == "__main__":
    json.dump(hashes(sys.argv[1:] or CASES), sys.stdout, indent=1)
