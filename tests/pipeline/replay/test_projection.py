"""What was answered of projected records is verified from the archive, and from the beginning."""

import numpy as np
import orjson
from resonance.pipeline.records import Message

from tests.pipeline.memory_deployment import MemoryDeployment
from tests.pipeline.streams import STAMP, TOPIC


def test_a_replay_says_the_same(monkeypatch):
    changed = {"input__features": None, "input__dimension": 40, "prepare__warmup_records": 100}
    deployment = MemoryDeployment(monkeypatch, records=0, stream="partition", **changed)
    rng = np.random.default_rng(3)
    rows = rng.normal(size=(4, 40))[rng.integers(4, size=600)] + 0.3 * rng.normal(size=(600, 40))
    for i, row in enumerate(rows.tolist()):
        value = orjson.dumps({"features": row})
        deployment.append((TOPIC, 0), Message(None, value, []), timestamp=STAMP + 1_000 * i)
    # The first part ends in the middle of the warm-up.
    for until in (50, 300):
        deployment.work(until, archive=True, everything=True)
    deployment.work(600, everything=True)
    (part,) = deployment.verify().parts
    assert (part.records, part.assignments, part.difference) == (600, 600, None)
    (later,) = deployment.verify(begin="320").parts
    assert later.start.startswith("from the archive at offset 300")
    assert later.difference is None
    warming, *_ = deployment.verify(begin="60").parts
    assert warming.start.startswith("from the archive at offset 50")
    assert warming.difference is None
    assert len(orjson.loads(deployment.recorded("cluster_events")[-1].value)["after"][0]["centre"]) == 40
