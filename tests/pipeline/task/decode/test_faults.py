"""A fault has the stage and the class of its dead letter, and the place of its record."""

import pytest
from resonance.engine.prepare.sparse import Problem
from resonance.pipeline.records import Record
from resonance.pipeline.task.decode.faults import Fault, FaultError, not_prepared, out_of_range

EARLIER = Record("labels", 0, 3, 0, None, b"{}")


def test_an_error_becomes_the_fault_of_a_record_of_its_batch_or_of_an_earlier_one():
    error = FaultError("validate", "wrong_type", "temp is 'a', which is no number")
    assert str(error) == error.message
    assert error.at(4) == Fault(4, "validate", "wrong_type", error.message)
    assert error.at(4, EARLIER) == Fault(4, "validate", "wrong_type", error.message, EARLIER)


@pytest.mark.parametrize(
    ("problem", "stage", "kind"),
    [
        ("heat is 1e+200: beyond 1e+150", "limit", "out_of_range"),
        (Problem("out_of_range", "too large"), "limit", "out_of_range"),
        (Problem("too_many_features", "too many"), "limit", "too_many_features"),
        (Problem("name_too_long", "too long"), "limit", "name_too_long"),
        (Problem("wrong_type", "no number"), "validate", "wrong_type"),
    ],
)
def test_what_a_preparation_refuses_is_beyond_a_limit_unless_it_is_of_a_wrong_type(problem, stage, kind):
    found = not_prepared(problem)
    assert (found.stage, found.kind, found.message) == (stage, kind, getattr(problem, "text", problem))


def test_values_out_of_range_are_beyond_a_limit():
    assert out_of_range("too far").at(0) == Fault(0, "limit", "out_of_range", "too far")
