"""Imports that load a module at its first use: the options and help of a command need nothing of what it works with."""

import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from importlib.abc import Loader, MetaPathFinder
from importlib.machinery import ModuleSpec, PathFinder
from types import ModuleType
from typing import Any

WORK, COMMANDS = "resonance.pipeline.", "resonance.pipeline.cli"


class _UnloadedModule(ModuleType):
    """Loads when a name that it does not have yet is looked up in it.

    `importlib.util.LazyLoader` loads at any look-up, even of ``__file__``. `inspect.getmodule`, which pydantic calls
    while it makes a class, looks that up in every module, and would load some in the middle of another.
    """

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__"):
            raise AttributeError(f"module {self.__name__!r} has no attribute {name!r}")
        self.__class__ = ModuleType  # type: ignore[assignment] # from here on a module like any other
        self.__loader__ = loader = self.__dict__.pop("_own_loader")
        if self.__spec__ is not None:
            self.__spec__.loader = loader
        loader.exec_module(self)
        return getattr(self, name)


class _LazyLoader(Loader):
    """Makes modules that load later, with the loader that found them."""

    def __init__(self, loader: Loader) -> None:
        self._loader = loader

    def create_module(self, spec: ModuleSpec) -> ModuleType | None:
        module = _UnloadedModule(spec.name)
        module.__dict__["_own_loader"] = self._loader
        return module

    def exec_module(self, module: ModuleType) -> None:
        pass


class _LazyFinder(MetaPathFinder):
    """Finds the modules of the pipeline, except those of the command line."""

    def find_spec(
        self, fullname: str, path: Sequence[str] | None, target: ModuleType | None = None
    ) -> ModuleSpec | None:
        if not fullname.startswith(WORK) or fullname.startswith(COMMANDS):
            return None
        spec = PathFinder.find_spec(fullname, path, target)
        if spec is not None and spec.loader is not None:
            spec.loader = _LazyLoader(spec.loader)
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
