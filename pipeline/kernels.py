"""The kernels of all engines, compiled before anybody waits for them."""

import contextlib
import logging
import os
import threading
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Final

import numba
from resonance.engine import ENGINES, PARTS
from resonance.engine.prepare import Preparation
from resonance.pipeline.errors import ConfigurationError

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
    """Compile every kernel that is not in the cache yet.

    Parameters
    ----------
    told : callable
        Is called with the name of each engine before its kernels are compiled.

    Raises
    ------
    ConfigurationError
        The folder cannot be written.
    """
    folder = Path(os.environ["NUMBA_CACHE_DIR"])
    Preparation.compile()
    for name, engine in ENGINES.items():
        told(name)
        engine.compile()
    for name, part in PARTS.items():
        told(name)
        part.compile()
    if not any(folder.rglob("*.nbi")):
        raise ConfigurationError(f"{folder}: no kernels were kept there; let it be a folder that can be written")
    return Kernels(folder, (*ENGINES, *PARTS), numba.config.CPU_NAME or "host")


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
