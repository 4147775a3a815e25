"""Every golden vector that lies beside the repository."""

import pytest

from tests.conformance import CHECKS, SHARED

CASES = [
    pytest.param(path, check, id=f"{name}/{path.stem}")
    for name, check in CHECKS.items()
    for path in sorted((SHARED / "conformance" / name).glob("*.npz"))
]


@pytest.mark.golden
@pytest.mark.skipif(not CASES, reason="the golden vectors do not lie beside this checkout")
@pytest.mark.parametrize(("path", "check"), CASES)
def test_the_engines_agree_with_the_golden_vector(path, check):
    check(path)
