"""Where compiled kernels are kept.

numba checks only the file of the function it loads: after a change in a function that a kernel calls from another
file, or in a tuple that it is called with, it would go on running the old code. So each module's kernels have a folder
of their own, named by a hash of its source, of every engine module that it imports, however indirectly, of those of its
package that define tuples, and of the versions that compile it.
"""

import ast
import functools
import hashlib
import importlib.metadata
import os
import sys
import tempfile
from pathlib import Path

_ROOT = "resonance.engine"
_FOLDER = Path(__file__).parent


@functools.cache
def _versions() -> bytes:
    packages = ("numba", "llvmlite", "numpy")
    return " ".join([sys.version, *(f"{each} {importlib.metadata.version(each)}" for each in packages)]).encode()


def _file(module: str, folder: Path) -> Path | None:
    """Return the file of an engine module, None of what is none."""
    path = folder.joinpath(*module.removeprefix(_ROOT).split("."))
    return next((file for file in (path.with_suffix(".py"), path / "__init__.py") if file.is_file()), None)


@functools.cache
def _imports(module: str, folder: Path) -> tuple[bytes, frozenset[str]]:
    """Return the source of a module and the engine modules that it imports itself."""
    file = _file(module, folder)
    if file is None:
        raise ImportError(f"no source of {module} in {folder}: kernels are kept by the sources they come from")
    source, found = file.read_bytes(), set[str]()
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.Import):
            found.update(alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom) and node.module:
            inner = {f"{node.module}.{alias.name}" for alias in node.names}
            modules = {each for each in inner if each.startswith(_ROOT) and _file(each, folder)}
            found |= modules
            if modules != inner:
                found.add(node.module)
    return source, frozenset(each for each in found if each == _ROOT or each.startswith(f"{_ROOT}."))


@functools.cache
def _tuples(package: str, folder: Path) -> list[str]:
    """Return the modules of a package that define tuples, with which its kernels may call one another."""
    files = folder.joinpath(*package.removeprefix(_ROOT).split(".")).glob("*.py")
    return [f"{package}.{file.stem}" for file in files if b"(NamedTuple)" in file.read_bytes()]


@functools.cache
def modules_behind(module: str, folder: Path = _FOLDER) -> frozenset[str]:
    """Return the engine modules that the kernels of a module depend on."""
    needed, left = set[str](), [module, *_tuples(module.rpartition(".")[0], folder)]
    while left:
        if (name := left.pop()) not in needed:
            needed.add(name)
            left += _imports(name, folder)[1]
    return frozenset(needed)


@functools.cache
def folder_name(module: str, folder: Path = _FOLDER) -> str:
    """Name that changes with the sources behind the kernels of an engine module, numba, llvmlite, numpy or Python."""
    digest = hashlib.sha256(_versions())
    for name in sorted(modules_behind(module, folder)):
        digest.update(name.encode() + b"\0" + _imports(name, folder)[0] + b"\0")
    return digest.hexdigest()[:16]


def _is_writable(folder: Path) -> bool:
    try:
        folder.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryFile(dir=folder):
            return True
    except OSError:
        return False


def prepare_cache() -> Path:
    """Return the folder of all compiled kernels, and let processes that this one starts have the same.

    Returns
    -------
    Path
        ``NUMBA_CACHE_DIR`` when set, else a folder in the user's cache, else (home not writable) one in the
        temporary folder.
    """
    if given := os.environ.get("NUMBA_CACHE_DIR"):
        return Path(given)
    home = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "resonance" / "kernels"
    if not _is_writable(home):
        # Only this user may write there: one who can write a cache file can run code in this process.
        home = Path(tempfile.gettempdir()) / f"resonance-kernels-{os.getuid()}"
        home.mkdir(mode=0o700, exist_ok=True)
        if home.stat().st_uid != os.getuid():
            home = Path(tempfile.mkdtemp(prefix="resonance-kernels-"))
    os.environ["NUMBA_CACHE_DIR"] = str(home)
    return home
