"""Compiling ahead: where the kernels are, and what is said where they cannot be kept."""

import json
import logging
import threading

import pytest
from resonance.engine import ENGINES, PARTS
from resonance.engine.cache import prepare_cache
from resonance.engine.drift import DriftWatch
from resonance.pipeline import kernels

from tests.pipeline.commands import run as run_command


@pytest.fixture
def run(monkeypatch, capsys):
    def run(*arguments):
        return run_command(monkeypatch, "compile", *arguments), *capsys.readouterr()

    return run


def test_the_folder_is_the_result_and_everything_else_a_message(run, monkeypatch):
    watches = []
    monkeypatch.setattr(DriftWatch, "compile", lambda: watches.append("compiled"))
    code, out, messages = run()
    assert (code, out, watches) == (0, f"{prepare_cache()}\n", ["compiled"])
    assert sorted(messages.splitlines()) == sorted(f"kernels of {name}" for name in (*ENGINES, *PARTS))


def test_for_machines(run, monkeypatch):
    monkeypatch.setattr("numba.config.CPU_NAME", "generic")
    monkeypatch.setattr(kernels, "ENGINES", {"fuzzy_art": ENGINES["fuzzy_art"]})
    code, out, _ = run("--json")
    assert code == 0
    assert json.loads(out) == {"folder": str(prepare_cache()), "engines": ["fuzzy_art", *PARTS], "cpu": "generic"}


def test_a_folder_that_cannot_be_written_is_said(run, monkeypatch, tmp_path):
    monkeypatch.setattr(kernels, "ENGINES", {})
    monkeypatch.setattr(kernels, "PARTS", {})
    monkeypatch.setenv("NUMBA_CACHE_DIR", str(tmp_path))
    code, out, messages = run()
    assert (code, out) == (2, "")
    assert messages == f"error: {tmp_path}: no kernels were kept there; let it be a folder that can be written\n"


def test_a_long_compilation_is_reported_until_it_ends(caplog):
    text = threading.Event()

    class Told(logging.Handler):
        def emit(self, record):
            text.set()

    logger, handler = logging.getLogger(kernels.__name__), Told()
    logger.addHandler(handler)
    try:
        with caplog.at_level(logging.INFO, kernels.__name__), kernels.show_while_compiling("caea", 0.001):
            assert text.wait(60.0)
    finally:
        logger.removeHandler(handler)
    assert caplog.messages[0].startswith("still compiling the kernels of caea, after ")
    assert "compiling" not in {thread.name for thread in threading.enumerate()}
