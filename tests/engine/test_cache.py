"""Where compiled kernels are kept."""

import shutil
import subprocess
import sys
from pathlib import Path

import pytest
from numba import types
from numba.core.dispatcher import Dispatcher
from resonance import engine
from resonance.engine import ENGINES
from resonance.engine.arithmetic import log
from resonance.engine.cache import folder_name, modules_behind, prepare_cache

SOURCES = Path(engine.__file__).parent
KERNELS = {
    "resonance.engine.caea.step",
    "resonance.engine.hcaea.tree",
    "resonance.engine.mlca.batch",
    "resonance.engine.modal.batch",
    "resonance.engine.evq.batch",
    "resonance.engine.modal.density",
}


@pytest.mark.parametrize(
    ("changed", "moved"),
    [
        ("caea/block.py", {"resonance.engine.caea.step", "resonance.engine.hcaea.tree"}),
        ("modal/cells.py", {"resonance.engine.modal.batch", "resonance.engine.modal.density"}),
        *(("hcaea/tree.py", {"resonance.engine.hcaea.tree"}), ("mlca/layout.py", {"resonance.engine.mlca.batch"})),
        *(("arithmetic.py", KERNELS), ("__init__.py", set())),
    ],
)
def test_a_change_moves_the_kernels_that_depend_on_it(tmp_path, changed, moved):
    folder = shutil.copytree(SOURCES, tmp_path / "engine")
    before = {kernel: folder_name(kernel, SOURCES) for kernel in KERNELS}
    (folder / changed).write_text((folder / changed).read_text() + "\n# changed\n")
    assert {kernel for kernel in KERNELS if folder_name(kernel, folder) != before[kernel]} == moved


def test_each_module_has_its_own_folder():
    kept = Path(log.stats.cache_path)
    assert kept.parent == prepare_cache() / folder_name("resonance.engine.arithmetic")


def test_a_folder_that_the_user_names_holds_all_kernels_and_numba_keeps_its_setting(tmp_path):
    code = (
        "import numba; numba.config.CACHE_DIR = 'mine'; from resonance.engine.arithmetic import log; "
        "print(log(1.0), numba.config.CACHE_DIR, log.stats.cache_path)"
    )
    run = subprocess.run(
        [sys.executable, "-c", code], env={"NUMBA_CACHE_DIR": str(tmp_path)}, capture_output=True, text=True, check=True
    )
    value, setting, kept = run.stdout.split()
    assert (value, setting, Path(kept).parents[1]) == ("0.0", "mine", tmp_path)
    assert list(tmp_path.rglob("*.nbi"))


@pytest.mark.parametrize("name", ENGINES)
def test_a_kernel_is_called_with_tuples_that_its_folder_depends_on(name):
    ENGINES[name].compile()
    for module in [each for own, each in sys.modules.items() if own.startswith("resonance.engine.")]:
        for kernel in vars(module).values():
            if isinstance(kernel, Dispatcher) and kernel.py_func.__module__ == module.__name__:
                kinds = [kind for call in kernel.signatures for kind in call if isinstance(kind, types.NamedTuple)]
                # Other tests may have called it with tuples of their own.
                homes = {kind.instance_class.__module__ for kind in kinds}
                own = {home for home in homes if home.startswith("resonance.")}
                assert own <= modules_behind(module.__name__), kernel.py_func.__name__
