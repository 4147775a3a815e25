"""The tests of Resonance."""

import os

LONG = os.environ.get("LONG_TESTS", "") not in ("", "0")
"""Whether tests that have a longer form run in it: ``make long WHAT=tests/simulation``."""
