"""The bits of engines and preparation on fixed streams: ``python -m tests.engine.bits [NAME ...]`` prints hashes."""

import hashlib
import json
import sys

import numpy as np
from resonance.engine import CAEA, EVQ, HCAEA, ILDN, MLCA, MLCAC, MLCAI, SAART, FuzzyART, LabelEngine, Modal
from resonance.engine.prepare import REVISION, Preparation

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


def hashes(*names):
    """Return the hash of state and answers of some engines and of ``prepare``, else of all."""
    found = {}
    for name in names or (*CASES, "prepare"):
        if name == "prepare":
            found[f"{name} revision {REVISION}"] = prepared()
            continue
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


def prepared():
    """Return the hash of what records become: missing values, logarithms, robust scales, projections."""
    rng = np.random.default_rng(5)
    X = (rng.random((1000, 16)) - 0.4) / (rng.random((1000, 16)) + 1e-3)  # nothing that the CPU's features change
    X[::13, 3] = np.nan
    X[:, 5] = abs(X[:, 5])
    X[:, 7] = np.where(rng.random(1000) < 0.9, -0.0, 0.0)
    p = Preparation([str(i) for i in range(16)], missing="mean", log1p=["5"])
    p.hold(X[:200])
    parts = [p.freeze(), out := p.apply(X[200:]), *p.to_input_units(out[-1], abs(out[-2])), p.state()]
    X = rng.random((400, 5)) / (1.1 - rng.random((400, 5)))
    X = np.floor(X * [3, 9, 20, 10, 1e9]) / [1, 1, 10, 5, 1e9]
    p = Preparation(list("abcde"), robust=True)
    p.hold(X[:200])
    parts += [p.freeze(), p.apply(X[200:]), *p.to_input_units(np.ones(5), np.ones(5))]
    for held, d in ((160, 60), (70, 90)):
        X = rng.random((held + 100, d)) - rng.random((1, d)) * (rng.random((held + 100, 1)) < 0.4)
        for lengths in (1.0, np.sqrt((X * X).cumsum(axis=1)[:, -1:])):
            p = Preparation([str(i) for i in range(d)], warmup_records=held, project=16)
            rows = X / lengths
            p.hold(rows[:held])
            parts += [p.freeze(), p.apply(rows[held:]), p.state()]
            parts += p.to_input_units(np.arange(16.0), np.arange(16.0))
    digest = hashlib.sha256()
    for part in parts:
        digest.update(part if isinstance(part, bytes) else part.tobytes())
    return digest.hexdigest()


if __name__ == "__main__":
    json.dump(hashes(*sys.argv[1:]), sys.stdout, indent=1)
