"""Compilation of the kernels of all engines, before any work waits for them."""

import contextlib
import logging
import multiprocessing
import os
import signal
import sys
import threading
import time
from collections import defaultdict
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Final

from resonance import engine as engines
from resonance.engine import ENGINES, PARTS
from resonance.engine.drift import DriftWatch
from resonance.engine.prepare import Preparation
from resonance.engine.prepare.sparse_scale import SparseScale
from resonance.kernels.cache import is_kept
from resonance.pipeline import text
from resonance.pipeline.config.settings import Settings
from resonance.pipeline.errors import ConfigurationError
from resonance.pipeline.machine import cores
from resonance.pipeline.task.alerts import kernels as alerts
from resonance.pipeline.text import words

LOG_SECONDS: Final = 30.0
"""Seconds between two log lines about kernels that are still compiling."""

_log = logging.getLogger(__name__)


def compile_all(report: Callable[[str], None] = lambda name: None) -> Path:
    """Compile, on all cores, every kernel that is not cached yet; return where they are kept.

    `report` is called with the name of each engine, or part of one, when its kernels are ready. A cache folder that
    cannot be written is a `ConfigurationError`.
    """
    folder = Path(os.environ["NUMBA_CACHE_DIR"])
    Preparation.compile()
    SparseScale.compile()
    alerts.compile()
    text.compile()
    words.compile()
    families = _families()
    if families:
        # Spawn, because a fork would not survive numba's state in this process. Leaving the pool ends its processes.
        context = multiprocessing.get_context("spawn")
        with context.Pool(min(cores(), len(families)), signal.signal, (signal.SIGINT, signal.SIG_IGN)) as pool:
            compiled = pool.imap_unordered(_compile, families)
            DriftWatch.compile()
            for names in compiled:
                for name in names:
                    report(name)
    if not any(folder.rglob("*.nbi")):
        raise ConfigurationError(f"{folder}: no kernels were kept there; let it be a folder that can be written")
    return folder


def compile_engine(settings: Settings, *, unless_kept: bool = False) -> None:
    """Compile every kernel that a deployment learns with, or load it from the cache.

    With `unless_kept` nothing is loaded where kernels of all parts have been compiled before.
    """
    engine, others = settings.engine_class, dict[str, Callable[[], None]]()
    if settings.drift_parameters is not None:
        others["resonance.engine.drift.learn"] = DriftWatch.compile
    if settings.input.sparse is None:
        others["resonance.engine.prepare.transform"] = partial(Preparation.compile, project=settings.may_project)
    if settings.raises_alerts:
        others["resonance.pipeline.task.alerts.kernels.silence"] = alerts.compile
    others["resonance.pipeline.text.json_members"] = text.compile
    if settings.input.text_path is not None:
        others["resonance.pipeline.text.words"] = words.compile
    learning = f"{engine.__module__.rpartition('.')[0]}.learn"
    if unless_kept and all(map(is_kept, (learning, *others))):
        return
    compile_with(engine.compile, others)
    if settings.is_keyed:
        engines.HCAEASubtree.compile()


def compile_with(engine: Callable[[], None], others: Mapping[str, Callable[[], None]]) -> None:
    """Call functions that compile kernels, or load them: that of an engine, and others by a module of their kernels.

    Where one of these modules has never been compiled, all others are in a process beside that of the engine. Both save
    what they compile, and load what the other one has saved.
    """
    calls = list(others.values())
    with contextlib.ExitStack() as stack:
        if cores() > 1 and not all(map(is_kept, others)):
            beside = multiprocessing.get_context("spawn").Process(target=_call_quietly, args=(calls,), daemon=True)
            beside.start()
            stack.callback(beside.terminate)
            engine()
            # Where it fails, this process compiles, and says why.
            beside.join()
        _call([engine, *calls])


def _call(functions: Sequence[Callable[[], None]]) -> None:
    for function in functions:
        function()


def _call_quietly(functions: Sequence[Callable[[], None]]) -> None:
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    with contextlib.suppress(Exception):
        _call(functions)


def _families() -> list[list[str]]:
    """Return the names of engines and parts in groups whose kernels call one another."""
    families: dict[str, list[str]] = defaultdict(list)
    for name, engine in {**ENGINES, **PARTS}.items():
        families[engine.__module__.removeprefix("resonance.engine.").rpartition(".")[0]].append(name)
    return list(families.values())


def _compile(names: Sequence[str]) -> Sequence[str]:
    for name in names:
        (ENGINES[name] if name in ENGINES else PARTS[name]).compile()
    return names


@contextlib.contextmanager
def show_while_compiling(engine: str, seconds: float = LOG_SECONDS) -> Iterator[None]:
    """Show on a terminal, or log every `seconds`, that the kernels of `engine` are compiling: it can take minutes."""
    if sys.stderr.isatty():
        from rich import console, progress  # noqa: PLC0415 - only where there is a terminal

        columns = (progress.TextColumn("{task.description}"), progress.BarColumn(), progress.TimeElapsedColumn())
        with progress.Progress(*columns, console=console.Console(stderr=True), transient=True) as bar:
            bar.add_task(f"kernels of {engine}, compiled once on a machine", total=None)
            yield
        return
    done = threading.Event()
    began = time.monotonic()

    def report() -> None:
        while not done.wait(seconds):
            _log.info("still compiling the kernels of %s, after %.0f s", engine, time.monotonic() - began)

    teller = threading.Thread(target=report, name="compiling", daemon=True)
    teller.start()
    try:
        yield
    finally:
        done.set()
        teller.join()
