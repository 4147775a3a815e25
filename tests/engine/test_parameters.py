"""One parameter takes what its declaration says, and nothing else."""

import pytest
from resonance.engine import ENGINES, Parameter, ParameterError


@pytest.mark.parametrize("value", [1, 0, "true", None, 1.0])
def test_a_yes_or_no_is_true_or_false(value):
    axes = Parameter("pcs", bool, True, "whether")
    assert axes.check(True) is True
    assert axes.check(False) is False
    with pytest.raises(ParameterError, match=r"pcs = .*: must be true or false"):
        axes.check(value)


def test_the_help_of_an_engine_has_every_parameter_as_it_is_declared():
    for engine in ENGINES.values():
        assert engine.__doc__.count("\nParameters\n") == 1
        for each in engine.parameters:
            assert f" : {each.allowed}, default {each.default!r}\n    {each.meaning}\n" in f"{engine.__doc__}\n"
