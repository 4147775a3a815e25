"""The versions of Faust that the transport was written for: it depends on internals."""

from collections.abc import Callable
from importlib.metadata import PackageNotFoundError, version

from resonance.pipeline.errors import ConfigurationError

PINNED = {"faust-streaming": "0.15.3", "mode-streaming": "0.7.1"}
"""Versions whose internals the transport was written for; pyproject.toml pins the same."""


def check_versions(installed: Callable[[str], str] = version) -> None:
    """Raise `ConfigurationError`, with each package that differs, on other versions than the pinned ones."""
    differing = []
    for package, wanted in PINNED.items():
        try:
            found = installed(package)
        except PackageNotFoundError:
            found = "none"
        if found != wanted:
            differing.append(f"{package} {wanted} (installed: {found})")
    if differing:
        raise ConfigurationError(
            f"the transport works with exactly {', '.join(differing)}; install the versions of requirements/lock.txt"
        )
