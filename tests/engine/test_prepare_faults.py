"""A record that cannot be prepared is described by the feature, its value and what it should have been."""

import numpy as np
import pytest
from resonance.engine.prepare import transform
from resonance.engine.prepare.transform import problem

ROW, WIDTH = np.array([np.inf, -1.5, 1e200]), np.array([1.0, 1.0, 1e-9])


@pytest.mark.parametrize(
    ("feature", "code", "text"),
    [
        (0, transform.MISSING, "cpu is missing"),
        (0, transform.NOT_FINITE, "cpu is inf: not a finite number"),
        (1, transform.NO_LOGARITHM, "net.in is -1.5: log1p needs a value above -1"),
        (2, transform.TOO_LARGE, "heat is 1e+200: beyond 1e+150"),
        (2, transform.TOO_FAR, "heat is 1e+200: beyond 1e+150 once scaled with width 1e-09"),
        # Axes have no names: the fault is about none of the features alone.
        (6, transform.AXIS_TOO_FAR, "beyond 1e+150 along principal axis 7"),
    ],
)
def test_each_fault_of_a_kernel_is_a_sentence(feature, code, text):
    assert problem(ROW, np.array([feature, code]), ["cpu", "net.in", "heat"], WIDTH) == text
