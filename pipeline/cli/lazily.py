"""Imports that load a module at its first use: the options and help of a command need nothing of what it works with."""

import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from importlib.abc import MetaPathFinder
from importlib.machinery import ModuleSpec, PathFinder
from importlib.util import LazyLoader
from types import ModuleType

COMMANDS = "resonance.pipeline.cli"


class _LazyFinder(MetaPathFinder):
    """Finds the modules of Resonance, except those of the command line."""

    def find_spec(
        self, fullname: str, path: Sequence[str] | None, target: ModuleType | None = None
    ) -> ModuleSpec | None:
        if not fullname.startswith("resonance.") or fullname.startswith(COMMANDS):
            return None
        spec = PathFinder.find_spec(fullname, path, target)
        if spec is not None and spec.loader is not None:
            spec.loader = LazyLoader(spec.loader)
        return spec


@contextmanager
def imported_lazily() -> Iterator[None]:
    """Let a module that is imported inside load when something of it is needed: at once with ``from module import x``.

    So a command imports what it works with as modules, and names their types in quotes.
    """
    finder = _LazyFinder()
    sys.meta_path.insert(0, finder)
    try:
        yield
    finally:
        sys.meta_path.remove(finder)
