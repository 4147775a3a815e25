"""Which cases of a test run at night alone: `make nightly`."""

import pytest


def at_night(*values, **named):
    """Return a case of a parametrized test that runs at night."""
    return pytest.param(*values, marks=pytest.mark.nightly, **named)


def some_at_night(values, those):
    """Return cases of a parametrized test, of which some run at night alone."""
    return [at_night(each) if each in those else each for each in values]


def seeds(always, *, night):
    """Return seeds from 0 on: some of each run, and more of those at night."""
    return [*range(always), *map(at_night, range(always, night))]
