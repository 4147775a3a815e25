"""The command line as a user has it."""

import sys

import pytest
from resonance.pipeline.cli import main


def run(monkeypatch, *arguments):
    """Run the command line and return its exit code."""
    monkeypatch.setattr(sys, "argv", ["resonance", *arguments])
    with pytest.raises(SystemExit) as ended:
        main.main()
    return int(ended.value.code or 0)
