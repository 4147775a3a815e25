"""What is odd is found in the streams of the field, and in files with labels."""

import numpy as np
import pytest

from bench import field


@pytest.mark.parametrize("name", ["narrow", "bursts"])
def test_what_is_odd_is_found_with_its_feature_also_when_it_is_back(name):
    line = field.judged(name, field.STREAMS[name](np.random.default_rng(1)), "modal")
    assert line.found == line.segments
    assert (line.precision, line.right) == (1.0, 1.0)
    assert line.auc > 0.99


@pytest.mark.parametrize("contestant", ["z-score", "IsolationForest"])
def test_files_with_labels_are_judged_alike(tmp_path, contestant):
    X = np.random.default_rng(0).normal(size=(2_500, 2))
    odd = np.arange(2_500) // 10 % 25 == 0
    X[odd, 1] += 20.0
    rows = [f"{a},{b},{int(is_odd)},x\n" for (a, b), is_odd in zip(X, odd, strict=True)]
    (tmp_path / "meter.csv").write_text("".join(["a,b,anomaly,site\n", *rows]))
    ((name, stream),) = field.of_folder(tmp_path, "anomaly")
    assert (name, stream.X.shape, stream.odd) == ("meter.csv", (2_500, 2), [(2_000, 2_010, -1), (2_250, 2_260, -1)])
    line = field.judged(name, stream, contestant)
    assert (line.segments, line.found, line.right) == (2, 2, None)
    assert line.auc > 0.9


@pytest.mark.parametrize("name", field.MIXED)
def test_kinds_with_categories_are_separated(name):
    lines = [next(iter(field.separated(name, field.MIXED[name](np.random.default_rng(seed))))) for seed in range(1, 5)]
    assert {line.contestant for line in lines} == {"modal"}
    assert np.mean([line.ari for line in lines]) > 0.95
