"""The bits that an engine gives on a fixed stream: ``python -m tests.engine.bits`` prints their hashes."""

import hashlib
import json
import sys

from resonance.engine import CAEA, HCAEA, Engine

from tests.engine.streams import shifting

CASES: dict[str, type[Engine]] = {"caea": CAEA, "hcaea": HCAEA}


def hashes() -> dict[str, str]:
    """Return the hash of state and answers of each engine."""
    found = {}
    for name, engine in CASES.items():
        model = engine.make({})
        step = model.learn(shifting(2500, d=5))
        digest = hashlib.sha256(model.state())
        for array in (step.cluster, step.score, step.novel, step.path):
            digest.update(array.tobytes())
        found[f"{name} revision {engine.revision}"] = digest.hexdigest()
    return found


if __name__ == "__main__":
    json.dump(hashes(), sys.stdout, indent=1)
