"""The files of a kernel's compiled forms, as numba writes them."""

from collections.abc import Iterator
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path
from typing import Any

from numba.core.caching import CompileResultCacheImpl, FunctionCache, InTreeCacheLocator, UserWideCacheLocator
from resonance.kernels.cache import folder_name, prepare_cache
from resonance.kernels.compiler import Deferred

try:
    import fcntl
except ImportError:  # Windows
    fcntl = None  # type: ignore[assignment]


class _KernelLocator(InTreeCacheLocator):  # type: ignore[misc]  # numba has no types
    """Finds the folder of a module's kernels, whose name has the hash of its source, wherever that lies."""

    def __init__(self, py_func: Any, py_file: Any) -> None:
        super().__init__(py_func, py_file)
        self._cache_path = str(prepare_cache() / folder_name(py_func.__module__))

    def get_source_stamp(self) -> str:
        return ""


class _KernelFiles(CompileResultCacheImpl):  # type: ignore[misc]
    """Numba's own folders come second: for a user who may not write into that of another one."""

    _locator_classes = (_KernelLocator, InTreeCacheLocator, UserWideCacheLocator)


class KernelCache(FunctionCache):  # type: ignore[misc]
    """Keeps the compiled forms of a kernel, of each process that compiles one.

    Numba numbers the files of a function's forms: two processes that save different ones at once would give both one
    number, and a call would run the code of the other.
    """

    _impl_class = _KernelFiles

    def load_overload(self, sig: Any, target_context: Any) -> Any:
        """Return a form of the kernel that is kept; None for none, or where files are damaged: it is compiled anew."""
        try:
            return super().load_overload(sig, target_context)
        except Exception:  # A file that has lost its end, as when power failed, raises anything.
            with suppress(OSError):
                Path(self._cache_file._index_path).unlink()
            return None

    def save_overload(self, sig: Any, data: Any) -> None:  # noqa: D102
        if isinstance(data.entry_point, Deferred):
            return
        with _alone(Path(self._cache_path)):
            super().save_overload(sig, data)


@contextmanager
def _alone(folder: Path) -> Iterator[None]:
    """Lock a folder against other processes; without effect where there are no such locks, or no room for one."""
    with ExitStack() as stack:
        if fcntl is not None:
            with suppress(OSError):
                lock = stack.enter_context((folder / "lock").open("w"))
                fcntl.flock(lock, fcntl.LOCK_EX)
        yield
