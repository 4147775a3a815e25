"""Where compiled kernels are kept.

numba checks only the file of the function it loads: after a change in a function that a kernel calls from another
file it would go on running the old code. So the folder is named by a hash of every source of the engine and of the
versions that compile it, and it is set before numba is first imported.
"""

import hashlib
import importlib.metadata
import os
import sys
import tempfile
from pathlib import Path


def folder_name() -> str:
    """Name that changes with any source of the engine, numba, llvmlite, numpy or Python."""
    digest = hashlib.sha256(sys.version.encode())
    for package in ("numba", "llvmlite", "numpy"):
        digest.update(f"{package} {importlib.metadata.version(package)}".encode())
    folder = Path(__file__).parent
    for source in sorted(folder.rglob("*.py")):
        digest.update(source.relative_to(folder).as_posix().encode() + b"\0" + source.read_bytes() + b"\0")
    return digest.hexdigest()[:16]


def _is_writable(folder: Path) -> bool:
    try:
        folder.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryFile(dir=folder):
            return True
    except OSError:
        return False


def prepare_cache() -> Path:
    """Choose the folder of compiled kernels and tell numba, unless the user already named one.

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
        # Only this user may write there: whoever can write a cache file can run code in this process.
        home = Path(tempfile.gettempdir()) / f"resonance-kernels-{os.getuid()}"
        home.mkdir(mode=0o700, exist_ok=True)
        if home.stat().st_uid != os.getuid():
            home = Path(tempfile.mkdtemp(prefix="resonance-kernels-"))
    folder = home / folder_name()
    os.environ["NUMBA_CACHE_DIR"] = str(folder)
    if "numba" in sys.modules:
        # Somebody has imported it before us, and it has read its settings.
        sys.modules["numba"].config.reload_config()
    return folder
