"""The transport works with the pinned versions of Faust alone."""

import tomllib
from importlib.metadata import PackageNotFoundError
from pathlib import Path

import pytest
from resonance.pipeline.errors import ConfigurationError
from resonance.pipeline.worker.transport.app import PINNED, check_versions


def test_only_the_pinned_versions_are_used():
    project = tomllib.loads((Path(__file__).resolve().parents[4] / "pyproject.toml").read_text())["project"]
    lines = project["optional-dependencies"]["worker"]
    for package, wanted in PINNED.items():
        assert any(line.split("[")[0].split("=")[0] == package and f"=={wanted}" in line for line in lines)
    check_versions()


def test_other_versions_are_named():
    def installed(package):
        if package == "faust-streaming":
            raise PackageNotFoundError
        return "0.15.3"

    with pytest.raises(
        ConfigurationError,
        match=r"faust-streaming 0.15.3 \(installed: none\), mode-streaming 0.7.1 \(installed: 0.15.3",
    ):
        check_versions(installed)
