"""Fuzzy ART and SA-ART in a partition task: engines that are defined between 0 and 1."""

import orjson
import pytest

from tests.pipeline.streams import points, records, run, settings, task


@pytest.mark.parametrize("engine", ["fuzzy_art", "sa_art"])
def test_what_lies_outside_the_scale_of_the_warm_up_is_clipped(engine):
    rows = points(600)
    rows[300:310] *= 50.0
    rows[310:320] *= -50.0
    log = records(rows.tolist())
    given = settings(engine__name=engine, engine__lambda=None, engine__min_cluster_records=None)
    outputs = run(task(given), log)
    answers = [orjson.loads(message.value) for message in outputs.assignments]
    assert len(answers) == 600
    assert not outputs.dead_letters
    assert all(answer["cluster"] for answer in answers[320:])
    assert run(task(given), log, 7) == outputs
