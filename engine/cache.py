"""Where compiled kernels are kept.

numba checks only the file of the function it loads: after a change in a function that a kernel calls from another
file, or in a tuple that it is called with, it would go on running the old code. So each module's kernels have a folder
of their own, named by a hash of its source, of every engine module that it imports, however indirectly, of those of its
package that define tuples, and of the versions that compile it. It does not depend on where the sources lie: a second
environment of the same release compiles nothing.
"""

import ast
import errno
import functools
import hashlib
import importlib.metadata
import os
import stat
import sys
import tempfile
from pathlib import Path
from typing import Final, NamedTuple

_ROOT = "resonance.engine"
_FOLDER = Path(__file__).parent

ROOM: Final = 32 * 2**20
"""Bytes that a folder must be able to take: the kernels of one deployment."""

MEMORY: Final = Path("/dev/shm")  # noqa: S108 - a private folder in it
"""File system in memory."""


FLAGS: Final = (
    "NUMBA_BOUNDSCHECK",
    "NUMBA_DEBUGINFO",
    "NUMBA_LOOP_VECTORIZE",
    "NUMBA_OPT",
    "NUMBA_SLP_VECTORIZE",
)
"""Variables that change the code of a kernel, though numba would use that of a run without them."""


@functools.cache
def _versions() -> bytes:
    packages = ("numba", "llvmlite", "numpy")
    flags = [f"{each}={os.environ[each]}" for each in FLAGS if each in os.environ]
    versions = [f"{each} {importlib.metadata.version(each)}" for each in packages]
    return " ".join([sys.version, *versions, *flags]).encode()


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
    """Return the modules of a package that define tuples or tables, with which its kernels may call one another."""
    files = folder.joinpath(*package.removeprefix(_ROOT).split(".")).glob("*.py")
    return [
        f"{package}.{file.stem}"
        for file in files
        if any(each in file.read_bytes() for each in (b"(NamedTuple)", b"(Table)"))
    ]


@functools.cache
def modules_behind(module: str, folder: Path = _FOLDER) -> frozenset[str]:
    """Return the engine modules that the kernels of a module depend on."""
    needed, left = set[str](), [module, *_tuples(module.rpartition(".")[0], folder)]
    while left:
        if (name := left.pop()) not in needed:
            needed.add(name)
            # Where kernels are kept does not change them.
            left += _imports(name, folder)[1] - {__name__, f"{_ROOT}.kernel_cache"}
    return frozenset(needed)


@functools.cache
def folder_name(module: str, folder: Path = _FOLDER) -> str:
    """Name that changes with the sources behind the kernels of an engine module, numba, llvmlite, numpy or Python."""
    digest = hashlib.sha256(_versions())
    for name in sorted(modules_behind(module, folder)):
        digest.update(name.encode() + b"\0" + _imports(name, folder)[0] + b"\0")
    return digest.hexdigest()[:16]


def _why_not(folder: Path) -> str:
    """Return why kernels cannot be kept in a folder, which is made where it is missing; empty where they can."""
    try:
        folder.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryFile(dir=folder) as file:
            # A full disk still takes an empty file.
            if sys.platform == "linux":
                os.posix_fallocate(file.fileno(), 0, ROOM)
            else:
                file.write(bytes(ROOM))
                file.flush()
    except OSError as error:
        return f"{folder}: {error.strerror}"
    return ""


def _private(parent: Path) -> Path:
    """Return a folder in which only this user can write: a writer of a cache file can run code in this process."""
    folder = parent / f"resonance-kernels-{os.getuid()}"
    folder.mkdir(mode=0o700, exist_ok=True)
    found = folder.lstat()
    if found.st_uid != os.getuid() or not stat.S_ISDIR(found.st_mode) or found.st_mode & 0o022:
        folder = Path(tempfile.mkdtemp(prefix="resonance-kernels-", dir=parent))
    return folder


def _link(kept: Path, folder: Path) -> None:
    """Link the kernels of a folder that cannot be written, from which numba would not even read, into another."""
    for file in kept.rglob("*.nb[ic]"):
        link = folder / file.relative_to(kept)
        link.parent.mkdir(parents=True, exist_ok=True)
        if not link.exists():
            link.unlink(missing_ok=True)
            link.symlink_to(file)


def _fallback(home: Path | None, reasons: list[str]) -> Path:
    """Return a folder for the kernels where `home`, if any, takes none; extend the reasons by those of others."""
    # Not tempfile.gettempdir(), which raises where the disk of the temporary folder is full.
    for parent in (Path(os.environ.get("TMPDIR") or "/tmp"), MEMORY):  # noqa: S108 - a private folder in it
        try:
            folder = _private(parent)
            if not (reason := _why_not(folder)):
                if home is not None:
                    _link(home, folder)
                return folder
        except OSError as error:
            reason = f"{parent}: {error.strerror}"
        reasons.append(reason)
    raise OSError(
        errno.ENOSPC,
        f"no folder takes compiled kernels ({'; '.join(reasons)}); make {ROOM // 2**20} MB of room in one of them, or "
        "set NUMBA_CACHE_DIR to another",
    )


class KernelFolder(NamedTuple):
    """Where compiled kernels are kept."""

    path: Path
    reason: str
    """Why it is not the usual folder; empty where it is."""


@functools.cache
def kernel_folder() -> KernelFolder:
    """Return the folder of all compiled kernels, and let processes that this one starts have the same.

    Returns
    -------
    KernelFolder
        ``NUMBA_CACHE_DIR`` when set, else a folder in the user's cache. Where that cannot be written, or its disk is
        full: one in the temporary folder, else in memory, with links to the kernels that were compiled before.

    Raises
    ------
    OSError
        Where none of them takes kernels.
    """
    chosen, cache = os.environ.get("NUMBA_CACHE_DIR"), os.environ.get("XDG_CACHE_HOME")
    usual: Path | None = None
    try:
        usual = Path(chosen) if chosen else Path(cache or Path.home() / ".cache") / "resonance" / "kernels"
        reason = _why_not(usual)
    except RuntimeError:
        # The machine does not know the user: that of a container, which may have any id.
        reason = "no home folder is known (HOME is not set)"
    reasons = list(filter(None, [reason]))
    folder = _fallback(usual, reasons) if reasons or usual is None else usual
    os.environ["NUMBA_CACHE_DIR"] = str(folder)
    return KernelFolder(folder, "; ".join(reasons))


def is_kept(module: str) -> bool:
    """Return whether kernels of an engine module have been compiled before."""
    return any((prepare_cache() / folder_name(module)).glob("*.nbi"))


def prepare_cache() -> Path:
    """Return the path of `kernel_folder`."""
    return kernel_folder().path
