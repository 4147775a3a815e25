"""Figures of predicted labels: those that scikit-learn finds in the files of replay."""

import numpy as np
import orjson
import pytest
from sklearn import metrics
from sklearn.preprocessing import MultiLabelBinarizer

from tests.pipeline.commands import run
from tests.pipeline.labels.feedback import TAUGHT, rows

COUNT, WINDOW = 1_200, 60
OWN = {name.replace("__", "."): value for name, value in TAUGHT.items() if name != "input__topics"}
GIVEN = [
    "--topics",
    "songs",
    *(f"--set={name}={value}" for name, value in OWN.items()),
    "--set=input.label_path=labels",
]


def labels_of(number, row):
    """The labels of a row: right, above, both or neither; a third one from the middle on."""
    high = [*(value > 0.5 for value in row), number >= COUNT // 2 and sum(row) > 1.2]
    return [label for label, has in zip(("right", "above", "late"), high, strict=True) if has]


@pytest.fixture
def truth(tmp_path, monkeypatch):
    """Write the records, of which some have no labels, and return what each has."""
    monkeypatch.chdir(tmp_path)
    found = [None if i % 7 == 0 else labels_of(i, row) for i, row in enumerate(rows(COUNT))]
    lines = [
        {"id": f"r{i}", "x": row, "labels": own} for i, (row, own) in enumerate(zip(rows(COUNT), found, strict=True))
    ]
    lines = [{name: value for name, value in line.items() if value is not None} for line in lines]
    (tmp_path / "songs.jsonl").write_bytes(b"\n".join(map(orjson.dumps, lines)))
    return found


def figures(true, predicted, names):
    """Return what scikit-learn finds for records that have both; the macro mean is of the labels that they have."""
    both = [(own, guess) for own, guess in zip(true, predicted, strict=True) if own is not None and guess is not None]
    if not both:
        return dict.fromkeys(("f1_micro", "f1_macro", "hamming", "exact"))
    binary = MultiLabelBinarizer(classes=names)
    expected, found = (binary.fit_transform(column) for column in zip(*both, strict=True))
    present = (expected | found).any(axis=0)
    return {
        "f1_micro": metrics.f1_score(expected, found, average="micro"),
        "f1_macro": metrics.f1_score(expected[:, present], found[:, present], average="macro"),
        "hamming": metrics.hamming_loss(expected, found),
        "exact": np.mean([set(own) == set(guess) for own, guess in both]),
    }


def test_labels_are_measured_as_an_independent_computation_from_the_files_of_replay(
    truth, tmp_path, monkeypatch, capsys
):
    assert run(monkeypatch, "replay", "songs.jsonl", *GIVEN, "-o", str(tmp_path / "out")) == 0
    answers = [orjson.loads(line)["value"] for line in (tmp_path / "out" / "assignments.jsonl").open()]
    predicted = [
        [label for label, share in answer["labels"].items() if share > 0.5] if "labels" in answer else None
        for answer in answers
    ]
    capsys.readouterr()
    assert run(monkeypatch, "evaluate", "songs.jsonl", *GIVEN, "--processes", "1", "--json") == 0
    (candidate,) = orjson.loads(capsys.readouterr().out)["candidates"]
    names = ["above", "late", "right"]
    whole = figures(truth, predicted, names)
    assert {name: candidate["figures"][name] for name in whole} == pytest.approx(whole)
    assert 0.5 < whole["f1_micro"] < 1
    assert len(candidate["windows"]) == COUNT // WINDOW
    for number, window in enumerate(candidate["windows"]):
        part = slice(WINDOW * number, WINDOW * number + WINDOW)
        expected = figures(truth[part], predicted[part], names)
        assert {name: window[name] for name in expected} == pytest.approx(expected), number
