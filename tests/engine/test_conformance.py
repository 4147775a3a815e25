"""Every golden vector that lies beside the repository."""

import pytest

from tests.conformance import CHECKS, SHARED, DifferenceError, main, vectors

FOLDERS = [SHARED / "conformance" / name for name in CHECKS]
CASES = [
    pytest.param(path, check, id=f"{folder.name}/{path.stem}")
    for folder in FOLDERS
    if folder.is_dir()
    for path, check in vectors(folder)
]

pytestmark = pytest.mark.golden


@pytest.mark.skipif(not CASES, reason="the golden vectors do not lie beside this checkout")
@pytest.mark.parametrize(("path", "check"), CASES)
def test_the_engines_agree_with_the_golden_vector(path, check):
    check(path)


@pytest.mark.skipif(not CASES, reason="the golden vectors do not lie beside this checkout")
def test_a_vector_that_differs_fails_the_command(monkeypatch, capsys):
    def differs(path):
        raise DifferenceError("step_id[3]: 1, golden 2")

    monkeypatch.setitem(CHECKS, "reading", differs)
    assert main([str(SHARED / "conformance" / "reading")]) == 1
    assert "DIFFERS  reading/" in capsys.readouterr().out


def test_a_folder_of_no_known_algorithm_is_refused(tmp_path, capsys):
    assert main([str(tmp_path)]) == 2
    assert "no folder of vectors" in capsys.readouterr().err
    assert main([]) == 2
