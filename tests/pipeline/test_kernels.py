"""Compiling ahead: where the kernels are, and what is said where they cannot be kept."""

import logging
import os
import threading
from functools import partial
from importlib import import_module

import pytest
from numba.core.registry import CPUDispatcher
from resonance.engine import ENGINES, PARTS
from resonance.engine.drift import DriftWatch
from resonance.engine.sparse import SparseEngine
from resonance.kernels.cache import is_kept, prepare_cache
from resonance.pipeline import kernels
from resonance.pipeline.config.settings import Settings

from tests.pipeline.commands import run as run_command


@pytest.fixture
def run(monkeypatch, capsys):
    def run(*arguments):
        return run_command(monkeypatch, "worker", "--compile-only", *arguments), *capsys.readouterr()

    return run


def test_the_folder_is_the_result_and_everything_else_a_message(run, monkeypatch):
    watches, engines = [], {"hcaea": ENGINES["hcaea"]}
    monkeypatch.setattr(kernels, "ENGINES", engines)
    monkeypatch.setattr(DriftWatch, "compile", lambda: watches.append("compiled"))
    code, out, messages = run()
    assert (code, out, watches) == (0, f"{prepare_cache()}\n", ["compiled"])
    assert sorted(messages.splitlines()) == sorted(f"kernels of {name}" for name in (*engines, *PARTS))


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


def note(file):
    with file.open("a") as notes:
        notes.write(f"{os.getpid()}\n")


@pytest.mark.parametrize(("kept", "cores", "processes"), [(False, 2, 2), (False, 1, 1), (True, 2, 1)])
def test_what_is_not_kept_is_compiled_beside_the_engine(monkeypatch, tmp_path, kept, cores, processes):
    monkeypatch.setattr(kernels, "is_kept", lambda module: kept)
    monkeypatch.setattr(kernels, "cores", lambda: cores)
    kernels.compile_with(partial(note, tmp_path / "engine"), {"resonance.engine.x": partial(note, tmp_path / "other")})
    assert set((tmp_path / "engine").read_text().split()) == {str(os.getpid())}
    assert len(set((tmp_path / "other").read_text().split())) == processes


def test_an_error_is_that_of_this_process(monkeypatch):
    monkeypatch.setattr(kernels, "is_kept", lambda module: False)
    monkeypatch.setattr(kernels, "cores", lambda: 2)
    with pytest.raises(ValueError, match="invalid literal"):
        kernels.compile_with(partial(int, 1), {"resonance.engine.x": partial(int, "x")})


def test_the_modules_that_are_looked_for_have_kernels(monkeypatch):
    modules = []
    monkeypatch.setattr(kernels, "is_kept", lambda module: modules.append(module) or True)
    kernels.compile_engine(Settings.of({"stream": "key", "input.topics": ["orders"]}))
    assert modules
    assert all(map(is_kept, modules))


@pytest.mark.parametrize("name", ENGINES)
def test_the_module_that_is_looked_for_has_the_kernels_of_the_engine(monkeypatch, name):
    given = {"stream": "partition", "input.topics": ["orders"], "engine.name": name}
    given |= {"input.sparse": "words"} if issubclass(ENGINES[name], SparseEngine) else {}
    modules = []
    monkeypatch.setattr(kernels, "is_kept", lambda module: modules.append(module) or True)
    monkeypatch.setattr(kernels, "compile_with", lambda *_: pytest.fail("all are kept"))
    kernels.compile_engine(Settings.of(given), unless_kept=True)
    assert any(isinstance(each, CPUDispatcher) for each in vars(import_module(modules[0])).values())
