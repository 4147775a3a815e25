"""States of every revision load, and go on as they always did."""

import json

import pytest

from tests.golden import ANSWERS, FOLDER, KINDS

FILES = sorted(FOLDER.glob("*.state"))


@pytest.mark.parametrize("file", FILES, ids=lambda file: file.stem)
def test_a_state_of_any_revision_goes_on_as_it_always_did(file):
    kind = KINDS[file.stem.partition("@")[0]]
    assert kind.answers(file.read_bytes()) == json.loads(ANSWERS.read_text())[file.stem]


def test_every_revision_has_a_state():
    have = {file.stem for file in FILES}
    assert have == json.loads(ANSWERS.read_text()).keys()
    missing = [stem for name, kind in KINDS.items() if (stem := f"{name}@{kind.revision}") not in have]
    assert not missing, f"python -m tests.golden writes the states of {missing}"
