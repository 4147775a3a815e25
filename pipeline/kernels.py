"""The kernels of all engines, compiled before anybody waits for them."""

import contextlib
import logging
import multiprocessing
import os
import signal
import threading
import time
from collections import defaultdict
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final

import numba
from resonance.engine import ENGINES, PARTS
from resonance.engine.prepare import Preparation
from resonance.engine.sparse_scale import SparseScale
from resonance.pipeline.errors import ConfigurationError
from resonance.pipeline.machine import cores

TOLD_EVERY: Final = 30.0
"""Seconds between two lines that say that kernels are still being compiled."""

_log = logging.getLogger(__name__)


@dataclass(frozen=True)
class Kernels:
    """Where compiled kernels are, and for what.

    Attributes
    ----------
    folder : Path
        The cache.
    engines : tuple of str
        Names of the engines whose kernels are there.
    cpu : str
        Processor they were compiled for: ``host`` or a name that LLVM knows.
    """

    folder: Path
    engines: tuple[str, ...]
    cpu: str


def compile_all(told: Callable[[str], None] = lambda name: None) -> Kernels:
    """Compile every kernel that is not in the cache yet, on all cores.

    Parameters
    ----------
    told : callable
        Is called with the name of each engine, or part of one, when its kernels are there.

    Raises
    ------
    ConfigurationError
        The folder cannot be written.
    """
    folder = Path(os.environ["NUMBA_CACHE_DIR"])
    Preparation.compile()
    SparseScale.compile()
    families = _families()
    if families:
        # Spawned: a fork would not survive what numba holds in this process. Leaving the pool ends its processes.
        context = multiprocessing.get_context("spawn")
        with context.Pool(min(cores(), len(families)), signal.signal, (signal.SIGINT, signal.SIG_IGN)) as pool:
            for names in pool.imap_unordered(_compile, families):
                for name in names:
                    told(name)
    if not any(folder.rglob("*.nbi")):
        raise ConfigurationError(f"{folder}: no kernels were kept there; let it be a folder that can be written")
    return Kernels(folder, (*ENGINES, *PARTS), numba.config.CPU_NAME or "host")


def _families() -> list[list[str]]:
    """Return the names of engines and parts whose kernels call one another."""
    families: dict[str, list[str]] = defaultdict(list)
    for name, engine in {**ENGINES, **PARTS}.items():
        families[engine.__module__.removeprefix("resonance.engine.").rpartition(".")[0]].append(name)
    return list(families.values())


def _compile(names: Sequence[str]) -> Sequence[str]:
    for name in names:
        (ENGINES[name] if name in ENGINES else PARTS[name]).compile()
    return names


@contextlib.contextmanager
def told_while_compiling(engine: str, seconds: float = TOLD_EVERY) -> Iterator[None]:
    """Say now and then that kernels are still being compiled: on a busy machine it takes minutes.

    Parameters
    ----------
    engine : str
        Whose kernels they are.
    seconds : float
        How long it may last in silence.
    """
    done = threading.Event()
    began = time.monotonic()

    def tell() -> None:
        while not done.wait(seconds):
            _log.info("still compiling the kernels of %s, after %.0f s", engine, time.monotonic() - began)

    teller = threading.Thread(target=tell, name="compiling", daemon=True)
    teller.start()
    try:
        yield
    finally:
        done.set()
        teller.join()
