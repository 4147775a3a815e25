"""Where compiled kernels are kept.

numba checks only the file of the function it loads: after a change in a function that a kernel calls from another
file, or in a tuple that it is called with, it would go on running the old code. So each module's kernels have a folder
of their own, named by a hash of all sources of its package, of the packages that these name, of this package and the
top of the engine, and of the versions that compile it. It does not depend on where the sources lie: a second
environment of the same release compiles nothing.
"""

import errno
import functools
import hashlib
import importlib.metadata
import os
import re
import stat
import sys
import tempfile
from pathlib import Path
from typing import Final, NamedTuple

_ROOT = "resonance"
_FOLDER = Path(__file__).parents[1]
_BELOW_ALL: Final = ("kernels", "engine")
_NO_KERNELS: Final = ("__init__", "cache", "numba_cache")

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


def _package(name: str, folder: Path) -> str:
    """Return the folder of a package, or of the one that a module is in."""
    path = name.removeprefix(f"{_ROOT}.").replace(".", "/")
    return path if (folder / path).is_dir() else path.rpartition("/")[0]


@functools.cache
def _sources(package: str, folder: Path) -> tuple[bytes, frozenset[str]]:
    """Return the sources of a package, and the packages that these name."""
    # Where kernels are kept does not change them.
    top = package in _BELOW_ALL
    files = [file for file in sorted((folder / package).glob("*.py")) if not top or file.stem not in _NO_KERNELS]
    source = b"".join(file.name.encode() + b"\0" + file.read_bytes() + b"\0" for file in files)
    named = re.findall(rb"from (resonance\.[\w.]+) import", source)
    return source, frozenset() if top else frozenset(_package(name.decode(), folder) for name in named)


@functools.cache
def packages_behind(module: str, folder: Path = _FOLDER) -> frozenset[str]:
    """Return the folders of the packages that the kernels of a module depend on."""
    needed, left = set(_BELOW_ALL), [_package(module, folder)]
    while left:
        if (name := left.pop()) not in needed:
            needed.add(name)
            left += _sources(name, folder)[1]
    return frozenset(needed)


@functools.cache
def folder_name(module: str, folder: Path = _FOLDER) -> str:
    """Name that changes with the sources behind the kernels of a module, numba, llvmlite, numpy or Python."""
    digest = hashlib.sha256(_versions() + module.encode())
    for name in sorted(packages_behind(module, folder)):
        digest.update(name.encode() + b"\0" + _sources(name, folder)[0])
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
    """Return whether kernels of a module have been compiled before."""
    return any((prepare_cache() / folder_name(module)).glob("*.nbi"))


def prepare_cache() -> Path:
    """Return the path of `kernel_folder`."""
    return kernel_folder().path
