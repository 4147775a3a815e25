"""Every test of the pipeline runs in a folder of its own, and no variable of the environment is a setting."""

import asyncio
import inspect
import os
from functools import partial

import pytest
from resonance.pipeline.task.alerts import rules

from tests.pipeline.commands import run
from tests.schema_registry import running


@pytest.fixture(autouse=True)
def _nothing_set(monkeypatch, tmp_path):
    monkeypatch.chdir(tmp_path)
    for name in [name for name in os.environ if name.startswith("RESONANCE_")]:
        monkeypatch.delenv(name)


@pytest.fixture
def command(monkeypatch):
    """The command line, which returns its exit code."""
    return partial(run, monkeypatch)


@pytest.fixture
def printed(monkeypatch, capsys):
    """Run a command by a function of a test, and return what it has printed: it must have ended with a code."""

    def printed_by(run, *arguments, code=0, **how):
        found, shown = run(monkeypatch, *arguments, **how), capsys.readouterr()
        assert found == code, shown.err
        return shown

    return printed_by


@pytest.fixture
def soon_alerts(monkeypatch):
    """Rules that raise their alerts after a few records."""
    monkeypatch.setattr(rules, "DEAD_LETTERS_WINDOW", 20)
    monkeypatch.setattr(rules, "DEAD_LETTERS_SHARE", 0.2)
    monkeypatch.setattr(rules, "UNCONFIRMED_RECORDS", 100)


@pytest.fixture
def registry():
    """A Schema Registry."""
    with running() as own:
        yield own


def pytest_pyfunc_call(pyfuncitem):
    """Run a test that is a coroutine in an event loop of its own."""
    if not inspect.iscoroutinefunction(pyfuncitem.obj):
        return None
    asyncio.run(pyfuncitem.obj(**{name: pyfuncitem.funcargs[name] for name in pyfuncitem._fixtureinfo.argnames}))
    return True
