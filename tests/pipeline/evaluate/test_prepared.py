"""Sparse records as silhouette, k-means and the map see them."""

import numpy as np
import orjson
import pytest
from resonance.pipeline.config.settings import Settings
from resonance.pipeline.evaluate.dataset import read
from resonance.pipeline.evaluate.prepared import AXES, prepared
from resonance.pipeline.evaluate.source import FileSource
from resonance.pipeline.files.rows import Columns

from tests.pipeline.streams import TOPIC


def seen(path, records):
    path.write_bytes(b"\n".join(map(orjson.dumps, records)))
    own = {"prepare.scale": "given", "prepare.ranges": {"*": [0, 10]}}
    given = Settings.of({"input.topics": [TOPIC], "input.sparse": "words", "engine.name": "sa_art", **own})
    return prepared(read(given, FileSource(path, Columns(), TOPIC), None), given)


def test_records_have_length_1_and_those_that_cannot_be_used_no_place(tmp_path):
    records = [
        {"words": {"a": 3.0, "b": 4.0}},
        {"words": {"b": 2.0}},
        {"words": {}},
        {"words": {"a": "no number"}},
        {"words": {"indices": [7, 2**40], "values": [1.0, 0.0]}},
    ]
    none = [np.nan] * 4
    expected = [[0.6, 0.8, 0, 0], [0, 1, 0, 0], none, none, [0, 0, 1, 0]]
    assert seen(tmp_path / "texts.jsonl", records) == pytest.approx(np.array(expected), nan_ok=True)
    assert seen(tmp_path / "texts.jsonl", records[2:4]) is None


def test_many_features_become_few_axes_and_records_of_one_topic_stay_together(tmp_path):
    rng = np.random.default_rng(0)
    kinds = rng.integers(0, 2, 300)
    records = [{"words": dict.fromkeys((f"w{kind}{n}" for n in rng.integers(0, 50, 9)), 1.0)} for kind in kinds]
    rows = seen(tmp_path / "texts.jsonl", records)
    assert rows.shape == (300, AXES)
    near, are_same = rows @ rows.T, kinds[:, None] == kinds
    assert near[are_same].mean() > 20 * np.abs(near[~are_same]).mean()
    assert np.linalg.norm(rows, axis=1).max() <= 1 + 1e-9
