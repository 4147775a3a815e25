"""A file of records with true kinds."""

import numpy as np
import orjson

FEATURES = ["cpu", "latency_ms", "net.in"]
GIVEN = ["--topics", "machines", "--set", 'input.features=["cpu","latency_ms","net.in"]']
SMALL = ["--set", "prepare.warmup_records=60"]


def lines(count=1_200, seed=0):
    """Three kinds, of which the third comes with row 600."""
    rng = np.random.default_rng(seed)
    centres = np.array([[0.1, 100.0, 2.0], [0.6, 300.0, 2.0], [0.9, 20.0, 9.0]])
    for row in range(count):
        kind = int(rng.integers(2 if row < 600 else 3))
        cpu, latency, inward = (centres[kind] + rng.normal(size=3) * [0.02, 8.0, 0.2]).tolist()
        yield {"cpu": cpu, "latency_ms": latency, "net": {"in": inward}, "kind": f"k{kind}"}


def write(path, **changes):
    path.write_bytes(b"".join(orjson.dumps(line) + b"\n" for line in lines(**changes)))
    return path
