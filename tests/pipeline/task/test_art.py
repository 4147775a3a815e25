"""Fuzzy ART and SA-ART in a partition task: engines that are defined between 0 and 1."""

import orjson
import pytest
from resonance.pipeline.config.settings import Settings

from tests.pipeline.streams import TOPIC, points, records, run, task

COMMON = {
    "input.topics": [TOPIC],
    "input.features": ["cpu", "latency_ms", "net.in"],
    "prepare.warmup_records": 60,
    "stream": "partition",
}


@pytest.mark.parametrize("engine", ["fuzzy_art", "sa_art"])
def test_what_lies_outside_the_scale_of_the_warm_up_is_clipped(engine):
    rows = points(600)
    rows[300:310] *= 50.0
    rows[310:320] *= -50.0
    log, given = records(rows.tolist()), Settings.of(COMMON | {"engine.name": engine})
    outputs = run(task(given), log)
    answers = [orjson.loads(message.value) for message in outputs.assignments]
    assert len(answers) == 600
    assert not outputs.dead_letters
    assert all(answer["cluster"] for answer in answers[320:])
    assert run(task(given), log, 7) == outputs
