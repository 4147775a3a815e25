"""What does not fit in a packed model is named, with its place, before any kernel follows it."""

import numpy as np
import pytest
from resonance.engine import StateError
from resonance.engine.caea import faults, model

FLOATS, INTEGERS = np.zeros(6), np.zeros(9, np.int64)


@pytest.mark.parametrize(
    ("code", "what"),
    [
        (model.NEXT_ID, "next_id of a model"),
        (faults.CUT, "the end of a model"),
        (faults.NUMBER, "a weight, bandwidth or record that is no finite number"),
        (faults.KEPT, "the records that a node keeps"),
        (faults.REST, "what is left behind the last model"),
    ],
)
def test_a_fault_is_named_with_its_place(code, what):
    text = f"the state of caea does not hold what it says it holds: {what} \\(integer 7\\)"
    with pytest.raises(StateError, match=text):
        faults.check_fault("caea", code, 7)
    faults.check_fault("caea", faults.FITS, 7)


def test_arrays_of_a_dimension_are_taken_as_they_are():
    classes, floats, integers = faults.checked_arrays(
        "caea", 6, {"classes": 2}, {"floats": FLOATS, "integers": INTEGERS}
    )
    assert classes == 2
    assert floats is FLOATS
    assert integers is INTEGERS
    assert faults.checked_arrays("caea", 1, {}, {"floats": FLOATS, "integers": INTEGERS})[0] == 0


@pytest.mark.parametrize(
    ("dimension", "header", "arrays", "text"),
    [
        (7, {}, {}, "7 features"),
        (0, {}, {}, "0 features"),
        ("2", {}, {}, "'2' features"),
        (True, {}, {}, "True features"),
        (2, {"classes": -1}, {}, "-1 classes of labels"),
        (2, {"classes": 1.0}, {}, r"1\.0 classes of labels"),
        (2, {}, {"floats": FLOATS.astype(np.float32)}, r"float32 of shape \(6,\)"),
        (2, {}, {"integers": INTEGERS.reshape(3, 3)}, r"int64 of shape \(3, 3\)"),
        (2, {}, {"integers": None}, "'integers'"),
    ],
)
def test_a_state_that_holds_no_model_says_why(dimension, header, arrays, text):
    given = {"floats": FLOATS, "integers": INTEGERS, **arrays}
    given = {name: array for name, array in given.items() if array is not None}
    with pytest.raises(StateError, match=f"the state of hcaea holds no model: .*{text}"):
        faults.checked_arrays("hcaea", dimension, header, given)
