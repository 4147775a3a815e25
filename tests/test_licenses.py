"""What a user must know before the first use: the project's license, and that no locked package forbids it."""

import re
import tomllib
from importlib import metadata
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[1]
ALLOWED = re.compile(r"MIT|BSD|Apache|PSF|Python Software|ISC|Mozilla|MPL|Zlib|CC0|LLVM|Repoze", re.IGNORECASE)
FORBIDDEN = re.compile(r"\bA?GPL|Affero|SSPL|Business Source|Commons Clause|Proprietary|Non-?Commercial", re.IGNORECASE)
LOCKED = sorted(
    {name for file in (ROOT / "requirements").iterdir() for name in re.findall(r"(?m)^([\w.-]+)==", file.read_text())}
)


def test_the_project_has_one_license_everywhere():
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    assert project["license"] == "Apache-2.0"
    assert "Apache License" in (ROOT / "LICENSE").read_text().split("\n\n")[0]
    for pattern in project["license-files"]:
        assert (ROOT / pattern).is_file(), pattern


@pytest.mark.parametrize("name", LOCKED)
def test_no_locked_package_forbids_its_use(name):
    try:
        found = metadata.metadata(name)
    except metadata.PackageNotFoundError:
        pytest.skip("not installed: of another platform, or of the tool for the SBOM")
    kinds = [each for each in found.get_all("Classifier", []) if each.startswith("License ::")]
    stated = " ".join([*kinds, found.get("License-Expression") or "", (found.get("License") or "").split("\n")[0]])
    assert ALLOWED.search(stated), f"{name}: {stated}"
    assert not FORBIDDEN.search(stated), f"{name}: {stated}"
