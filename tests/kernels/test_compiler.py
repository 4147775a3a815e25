"""Machine code of the kernels that Python calls, and of no others."""

import shutil
import subprocess
import sys
from pathlib import Path

import pytest
from resonance import kernels

SAMPLE = '''
"""Two kernels, of which one calls the other."""

import numpy as np
from resonance.kernels.arithmetic import jit


@jit
def doubled(values):
    if len(values) == 0:
        raise ValueError("nothing")
    return 2.0 * values


@jit
def total(values):
    return doubled(values).sum()
'''
CALLER = """
import numpy as np
from resonance.engine.sample import doubled, total
print(total(np.ones(3)), LATER)
"""


@pytest.fixture(scope="module")
def call(tmp_path_factory):
    """Return what calls the sample in a new process, and what was kept."""
    folder = tmp_path_factory.mktemp("kernels")
    sources = shutil.copytree(Path(kernels.__file__).parents[1], folder / "resonance")
    (sources / "engine" / "sample.py").write_text(SAMPLE)
    environment = {"NUMBA_CACHE_DIR": str(folder / "kept"), "PYTHONPATH": str(folder)}

    def run(later):
        code = CALLER.replace("LATER", later)
        done = subprocess.run([sys.executable, "-c", code], env=environment, capture_output=True, text=True, check=True)
        kept = {file.name.split(".")[1].split("-")[0] for file in (folder / "kept").rglob("sample.*.nbi")}
        return done.stdout.strip(), kept

    return run


def test_a_kernel_is_kept_when_python_calls_it_and_in_any_order_comes_back_whole(call):
    assert call("''") == ("6.0", {"total"})
    # Its result needs a constant that the kept caller does not have.
    assert call("doubled(np.ones(2))") == ("6.0 [2. 2.]", {"total", "doubled"})
    assert call("doubled(np.ones(2)), sum(doubled.stats.cache_hits.values())") == (
        "6.0 [2. 2.] 1",
        {"total", "doubled"},
    )


def test_an_error_in_a_kernel_that_another_one_calls_is_raised(call):
    with pytest.raises(subprocess.CalledProcessError) as error:
        call("total(np.ones(0))")
    assert error.value.stderr.endswith("ValueError: nothing\n")


def test_threads_that_call_a_kernel_at_once_have_one_form_of_it(call):
    later = """[
    threads := [__import__("threading").Thread(target=lambda: doubled(np.ones(2))) for _ in range(4)],
    [each.start() for each in threads], [each.join() for each in threads],
    setattr(doubled, "_compile_for_args", None), doubled(np.ones(2)),
][-1]"""
    # Compiled for none of the later calls: numba's dispatcher finds the form.
    assert call(later)[0] == "6.0 [2. 2.]"
