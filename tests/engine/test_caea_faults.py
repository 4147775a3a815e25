"""What does not fit in a packed model is named, with its place, before any kernel follows it."""

import pytest
from resonance.engine import StateError
from resonance.engine.caea import faults, model


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
