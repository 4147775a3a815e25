"""The transport works with the pinned versions of Faust alone."""

from importlib.metadata import PackageNotFoundError

import pytest
from resonance.pipeline.errors import ConfigurationError
from resonance.pipeline.worker.transport.app import check_versions


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
